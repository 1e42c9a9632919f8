"""Reads pretraining records as batches for training and for evaluation.

Imports `damage`, `record_checks`; `training.step.objective`.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.pretraining import damage
from bert_tf.pretraining.record_checks import check_files, checking_parser
from bert_tf.training.step.objective import ORIGIN

_FILES_AT_ONCE = 16
_READ_BYTES = 1 << 20  # for a remote store, a small read takes as long as a large one
_RECORDS_PER_FILE = 1 << 40  # an upper bound, so that one int64 holds file and record


def training_batches(
    paths: Sequence[str],
    sizes: Mapping[str, int],
    batch_size: int,
    seed: int,
    shuffle_buffer_size: int,
) -> tf.data.Dataset:
    """Returns endless shuffled batches in an order that depends only on the seed.

    A batch also holds `objective.ORIGIN`: int64 [B, 2], the index of each example's file in `paths`
    and the index of the record in that file. The position of the dataset's iterator can be saved in
    a checkpoint. It depends on neither the names of the files nor their later content, so a run can
    resume with files that were moved, or with copies of `damage.salvage`.

    Args:
        paths: Record files, `.gz` if compressed.
        sizes: The lengths that the records were written with and, to check ids, the size of the
            vocabulary: {"S": ..., "P": ..., "V": ...}.
        batch_size: Examples in a batch.
        seed: Seed of the order.
        shuffle_buffer_size: Size of the shuffle buffer, in examples; each epoch has another order.

    Raises:
        InputError: The records do not match `features.PRETRAINING`, or the length of a file differs
            from its manifest.
    """
    parse = checking_parser(sizes, check_files(paths, sizes))
    indices = tf.data.Dataset.range(len(paths))
    indices = indices.shuffle(len(paths), seed, reshuffle_each_iteration=True)
    dataset = indices.interleave(_reader(paths), cycle_length=min(len(paths), _FILES_AT_ONCE))
    dataset = dataset.shuffle(shuffle_buffer_size, seed, reshuffle_each_iteration=True)
    dataset = dataset.repeat().batch(batch_size, drop_remainder=True)

    def parse_with_origin(place: Any, records: Any) -> dict[str, Any]:
        origin = tf.stack([place // _RECORDS_PER_FILE, place % _RECORDS_PER_FILE], axis=1)
        return {**parse(records), ORIGIN: origin}

    dataset = dataset.map(parse_with_origin, num_parallel_calls=2, deterministic=True)
    return dataset.prefetch(2)


def evaluation_batches(
    paths: Sequence[str], sizes: Mapping[str, int], batch_size: int
) -> tf.data.Dataset:
    """Returns batches with each example once, in file order; the last batch may be smaller.

    Args:
        paths: Record files, `.gz` if compressed.
        sizes: As in `training_batches`.
        batch_size: Examples in a batch.

    Raises:
        InputError: As in `training_batches`.
    """
    parse = checking_parser(sizes, check_files(paths, sizes))
    dataset = tf.data.Dataset.range(len(paths)).flat_map(_reader(paths)).batch(batch_size)
    return dataset.map(lambda place, records: parse(records)).prefetch(2)


def _reader(paths: Sequence[str]) -> Callable[[Any], tf.data.Dataset]:
    """Returns a function from a file's index to a dataset of (place, record).

    The place is one int64: index of the file * `_RECORDS_PER_FILE` + index of the record.
    """
    names = tf.constant(list(paths))
    compressions = tf.constant([damage.compression(path) for path in paths])

    def read(file: Any) -> tf.data.Dataset:
        # `tf.data.TFRecordDataset` would save the file's name as a part of the position.
        records = tf.data.experimental.from_variant(
            tf.raw_ops.TFRecordDataset(
                filenames=names[file], compression_type=compressions[file], buffer_size=_READ_BYTES
            ),
            tf.TensorSpec([], tf.string),
        )
        return records.enumerate(file * _RECORDS_PER_FILE)

    return read


def describe_origins(paths: Sequence[str], origins: np.ndarray, most: int = 5) -> str:
    """Describes records: "a.tfrecord: records 17, 1042; b.tfrecord: records 3, and 27 more".

    Args:
        paths: As in `training_batches`.
        origins: The `objective.ORIGIN` of the examples, int64 [N, 2].
        most: Largest number of records to list.
    """
    places = np.unique(np.asarray(origins), axis=0).tolist()
    described = []
    for file, group in itertools.groupby(places[:most], key=lambda place: place[0]):
        described.append(f"{paths[file]}: records {', '.join(str(record) for _, record in group)}")
    more = len(places) - most
    return "; ".join(described) + (f", and {more} more" if more > 0 else "")
