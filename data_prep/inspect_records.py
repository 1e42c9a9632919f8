r"""Prints pretraining records as text and checks the records.

    python data_prep/inspect_records.py \
      --input_file=records/*.tfrecord --vocab_file=vocab.txt

Reads plain and gzip-compressed records of this project, of google-research/bert and of
the Model Garden. Both sets of feature names of the Model Garden are known. The expected
lengths of the features are taken from the first record. Records of --masking=dynamic
are masked with the given flags. The program prints:

- a few records with their predictions ([MASK=went]: [MASK] replaces "went";
  went[=store]: "went" replaces "store"; went[=]: "went" is a prediction but is not
  replaced);
- statistics of all records;
- each format rule that records break, and the first records that break the rule;
- each measured figure, and the values expected of the figure for the given flags. For
  correctly created records, the probability that a figure is "NOT as expected" is below
  one in a million, even for few records.

A damaged file is read up to the damaged record, and the damage is reported. The other
files are still read. If a manifest in the same folder lists a file, the SHA-256 of the
file must equal the SHA-256 in the manifest.

Exit codes: 0 if no rule is broken and all figures are as expected; 1 if a rule is
broken or a figure is not as expected; 2 if no record can be read, or a file has other
features or lengths.
"""

import sys

from absl import flags

from bert_tf.program import command_line, config_flags, startup
from bert_tf.record_creation import records_config

config_flags.define_path(
    "input_file", "TFRecord files, a comma list of globs.", required=True
)
config_flags.define_path("vocab_file", "The vocabulary of the records.", required=True)
flags.DEFINE_integer("num_examples", 3, "Number of records to print.", lower_bound=0)
# The settings with which the records are expected to have been created.
config_flags.define(
    records_config.RecordsConfig,
    (
        "objective",
        "do_lower_case",
        "masked_lm_prob",
        "short_seq_prob",
        "mask_token_prob",
        "random_token_prob",
        "do_whole_word_mask",
        "max_ngram_size",
        "replace_whole_words",
        "max_seq_length",
        "max_predictions_per_seq",
    ),
    texts={
        "max_seq_length": "Length of the sequences of records of --masking=dynamic.",
        "max_predictions_per_seq": (
            "Largest number of masks in records of --masking=dynamic."
        ),
    },
)


def main() -> None:
    """Builds the expected settings from the flags and inspects the records."""
    values = flags.FLAGS
    config = config_flags.build(records_config.RecordsConfig)
    startup.import_tensorflow()
    from bert_tf.record_jobs import inspection

    if not inspection.inspect(config, values.input_file, values.num_examples):
        sys.exit(1)


def run() -> None:
    """Runs the program from the command line."""
    command_line.run(main)


if __name__ == "__main__":
    run()
