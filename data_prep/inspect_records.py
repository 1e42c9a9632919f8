r"""Prints pretraining records as text, and audits them.

    python data_prep/inspect_records.py --input_file=records/*.tfrecord --vocab_file=vocab.txt

Reads the records of this project, of google-research/bert and of the Model Garden (both sets of
names), plain or gzip; the lengths are taken from the first record. Prints a few examples with the
masks in place ([MASK=went]: masked; went[=store]: replaced, was "store"; went[=]: kept), what all
of them hold, each rule that is broken and by how many, and how far the 80/10/10 mix is from the
probabilities expected. The exit code is 1 if a rule is broken.
"""

import itertools
import sys

from absl import flags

from bert_tf import command_line
from data_prep.pretraining_data import auditing, stats
from data_prep.runners import records

flags.DEFINE_string("input_file", None, "TFRecord files, a comma list of globs.")
flags.DEFINE_string("vocab_file", None, "The vocabulary they were made with.")
flags.DEFINE_bool("do_lower_case", True, "Whether it is for lower-cased text.")
flags.DEFINE_integer("num_examples", 3, "Examples to print.")
flags.DEFINE_float("mask_token_prob", 0.8, "Expected share of [MASK] among the predictions.")
flags.DEFINE_float("random_token_prob", 0.1, "Expected share of random tokens.")


def main() -> None:
    """Reads the flags, prints and audits."""
    values = flags.FLAGS
    vocabulary, tokens = records.load_vocabulary(values.vocab_file or "", values.do_lower_case)
    broken: dict[str, int] = {}
    counts: list[stats.Stats] = []
    left = values.num_examples
    for columns in records.read(values.input_file or ""):
        for number in itertools.islice(range(len(columns["input_ids"])), left):
            print(auditing.as_text(columns, number, tokens, vocabulary.mask_id), end="\n\n")
        left -= min(left, len(columns["input_ids"]))
        for rule, count in auditing.violations(columns, vocabulary).items():
            broken[rule] = broken.get(rule, 0) + count
        counts.append(stats.measure(columns, vocabulary.mask_id))
        counts = [stats.total(counts)]
    report = counts[0].report()
    # A random token is the token itself, or [MASK], once in so many draws.
    chance = values.random_token_prob / vocabulary.size
    print(stats.text(report))
    kept = 1 - values.mask_token_prob - values.random_token_prob
    expected = {
        "mask_token_share": values.mask_token_prob + chance,
        "random_token_share": values.random_token_prob - 2 * chance,
        "kept_token_share": kept + chance,
    }
    for line in auditing.shares(report, expected):
        print(f"  {line}")
    for rule, count in broken.items():
        if count:
            print(f"  BROKEN: {rule}, in {count:,} of {report['examples']:,} records")
    if any(broken.values()):
        sys.exit(1)
    print(f"  all {len(broken)} rules hold in all {report['examples']:,} records")


def run() -> None:
    """The console script."""
    command_line.run(main)


if __name__ == "__main__":
    run()
