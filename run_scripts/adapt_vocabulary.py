r"""Gives frequent words of a domain entries in the vocabulary of a pretrained BERT.

    python run_scripts/adapt_vocabulary.py \
        --init_checkpoint=uncased_L-12_H-768_A-12.zip \
        --input_file='domain/*.txt' --num_words=500 --output_dir=adapted

The program counts the words of the input, by the rules of the tokenizer, and chooses
the words that cost the most WordPiece tokens: occurrences x (pieces - 1). A word
that becomes [UNK] counts as if each of its characters were a piece. The words replace
the [unusedN] entries; further words are appended. The weights of a new entry, in the
word embeddings and in the output bias of the masked LM, start as the mean of the
weights of the pieces that the word had. All else is unchanged.

Every tenth document is held out: the words are chosen on the other documents, and the
program reports the tokens per word and the share of [UNK] on the held-out documents,
with the old and with the new vocabulary. In a text file, a blank line ends a document.
Words of more than 50 characters are left out everywhere.

--output_dir becomes a checkpoint like any other, with the chosen words and their former
pieces in new_words.tsv. Pretrain this checkpoint on texts of the domain before
fine-tuning.
"""

import dataclasses
import os
import shlex
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from absl import flags

from bert_tf.cli import shared_flags
from bert_tf.corpus import text_blocks, text_formats
from bert_tf.errors import InputError
from bert_tf.program import command_line, config_flags, startup
from bert_tf.program.help_text import name_programs
from bert_tf.vocabularies import domain_words, word_counts

if TYPE_CHECKING:
    from bert_tf.conversion import CheckpointContents
    from bert_tf.tokenization import BertTokenizer

FLAGS = flags.FLAGS
config_flags.define(
    text_blocks.TextSource,
    texts={"input_file": "Comma-separated list of globs: the texts of the domain."},
)
shared_flags.define_model_flags(
    "The pretrained model, in any dialect of convert_checkpoint."
)
config_flags.define(domain_words.NewWordsConfig)
config_flags.define_path(
    "output_dir",
    "The folder to write; an earlier checkpoint of bert-tf in it is replaced.",
)
flags.mark_flags_as_required(["init_checkpoint", "output_dir"])
_FILE = "new_words.tsv"
_SHOWN = 20


def main() -> None:
    """Writes the adapted checkpoint and prints a report."""
    config = config_flags.build(domain_words.NewWordsConfig)
    source = config_flags.build(text_blocks.TextSource)
    startup.import_tensorflow()
    from bert_tf.conversion import write_weights
    from bert_tf.conversion.new_words import with_new_words
    from bert_tf.tokenization import BertTokenizer

    contents, old = _read_model()
    counts, documents = _count(source, False, old)

    # The words with the highest cost get entries.
    words = domain_words.choose_words(counts, old, config)
    adapted = with_new_words(contents, {word.word: word.pieces for word in words})
    new = BertTokenizer(adapted.vocabulary or (), old.do_lower_case)
    rows = domain_words.rows(words, old.vocabulary, new.vocabulary)

    held_out_counts, _ = _count(source, True, old)
    write_weights(adapted, FLAGS.output_dir, "bert-tf", {_FILE: "\n".join([*rows, ""])})

    # The report: costs before and after, on held-out documents.
    replaced = sum(word.word in new.vocabulary[: old.vocab_size] for word in words)
    print(
        f"{FLAGS.output_dir}: {len(words):,} new words, {replaced:,} in [unusedN] "
        f"entries. The vocabulary has {new.vocab_size:,} entries (before: "
        f"{old.vocab_size:,})."
    )
    print(domain_words.costs(held_out_counts, documents, old, new))
    print(f"The first words, of those in {_FILE}:", *rows[: _SHOWN + 1], sep="\n  ")
    folder = shlex.quote(FLAGS.output_dir.rstrip("/"))
    for step in (
        f"python data_prep/create_pretraining_data.py --vocab_file={folder}/vocab.txt "
        "...",
        f"python run_scripts/run_pretraining.py --init_checkpoint={folder} ...",
    ):
        print("Next:", name_programs(step, sys.argv[0]))


def _read_model() -> tuple["CheckpointContents", "BertTokenizer"]:
    """Reads the model, after a check that --output_dir can be written."""
    from bert_tf.conversion.writer import check_target
    from bert_tf.pretrained import read_pretrained

    paths = FLAGS.init_checkpoint, FLAGS.bert_config_file, FLAGS.vocab_file
    check_target(FLAGS.output_dir, "bert-tf", *filter(None, paths))
    casing = FLAGS.do_lower_case if FLAGS["do_lower_case"].present else None
    model = read_pretrained(*paths, do_lower_case=casing)
    if model.contents is None:
        raise InputError("The model is unknown. Give --init_checkpoint.")
    tokenizer = model.tokenizer
    contents = dataclasses.replace(
        model.contents,
        config=model.config,
        vocabulary=tokenizer.vocabulary,
        do_lower_case=tokenizer.do_lower_case,
    )
    return contents, tokenizer


def _count(
    source: text_blocks.TextSource, is_held_out: bool, tokenizer: "BertTokenizer"
) -> tuple[Mapping[str, int], int]:
    """Counts the words of the held-out or of the other documents, and counts all documents."""
    if source.input_file:  # a pipe cannot be read twice
        text_formats.input_files(
            source.input_file, source.input_format, source.text_feature
        )
    documents = text_blocks.DocumentFilter(is_held_out)
    blocks, _ = text_blocks.read_blocks(source, counter=documents)
    counts = word_counts.count_words(
        blocks, None, tokenizer.do_lower_case, os.cpu_count() or 1
    )
    if counts.warning and not is_held_out:
        print(counts.warning, file=sys.stderr)
    return counts.words, documents.documents


def run() -> None:
    """Runs the program from the command line."""
    command_line.run(main)


if __name__ == "__main__":
    run()
