"""Runs the complete workflow on this machine, from raw text to predictions.

    bash run_scripts/quickstart.sh [--smoke] [--output_dir=quickstart_output]

Collects sample text from the documentation of Python and of the installed libraries,
learns a vocabulary, writes records, pretrains a small BERT with held-out evaluation,
fine-tunes a classifier that predicts the library that a passage is from, exports the
classifier, and classifies raw text in a process that does not import this project. This
takes about 8 minutes on 2 cores. If the same command is run again, completed stages are
skipped and an interrupted stage resumes.
"""

import os
import pathlib

from absl import flags

from bert_tf.errors import InputError
from bert_tf.program import command_line, config_flags, startup
from bert_tf.quickstart.report import format_report
from bert_tf.quickstart.stages import (
    ANSWERS,
    EXPORT,
    FINE_TUNING,
    FULL,
    NUM_EVALUATIONS,
    PRETRAINING,
    RECORDS,
    SAMPLE_DATA,
    SMOKE,
    VOCABULARY,
    Stages,
)
from bert_tf.storage.files import write_text
from bert_tf.storage.paths import check_output_folder
from bert_tf.storage.workspace import Workspace

FLAGS = flags.FLAGS
config_flags.define_path(
    "output_dir", "The folder for all results.", default="quickstart_output"
)
flags.DEFINE_bool("smoke", False, "Run a small version that takes about 2 minutes.")

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The files and folders of the results. The first stage writes FIRST_STATE before any of
# them.
RESULTS = (
    "bert_config.json",
    "sample",
    "vocab.txt",
    "records",
    "pretrained",
    "classifier",
    "export",
    "answers.json",
)
FIRST_STATE = "stages/sample_data.json"


def main() -> None:
    """Runs the stages that are not complete, then prints their results."""
    size = SMOKE if FLAGS.smoke else FULL
    if "://" in FLAGS.output_dir:
        raise InputError(
            f"--output_dir must be a local folder. Received: {FLAGS.output_dir}."
        )
    folder = os.path.abspath(FLAGS.output_dir) + ("/smoke" if FLAGS.smoke else "")
    check_output_dir(folder)
    startup.set_environment()  # for the program that imports nothing of this project
    stages = Stages(str(ROOT), folder, size)

    # From text to records.
    stages.run("sample data", "sample", SAMPLE_DATA)
    stages.run("vocabulary", "vocab.txt", VOCABULARY)
    heldout = RECORDS.replace("{part}", "heldout").replace("{dupe_factor}", "1")
    stages.run("records", "records", RECORDS.replace("{part}", "train"), heldout)

    # From records to predictions.
    write_text(f"{folder}/bert_config.json", size.bert_config().to_json())
    interval = size.num_train_steps // NUM_EVALUATIONS
    stages.run("pretraining", "pretrained", PRETRAINING, interval=interval)
    stages.run("fine-tuning", "classifier", FINE_TUNING)
    stages.run("export", "export", EXPORT)
    with startup.quiet_stderr():  # this program imports nothing of this project
        stages.run("answers", "answers.json", ANSWERS)
    print(format_report(folder, stages.secs))


def check_output_dir(folder: str) -> None:
    """Checks that the stages replace only files that an earlier quickstart has written."""
    check_output_folder(folder, RESULTS[0])
    Workspace(folder, "quickstart", "output_dir").check_owned([FIRST_STATE], RESULTS)


def run() -> None:
    """Runs the program from the command line."""
    command_line.run(main)


if __name__ == "__main__":
    run()
