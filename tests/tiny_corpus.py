"""A small vocabulary, texts that use it, and records of these texts."""

import random

import numpy as np
import tensorflow as tf
from tiny_bert import SPECIAL

from bert_tf import record_format
from bert_tf.record_creation.records_config import RecordsConfig
from bert_tf.record_jobs import local
from bert_tf.record_jobs.base import create_records

WORDS = [f"w{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(300)]
PIECES = ["##x", "##yz", "##q"]
VOCABULARY = [*SPECIAL, *WORDS, *PIECES]
CLS, SEP, MASK = 2, 3, 4
# With these settings, the input is cut into many small segments (groups of whole
# documents), so that every stage has several tasks.
MANY_SEGMENTS = {
    "segment_bytes": 20000, "pool_bytes": 70000, "dupe_factor": 3, "eval_fraction": 0.2,
    "num_output_shards": 3,
}  # fmt: skip


def vocabulary_file(folder):
    """Writes the vocabulary and returns its path."""
    path = folder / "vocab.txt"
    path.write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    return str(path)


def contents(folder):
    """Returns the name and bytes of each file in a folder, without hidden folders."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def corpus(documents, seed=0, longest_sentence=25, longest_document=30):
    """Returns random documents: lists of sentences.

    Words have 0 to 2 WordPiece suffixes.
    """
    rng = random.Random(seed)
    return [
        [
            [
                rng.choice(WORDS) + "".join(rng.choices(["x", "yz", "q", "", ""], k=2))
                for _ in range(rng.randint(1, longest_sentence))
            ]
            for _ in range(rng.randint(1, longest_document))
        ]
        for _ in range(documents)
    ]


def text_of(documents):
    """Returns text with one sentence per line and a blank line between documents."""
    return (
        "\n\n".join("\n".join(" ".join(s) for s in document) for document in documents)
        + "\n"
    )


def ids_of(documents, tokenizer):
    """Returns the token ids of each sentence of each document."""
    return [
        [tokenizer.tokenize([" ".join(s)]).to_list()[0] for s in document]
        for document in documents
    ]


def parsed(paths, length, predictions, compression=""):
    """Reads record files.

    Returns an array of [number of examples, ...] for each feature.
    """
    data = tf.data.TFRecordDataset(paths, compression_type=compression.upper()).batch(
        1 << 20
    )
    parse = record_format.parser(
        record_format.PRETRAINING, {"S": length, "P": predictions}
    )
    batches = [parse(batch) for batch in data]
    return {k: np.concatenate([b[k].numpy() for b in batches]) for k in batches[0]}


def unmasked(columns):
    """Returns the ids [N, S] of records with the labels at their positions."""
    ids = columns["input_ids"].copy()
    rows, predictions = np.nonzero(columns["masked_lm_weights"])
    positions, labels = (
        columns[name][rows, predictions]
        for name in ("masked_lm_positions", "masked_lm_ids")
    )
    ids[rows, positions] = labels
    return ids


def write_records(path, records, compression=""):
    """Writes serialized records as a TFRecord file; returns its path as text."""
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for record in records:
            writer.write(record)
    return str(path)


def create(config, source, *outputs, workers=1, overwrite=False):
    """Creates records on this machine; returns their statistics."""
    paths = [str(path) for path in outputs]
    with local.runner_for(config, str(source), workers) as runner:
        return create_records(runner, config, str(source), paths, overwrite)


def make(tmp_path, vocab_file, text, name="out/data.tfrecord", workers=1, **flags):
    """Creates records of a text; returns their statistics and the output paths."""
    source = tmp_path / "corpus.txt"
    source.write_bytes(text if isinstance(text, bytes) else text.encode())
    config = RecordsConfig(vocab_file, **flags)
    outputs = [str(tmp_path / each) for each in name.split(",")]
    return create(config, source, *outputs, workers=workers), outputs
