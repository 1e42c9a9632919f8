r"""Learns a WordPiece vocabulary from text: the vocab.txt of a BERT of your own.

Words are counted as the tokenizer splits them, in parallel, then pieces are learned with
tensorflow_text's WordPiece learner, Google's algorithm. The file has exactly --vocab_size lines,
in the released order: [PAD], [unused0] ..., [UNK], [CLS], [SEP], [MASK] (ids 100 to 103 with 99 or
more [unusedN]), characters, pieces from frequent to rare. The same text and flags give the same
file.

    python -m data_prep.train_vocabulary --input_file='corpus/*.txt' --output_file=vocab.txt \
        --vocab_size=8000

Input is UTF-8 text with lines of any length, plain or .gz; TFRecords of tf.train.Example; or a
data set of tensorflow-datasets (--tfds_name=lm1b:train). Memory does not grow with it: it stays
under 2 GiB.
"""

import os
import sys
from collections.abc import Iterator

from absl import flags

from bert_tf import command_line, files
from data_prep import text_sources, vocabulary, word_counts

_DEFAULTS = vocabulary.VocabularyConfig()

flags.DEFINE_string("input_file", None, "Comma list of globs: text, TFRecords, either as .gz.")
flags.DEFINE_string("tfds_name", None, "Instead of input_file: data set and split, name:split.")
flags.DEFINE_string("tfds_data_dir", None, "Folder of prepared tensorflow-datasets.")
flags.DEFINE_string("text_feature", "text", "Feature that holds the text, in records.")
flags.DEFINE_string("output_file", None, "Where vocab.txt goes.", required=True)
flags.DEFINE_integer("vocab_size", _DEFAULTS.vocab_size, "Number of entries, exactly.")
flags.DEFINE_bool("do_lower_case", True, "Whether to lower-case the text and drop accents.")
flags.DEFINE_integer(
    "num_unused_tokens",
    _DEFAULTS.num_unused_tokens,
    "[unusedN] entries, for later use. 99 gives the special tokens their released ids.",
)
flags.DEFINE_integer(
    "max_words", _DEFAULTS.max_words, "Most frequent words that the learner looks at."
)
flags.DEFINE_integer(
    "max_characters",
    _DEFAULTS.max_characters,
    "How many of the most frequent characters are covered; words with others become [UNK]. A "
    "character takes two entries, an ideograph one. 0: those that make up 99.95 % of the text, "
    "and rarer ones, up to 1,000, while they fill less than half of the vocabulary.",
)
flags.DEFINE_integer(
    "num_workers", os.cpu_count() or 1, "Blocks of text counted at the same time, at most 8."
)


def main() -> None:
    """Reads the flags, learns, and writes the file."""
    values = flags.FLAGS
    config = vocabulary.VocabularyConfig(
        values.vocab_size,
        values.do_lower_case,
        values.num_unused_tokens,
        values.max_words,
        values.max_characters,
    )
    source = text_sources.TextSource(
        values.input_file, values.tfds_name, values.text_feature, values.tfds_data_dir
    )
    blocks, total_bytes = text_sources.blocks(source)
    counts = word_counts.count_words(blocks, total_bytes, config.do_lower_case, values.num_workers)
    learned = vocabulary.learn(counts.words, config)
    files.write_text(values.output_file, "\n".join(learned.tokens) + "\n")
    print(
        f"{values.output_file}: {len(learned.tokens)} entries from {len(counts.words):,} distinct "
        f"words."
    )
    for line in _remarks(counts, learned, config.max_words):
        print(line, file=sys.stderr)


def _remarks(
    counts: word_counts.WordCounts, learned: vocabulary.Vocabulary, max_words: int
) -> Iterator[str]:
    """What the user should know of text that was left out, and of entries that stay free."""
    if counts.invalid_lines:
        yield (
            f"{counts.invalid_lines:,} lines are not UTF-8, the first is {counts.first_invalid}. "
            f"The bytes that are not were left out."
        )
    if learned.left_out:
        yield (
            f"{learned.left_out:,} of {learned.characters:,} distinct characters are left out, "
            f"{learned.share_left_out:.3%} of the text: words with them become [UNK]. Raise "
            f"--max_characters or --vocab_size to cover more."
        )
    if learned.missing:
        whole = not learned.left_out and len(counts.words) <= max_words
        text = "The text" if whole else "What --max_characters and --max_words let through"
        yield (
            f"{text} gave {learned.missing:,} pieces fewer than asked for; [unusedN] stand in for "
            f"them."
        )


def run() -> None:
    """Entry point."""
    command_line.run(main)


if __name__ == "__main__":
    run()
