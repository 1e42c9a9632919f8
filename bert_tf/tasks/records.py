"""Columns -> record file -> batches, alike for every task."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf import features, files

_RECORDS_AT_ONCE = 4096
_BATCHES_TO_SORT = 16


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
    with files.atomic_replace(path) as temporary, tf.io.TFRecordWriter(temporary) as writer:
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
        cut: Put examples of like length into a batch, and cut it to its longest; else all have
            the same length.
    """
    dataset = tf.data.TFRecordDataset(path).shuffle(count, seed, reshuffle_each_iteration=True)
    dataset = dataset.repeat()
    if not cut:
        return _parsed(dataset.batch(batch_size, drop_remainder=True), table, max_seq_length)
    # A stretch is sorted, for examples of like length are seldom neighbours.
    stretches = dataset.batch(_BATCHES_TO_SORT * batch_size, drop_remainder=True)
    batches = _parsed(stretches, table, max_seq_length).enumerate()
    batches = batches.flat_map(lambda number, stretch: _by_length(stretch, (seed, number)))
    return _cut_to_longest(batches, table)


def evaluation_batches(
    path: str, table: features.Table, max_seq_length: int, batch_size: int
) -> tf.data.Dataset:
    """Each example once, in the order of the file, cut to the longest of its batch."""
    dataset = tf.data.TFRecordDataset(path).batch(batch_size)
    return _cut_to_longest(_parsed(dataset, table, max_seq_length), table)


def _parsed(
    dataset: tf.data.Dataset, table: features.Table, max_seq_length: int
) -> tf.data.Dataset:
    return dataset.map(features.parser(table, {"S": max_seq_length})).prefetch(2)


def _by_length(stretch: Mapping[str, Any], seed: tuple[Any, Any]) -> tf.data.Dataset:
    """The batches of a stretch, of like lengths in each, in any order of the lengths."""
    order = tf.argsort(tf.reduce_sum(stretch["input_mask"], axis=1), stable=True)
    rows = tf.reshape(order, [_BATCHES_TO_SORT, -1])
    order = tf.reshape(tf.random.experimental.stateless_shuffle(rows, seed), [-1])
    batches = {
        name: tf.reshape(
            tf.gather(value, order), tf.concat([[_BATCHES_TO_SORT, -1], tf.shape(value)[1:]], 0)
        )
        for name, value in stretch.items()
    }
    return tf.data.Dataset.from_tensor_slices(batches)


def _cut_to_longest(dataset: tf.data.Dataset, table: features.Table) -> tf.data.Dataset:
    per_token = {feature.name for feature in table if feature.shape[:1] == ("S",)}

    def cut(batch: Mapping[str, Any]) -> dict[str, Any]:
        longest = tf.reduce_max(tf.reduce_sum(batch["input_mask"], axis=1))
        return {
            name: value[:, :longest] if name in per_token else value
            for name, value in batch.items()
        }

    return dataset.map(cut).prefetch(2)
