r"""Measures vocabularies of small texts: tokens per word of held-out text, ten sizes.

The sizes are around the number of entries for which the learner reaches threshold 1.
There, its subwords are all words and no parts of words; bert-tf keeps the subwords of
higher thresholds. The package `tokenizers` learns vocabularies of the same sizes from
the same text. All vocabularies are used by bert-tf's tokenizer.

    python benchmarks/vocabulary_sizes.py \
        --input_file=de.train.txt --held_out_file=de.dev.txt
"""

import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tokenizers
from absl import flags

from bert_tf.corpus import text_blocks
from bert_tf.program import command_line
from bert_tf.tokenization import BertTokenizer
from bert_tf.vocabularies import learning, word_counts

FLAGS = flags.FLAGS
flags.DEFINE_string("input_file", None, "The text to learn from.", required=True)
flags.DEFINE_string("held_out_file", None, "The text to measure.", required=True)
flags.DEFINE_bool("do_lower_case", True, "Whether to lower-case the text.")

SHARES = (0.9, 0.95, 0.98, 0.995, 1, 1.005, 1.02, 1.1, 1.5, 2)


def learn_with_tokenizers(path, size):
    """Returns the vocabulary that `tokenizers` learns with byte pair encoding."""
    trainer = tokenizers.BertWordPieceTokenizer(lowercase=FLAGS.do_lower_case)
    special = ["[PAD]", *(f"[unused{index}]" for index in range(99)), "[UNK]", "[CLS]",
               "[SEP]", "[MASK]"]  # fmt: skip
    trainer.train(
        path,
        vocab_size=size,
        min_frequency=1,
        special_tokens=special,
        show_progress=False,
    )
    return sorted(trainer.get_vocab(), key=trainer.get_vocab().get)


def tokens_per_word(entries, lines):
    """Returns the number of tokens of the lines per word of the lines."""
    tokenizer = BertTokenizer(entries, FLAGS.do_lower_case)
    words = tokenizer.words(lines).flat_values.shape[0]
    return tokenizer.tokenize(lines).flat_values.shape[0] / words


def main():
    """Prints one row for each size."""
    path, lower = FLAGS.input_file, FLAGS.do_lower_case
    lines = pathlib.Path(FLAGS.held_out_file).read_text("utf-8").splitlines()
    blocks, total = text_blocks.read_blocks(text_blocks.TextSource(path))
    counts = word_counts.count_words(blocks, total, lower, num_workers=1).words
    at_two = len(learning._learn_subwords(counts.most_common(), 2)) + 104
    print(
        f"{len(counts):,} distinct words; threshold 1 is reached above {at_two:,} "
        "entries"
    )
    print("     size  filled up  [unusedN]  bert-tf  tokenizers (entries)")
    for share in SHARES:
        size = round(at_two * share)
        learned = learning.learn(counts, learning.VocabularyConfig(size))
        other = learn_with_tokenizers(path, size)
        print(
            f"{size:9,}  {learned.added:9,}  {learned.missing:9,}  "
            f"{tokens_per_word(learned.tokens, lines):7.3f}  "
            f"{tokens_per_word(other, lines):10.3f} ({len(other):,})"
        )


if __name__ == "__main__":
    command_line.run(main)
