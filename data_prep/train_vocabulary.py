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
    "max_characters", _DEFAULTS.max_characters, "Most frequent characters that are covered."
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
    tokens, missing = vocabulary.learn(counts.words, config)
    files.write_text(values.output_file, "\n".join(tokens) + "\n")
    print(f"{values.output_file}: {len(tokens)} entries from {len(counts.words):,} distinct words.")
    if counts.invalid_lines:
        print(
            f"{counts.invalid_lines:,} lines are not UTF-8, the first is {counts.first_invalid}. "
            f"The bytes that are not were left out.",
            file=sys.stderr,
        )
    if missing:
        print(
            f"The text gave {missing} pieces fewer than asked for; [unusedN] stand in for them.",
            file=sys.stderr,
        )


def run() -> None:
    """Entry point."""
    command_line.run(main)


if __name__ == "__main__":
    run()
