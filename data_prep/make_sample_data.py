"""Makes sample data from the documentation on this machine.

The data is for pretraining and fine-tuning. Nothing is downloaded: the text comes from
the docstrings of the Python standard library and of the installed packages that bert-tf
requires (TensorFlow, Keras, NumPy, SciPy, scikit-learn ...). It is real English, and
the same on every machine with the same package versions. For example,

    python data_prep/make_sample_data.py --output_dir=sample

writes about 12 MB of text in less than a minute on two cores:

    corpus/{train,heldout}.txt           for pretraining: one sentence per line, a blank
                                         line after each document
    classification/{train,dev,test}.tsv  columns "sentence" and "label": a passage, and
                                         the library whose documentation contains it
    README.txt                           a description of each file
    stats.json                           counts, package versions, SHA-256 of each file

No training text occurs in the evaluation data: documents that share any eight
consecutive words are in the same part (train, dev or test), in the corpus and in the
classification set, whose passages do not contain the name of any classified library.
"""

from bert_tf.program import command_line, config_flags, startup
from bert_tf.sample_data.build import SampleDataConfig, build_sample_data

config_flags.define_path(
    "output_dir", "The folder to write. It is written atomically.", required=True
)
config_flags.define(SampleDataConfig)


def main() -> None:
    """Builds the sample data and prints its counts."""
    config = config_flags.build(SampleDataConfig)
    startup.import_tensorflow()
    stats = build_sample_data(config)
    for name, part in stats["parts"].items():
        print(
            f"{name}: {part['documents']:,} documents, {part['sentences']:,} sentences"
        )
    print(f"Wrote {len(stats['files'])} files to {config.output_dir}.")


def run() -> None:
    """Runs the program from the command line."""
    command_line.run(main)


if __name__ == "__main__":
    run()
