r"""Learns a WordPiece vocabulary from text and writes the vocabulary as vocab.txt.

The text is split into words with BERT's tokenizer, and the words are counted in
parallel. Then Google's WordPiece learner (in tensorflow_text) learns subwords from the
counts. The vocabulary has exactly --vocab_size lines, in the order of
google-research/bert: [PAD], [unused0] ..., [UNK], [CLS], [SEP], [MASK], characters,
subwords from frequent to rare. With 99 or more [unusedN] entries, the ids of [UNK],
[CLS], [SEP] and [MASK] are 100 to 103. The same text and flags give the same
vocabulary.

--do_lower_case=true, the default, also strips accents: "Über" becomes "uber". The
casing is written next to the vocabulary, to vocab.txt.json. The other programs use this
casing by default, and raise an error if their flag gives another casing.

    python data_prep/train_vocabulary.py \
        --input_file='corpus/*.txt' --output_file=vocab.txt \
        --vocab_size=8000

The input files are UTF-8 text with lines of any length, JSON lines (.jsonl), TFRecords
of tf.train.Example (.tfrecord) or Parquet (.parquet). All of these except Parquet may
be compressed with gzip (.gz). The input can also be standard input (--input_file=-) or
a data set of tensorflow-datasets (--tfds_name=lm1b:train). The program uses less than 2
GiB of memory for any size of the input.
"""

import os
import sys
from collections.abc import Iterator

from absl import flags

from bert_tf.corpus import text_blocks
from bert_tf.program import command_line, config_flags, startup
from bert_tf.storage.paths import check_output_file, is_stdout
from bert_tf.tokenization.vocabulary import unknown_warning, write_vocabulary
from bert_tf.vocabularies import learning, word_counts

config_flags.define(text_blocks.TextSource)
config_flags.define_path("output_file", "The vocab.txt to write.", required=True)
config_flags.define(learning.VocabularyConfig)
flags.DEFINE_integer(
    "num_workers",
    os.cpu_count() or 1,
    "Blocks of text counted in parallel, at most 8.",
    1,
)


def main() -> None:
    """Counts the words, learns the vocabulary, and writes it to the output file."""
    values = flags.FLAGS
    config = config_flags.build(learning.VocabularyConfig)
    source = config_flags.build(text_blocks.TextSource)
    check_output_file(values.output_file)

    # The text is read once: its words, documents and sentences are counted together.
    startup.import_tensorflow()
    counter = text_blocks.TextCounter()
    blocks, total_bytes = text_blocks.read_blocks(source, values.output_file, counter)
    counts = word_counts.count_words(
        blocks, total_bytes, config.do_lower_case, values.num_workers
    )

    learned = learning.learn(counts.words, config)
    write_vocabulary(values.output_file, learned.tokens, config.do_lower_case)
    print(
        f"{values.output_file}: {len(learned.tokens)} entries from "
        f"{len(counts.words):,} distinct words. {learned.unknown:,} of "
        f"{counts.words.total():,} words become [UNK]. The text has "
        f"{counter.documents:,} documents and {counter.sentences:,} sentences.",
        file=sys.stderr if is_stdout(values.output_file) else None,
    )
    for line in _warnings(counts, learned):
        print(line, file=sys.stderr)


def _warnings(
    counts: word_counts.WordCounts, learned: learning.LearnedVocabulary
) -> Iterator[str]:
    """Yields warnings about invalid bytes, uncovered characters, [UNK] and too little text."""
    if counts.warning:
        yield counts.warning
    if learned.uncovered:
        yield (
            f"{learned.uncovered:,} of {learned.characters:,} distinct characters are "
            "not covered: words with them become [UNK]. Raise --max_characters or "
            "--vocab_size to cover more."
        )

    total = counts.words.total()
    remedy = "The vocabulary needs to cover more characters"
    if warning := unknown_warning(learned.unknown, total, "words of the text", remedy):
        yield warning

    # Warnings about a text that is too small.
    if learned.added:
        yield (
            f"Rare words and parts of words fill {learned.added:,} entries: the text "
            "is small."
        )
    if learned.missing:
        yield (
            f"The text gave {learned.missing:,} entries fewer than --vocab_size needs, "
            "within --max_characters and --max_words; [unusedN] entries fill up the "
            "file."
        )


def run() -> None:
    """Runs the program from the command line."""
    command_line.run(main)


if __name__ == "__main__":
    run()
