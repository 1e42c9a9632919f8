r"""Prints pretraining records as text, and audits them.

    python data_prep/inspect_records.py --input_file=records/*.tfrecord --vocab_file=vocab.txt

Reads the records of this project, of google-research/bert and of the Model Garden (both sets of
names), plain or gzip; the lengths are taken from the first sound record. Prints a few examples with
the masks in place ([MASK=went]: masked; went[=store]: replaced, was "store"; went[=]: kept), what
all of them hold, each rule that a record breaks, with the first records that do, and figure by
figure whether they are distributed as these flags let expect. A figure that is "NOT as expected"
would be so by chance once in a million times, however few records there are.

A file that is damaged is read up to the damage, which is named with its record, and the others are
read too. A shard that a manifest beside it lists must have the SHA-256 that stands there.

Exit codes: 0 all is as expected; 1 a rule is broken or a figure is not as expected; 2 no record can
be read.
"""

import dataclasses
import sys

from absl import flags

from bert_tf import command_line
from data_prep.pretraining_data import settings
from data_prep.runners import inspecting

flags.DEFINE_string("input_file", None, "TFRecord files, a comma list of globs.")
flags.DEFINE_string("vocab_file", None, "The vocabulary they were made with.")
flags.DEFINE_bool("do_lower_case", True, "Whether it is for lower-cased text.")
flags.DEFINE_integer("num_examples", 3, "Examples to print.")
flags.DEFINE_enum("objective", "mlm_nsp", settings.OBJECTIVES, "What they were made for.")
flags.DEFINE_float("masked_lm_prob", 0.15, "Expected share of predictions among the tokens.")
flags.DEFINE_float("short_seq_prob", 0.1, "Expected share of documents cut to shorter sequences.")
flags.DEFINE_float("mask_token_prob", 0.8, "Expected share of [MASK] among the predictions.")
flags.DEFINE_float("random_token_prob", 0.1, "Expected share of random tokens.")
flags.DEFINE_bool("do_whole_word_mask", False, "Whether whole words were masked.")
flags.DEFINE_integer("max_ngram_size", 1, "Longest run of words that was masked as one.")
flags.DEFINE_bool(
    "replace_whole_words",
    False,
    "Whether [MASK], random or same was drawn for a word, as the Model Garden does with whole "
    "words; google-research/bert draws for a token.",
)


def main() -> None:
    """Reads the flags, prints and audits."""
    values = flags.FLAGS
    config = settings.RecordsConfig(values.vocab_file or "")
    given = {name: getattr(values, name) for name in set(config.to_dict()) & set(values)}
    config = dataclasses.replace(config, **{**given, "vocab_file": values.vocab_file or ""})
    if not inspecting.inspect(config, values.input_file or "", values.num_examples):
        sys.exit(1)


def run() -> None:
    """The console script."""
    command_line.run(main)


if __name__ == "__main__":
    run()
