r"""Prints pretraining records as text and checks them.

    python data_prep/inspect_records.py --input_file=records/*.tfrecord --vocab_file=vocab.txt

Reads plain and gzip-compressed records of this project, of google-research/bert and of the Model
Garden (with both sets of feature names). The first valid record defines the lengths. The program
prints a few records with their predictions ([MASK=went]: [MASK] replaces "went"; went[=store]:
"went" replaces "store"; went[=]: "went" is not replaced), statistics of all records, each rule that
is broken with the first records that break it, and each measured figure with the values that are
expected for these flags. Correct records have a figure that is "NOT as expected" less than once in
a million times, even if there are few records.

A damaged file is read up to the damaged record, which is reported; the other files are still read.
If a manifest in the same folder lists a file, the SHA-256 of the file must be the listed one.

Exit codes: 0 if all is as expected; 1 if a rule is broken or a figure is not as expected; 2 if no
record can be read.
"""

import sys

from absl import flags

from bert_tf import command_line
from data_prep import config_flags
from data_prep.pretraining_data import settings
from data_prep.runners import inspection

flags.DEFINE_string("input_file", None, "TFRecord files, a comma list of globs.", required=True)
flags.DEFINE_string("vocab_file", None, "The vocabulary of the records.", required=True)
flags.DEFINE_integer("num_examples", 3, "Number of records to print.")
# The settings that the records should have been created with.
config_flags.define(
    settings.RecordsConfig,
    (
        *("objective", "do_lower_case", "masked_lm_prob", "short_seq_prob", "mask_token_prob"),
        *("random_token_prob", "do_whole_word_mask", "max_ngram_size", "replace_whole_words"),
    ),
)


def main() -> None:
    """Builds the expected settings from the flags and inspects the records."""
    values = flags.FLAGS
    config = config_flags.build(settings.RecordsConfig)
    if not inspection.inspect(config, values.input_file, values.num_examples):
        sys.exit(1)


def run() -> None:
    """The console script."""
    command_line.run(main)


if __name__ == "__main__":
    run()
