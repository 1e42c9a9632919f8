"""Columns -> record file -> batches, alike for every task."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf import features, files

_RECORDS_AT_ONCE = 4096


def write(path: str, columns: Mapping[str, np.ndarray], table: features.Table) -> int:
    """Writes the examples, whole or not at all.

    Args:
        path: The record file.
        columns: Arrays [N, ...].
        table: The features to write.

    Returns:
        N.
    """
    count = len(columns[table[0].name])
    with files.replacing(path) as temporary, tf.io.TFRecordWriter(temporary) as writer:
        for start in range(0, count, _RECORDS_AT_ONCE):
            part = {
                name: value[start : start + _RECORDS_AT_ONCE] for name, value in columns.items()
            }
            for record in features.encode(part, table):
                writer.write(record)
    return count


def training_batches(
    path: str,
    count: int,
    table: features.Table,
    max_seq_length: int,
    batch_size: int,
    seed: int,
    cut: bool = True,
) -> tf.data.Dataset:
    """Endless batches; each pass goes through all examples in another order.

    Args:
        path: A record file.
        count: Examples in it: all of them are shuffled.
        table: Its features.
        max_seq_length: Length of its sequences.
        batch_size: Examples in a batch.
        seed: Of the order.
        cut: Cut each batch to its longest example; else all have the same length.
    """
    dataset = tf.data.TFRecordDataset(path).shuffle(count, seed, reshuffle_each_iteration=True)
    dataset = dataset.repeat().batch(batch_size, drop_remainder=True)
    return _parsed(dataset, table, max_seq_length, cut)


def evaluation_batches(
    path: str, table: features.Table, max_seq_length: int, batch_size: int
) -> tf.data.Dataset:
    """Each example once, in the order of the file, cut to the longest of its batch."""
    dataset = tf.data.TFRecordDataset(path).batch(batch_size)
    return _parsed(dataset, table, max_seq_length, cut=True)


def _parsed(
    dataset: tf.data.Dataset, table: features.Table, max_seq_length: int, cut: bool
) -> tf.data.Dataset:
    dataset = dataset.map(features.parser(table, {"S": max_seq_length}))
    if cut:
        per_token = {feature.name for feature in table if feature.shape[:1] == ("S",)}
        dataset = dataset.map(lambda batch: _cut(batch, per_token))
    return dataset.prefetch(2)


def _cut(batch: Mapping[str, Any], per_token: set[str]) -> dict[str, Any]:
    longest = tf.reduce_max(tf.reduce_sum(batch["input_mask"], axis=1))
    return {
        name: value[:, :longest] if name in per_token else value for name, value in batch.items()
    }
