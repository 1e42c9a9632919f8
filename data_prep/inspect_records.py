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

import dataclasses
import sys

from absl import flags

from bert_tf import command_line
from data_prep.pretraining_data import settings
from data_prep.runners import inspection

_DEFAULTS = settings.RecordsConfig("")
# The settings that the records should have been created with.
_SETTINGS = {
    "do_lower_case": "Whether the vocabulary is for lower-cased text.",
    "masked_lm_prob": "Expected share of predictions among the tokens.",
    "short_seq_prob": "Expected share of documents that are cut into shorter sequences.",
    "mask_token_prob": "Expected share of [MASK] among the predictions.",
    "random_token_prob": "Expected share of random tokens among the predictions.",
    "do_whole_word_mask": "Whether all tokens of a word or none were masked.",
    "max_ngram_size": "Largest number of adjacent words that were masked together.",
    "replace_whole_words": "Whether one draw chose the replacement of all tokens of a word.",
}
_DEFINE = {bool: flags.DEFINE_bool, int: flags.DEFINE_integer, float: flags.DEFINE_float}

flags.DEFINE_string("input_file", None, "TFRecord files, a comma-separated list of globs.")
flags.DEFINE_string("vocab_file", None, "The vocabulary that the records were created with.")
flags.DEFINE_integer("num_examples", 3, "Number of records to print.")
flags.DEFINE_enum("objective", _DEFAULTS.objective, settings.OBJECTIVES, "Their objective.")
for _name, _help in _SETTINGS.items():
    _DEFINE[type(getattr(_DEFAULTS, _name))](_name, getattr(_DEFAULTS, _name), _help)


def main() -> None:
    """Builds the settings from the flags and inspects the records."""
    values = flags.FLAGS
    given = {name: getattr(values, name) for name in (*_SETTINGS, "objective")}
    config = dataclasses.replace(_DEFAULTS, **given, vocab_file=values.vocab_file or "")
    if not inspection.inspect(config, values.input_file or "", values.num_examples):
        sys.exit(1)


def run() -> None:
    """The console script."""
    command_line.run(main)


if __name__ == "__main__":
    run()
