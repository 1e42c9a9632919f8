r"""Collects the predictions of GLUE runs in one zip file for the GLUE server.

    python run_scripts/make_glue_submission.py --output_file=submission.zip \
        --input_dirs=/tmp/mrpc_output,/tmp/mnli_output,/tmp/rte_output

A run with --do_predict=true writes the submission file of its task, such as MRPC.tsv,
into its output folder. The program checks that each file has a prediction for each
example of the official test file. The server requires eleven files; the program lists
the missing files.
"""

from absl import flags

from bert_tf.program import command_line, config_flags, startup

FLAGS = flags.FLAGS
config_flags.define_path(
    "input_dirs",
    "Folders with submission files, separated by commas: the --output_dir of each run.",
    required=True,
    define_flag=flags.DEFINE_list,
)
config_flags.define_path(
    "output_file", "The zip file to write; an existing one is replaced.", required=True
)


def main() -> None:
    """Writes the zip file and prints its content."""
    startup.import_tensorflow()
    from bert_tf.tasks.classification.submission import write_submission_zip

    print(write_submission_zip(FLAGS.input_dirs, FLAGS.output_file))


def run() -> None:
    """Runs the program from the command line."""
    command_line.run(main)


if __name__ == "__main__":
    run()
