"""Makes sample data for every stage of BERT from the documentation on this machine.

Nothing is downloaded. The text is the docstrings of the Python standard library and of the
installed packages that bert-tf requires (TensorFlow, Keras, NumPy, SciPy, scikit-learn ...):
real English, the same on every machine with the same versions. For example

    python data_prep/make_sample_data.py --output_dir=sample

writes about 12 MB of text in less than a minute on two cores:

    sample/corpus/{train,heldout}.txt          for pretraining: one sentence a line, a blank line
                                               after each document
    sample/classification/{train,dev,test}.tsv sentence, label: which library a passage is from
    sample/pairs/{train,dev,test}.tsv          MRPC's columns: from the same entry or not
    sample/squad/{train,dev}-v{1.1,2.0}.json   SQuAD's JSON: what an argument means
    sample/swag/{train,val,test}.csv           SWAG's columns: which sentence continues this one
    sample/ner/{train,dev,test}.conll          CoNLL-2003's columns: which words are code
    sample/README.txt                          how each was made
    sample/stats.json                          counts, package versions, SHA-256 of each file

Nothing leaks from training to evaluation: documents that share any eight words in a row are all on
one side, in the corpus and in every labelled set, and a passage to classify names no library.
"""

from absl import flags

from bert_tf import command_line
from data_prep.sample_data.build import SampleDataConfig, build

FLAGS = flags.FLAGS

flags.DEFINE_string("output_dir", None, "The folder to write. It appears whole or not at all.")
flags.DEFINE_integer(
    "max_documents",
    0,
    "Harvest at most this many docstrings, from the six libraries to classify, and be done sooner; "
    "0 means everything.",
)
flags.DEFINE_float(
    "heldout_fraction",
    0.1,
    "The share of the text that is not for training: half of it for development sets, half for "
    "test sets, both for the held-out corpus.",
)
flags.DEFINE_integer("seed", 12345, "Seed of the split and of every choice of examples.")
flags.DEFINE_integer(
    "num_workers", 2, "Processes that read source files. The result does not depend on it."
)
flags.DEFINE_bool("overwrite", False, "Replace the sample data that the folder holds already.")
flags.mark_flag_as_required("output_dir")


def main() -> None:
    """Reads the flags, builds the folder, says what it holds."""
    config = SampleDataConfig(
        output_dir=FLAGS.output_dir,
        max_documents=FLAGS.max_documents,
        heldout_fraction=FLAGS.heldout_fraction,
        seed=FLAGS.seed,
        num_workers=FLAGS.num_workers,
        overwrite=FLAGS.overwrite,
    )
    stats = build(config)
    for name, part in stats["parts"].items():
        print(f"{name}: {part['documents']:,} documents, {part['sentences']:,} sentences")
    print(f"Wrote {len(stats['files'])} files to {config.output_dir}.")


def run() -> None:
    """Entry point."""
    command_line.run(main)


if __name__ == "__main__":
    run()
