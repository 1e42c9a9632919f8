"""Writes the examples of a task to a record file, and reads record files as batches."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf import features, files
from bert_tf.training.shuffling import shuffle

_RECORDS_PER_CALL = 4096
_BATCHES_PER_WINDOW = 16


def write(path: str, columns: Mapping[str, np.ndarray], table: features.Table) -> int:
    """Writes examples to a record file atomically.

    Args:
        path: The record file.
        columns: For each feature, an array [N, ...].
        table: The features to write.

    Returns:
        The number of examples, N.
    """
    count = len(columns[table[0].name])
    with files.atomic_replace(path) as temporary, tf.io.TFRecordWriter(temporary) as writer:
        for start in range(0, count, _RECORDS_PER_CALL):
            end = start + _RECORDS_PER_CALL
            part = {name: values[start:end] for name, values in columns.items()}
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
    trim: bool = True,
) -> tf.data.Dataset:
    """Returns an infinite dataset of batches; the examples are reshuffled in each epoch.

    Args:
        path: A record file.
        count: The number of examples in the file; also the size of the shuffle buffer.
        table: The features of a record.
        max_seq_length: Length of the sequences in the file.
        batch_size: Examples per batch.
        seed: Seed for the order of the examples.
        trim: Whether to group examples of similar length into batches, and to shorten each batch to
            the length of its longest sequence. If False, sequences keep `max_seq_length` tokens.
    """
    dataset = shuffle(tf.data.TFRecordDataset(path), count, seed).repeat()
    if not trim:
        return _parse(dataset.batch(batch_size, drop_remainder=True), table, max_seq_length)
    # A window contains the examples of several batches. Examples of similar length are grouped
    # within each window.
    windows = dataset.batch(_BATCHES_PER_WINDOW * batch_size, drop_remainder=True)
    windows = _parse(windows, table, max_seq_length).enumerate()
    batches = windows.flat_map(lambda number, window: _batch_by_length(window, (seed, number)))
    return _trim_to_longest(batches, table)


def evaluation_batches(
    path: str, table: features.Table, max_seq_length: int, batch_size: int
) -> tf.data.Dataset:
    """Returns batches in file order, each shortened to the length of its longest sequence."""
    dataset = tf.data.TFRecordDataset(path).batch(batch_size)
    return _trim_to_longest(_parse(dataset, table, max_seq_length), table)


def _parse(dataset: tf.data.Dataset, table: features.Table, max_seq_length: int) -> tf.data.Dataset:
    return dataset.map(features.parser(table, {"S": max_seq_length})).prefetch(2)


def _batch_by_length(window: Mapping[str, Any], seed: tuple[Any, Any]) -> tf.data.Dataset:
    """Returns batches of examples of similar length from a window, in a random order."""
    order = tf.argsort(tf.reduce_sum(window["input_mask"], axis=1), stable=True)
    rows = tf.reshape(order, [_BATCHES_PER_WINDOW, -1])
    order = tf.reshape(tf.random.experimental.stateless_shuffle(rows, seed), [-1])
    batches = {
        name: tf.reshape(
            tf.gather(values, order),
            tf.concat([[_BATCHES_PER_WINDOW, -1], tf.shape(values)[1:]], 0),
        )
        for name, values in window.items()
    }
    return tf.data.Dataset.from_tensor_slices(batches)


def _trim_to_longest(dataset: tf.data.Dataset, table: features.Table) -> tf.data.Dataset:
    per_token = {feature.name for feature in table if feature.shape[:1] == ("S",)}

    def trim(batch: Mapping[str, Any]) -> dict[str, Any]:
        longest = tf.reduce_max(tf.reduce_sum(batch["input_mask"], axis=1))
        return {
            name: values[:, :longest] if name in per_token else values
            for name, values in batch.items()
        }

    return dataset.map(trim).prefetch(2)
