"""Reads pretraining records that any program created, in batches of columns."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf import features, manifest, tfrecords
from bert_tf.errors import InputError, plain_message
from bert_tf.masking.dynamic_masks import DynamicMasks

_BATCH = 4096
NOT_AN_EXAMPLE = "the record is not a tf.train.Example"
OTHER_FEATURES = (
    "the features or their lengths differ from those of the first valid record, or the given ones"
)
Columns = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Batch:
    """Consecutive records of a file.

    Attributes:
        path: The file.
        numbers: int64 [B], the index in the file, from 0, of each valid record.
        columns: The columns of `bert_tf.features.PRETRAINING` of the valid records, int64 or
            float32; empty if B is 0.
        faults: For each description of a fault, the indices of the records that have the fault.
    """

    path: str
    numbers: np.ndarray
    columns: Columns
    faults: dict[str, list[int]]


def read_records(patterns: str, masks: DynamicMasks, max_seq_length: int) -> Iterator[Batch]:
    """Reads all records in batches. The first valid record defines the lengths S and P.

    A damaged file is read up to the damage. A file without records gives one batch, which has
    neither columns nor faults.

    Args:
        patterns: Comma-separated list of globs.
        masks: The masks and the length P of unmasked records.
        max_seq_length: The length S of unmasked records.

    Raises:
        InputError: No file matches, or a file cannot be opened.
    """
    sizes: dict[str, int] = {}
    for path in manifest.find_records(patterns):
        parse: Any = None
        start = 0
        for serialized, damage in _read_serialized(path):
            if parse is None and any(map(features.is_unmasked, serialized)):
                parse = _masking_parser(masks, max_seq_length)
            parse = parse or _find_parser(serialized, path, sizes)
            batch = _parse_batch(parse, serialized, path, start)
            start += len(serialized)
            if damage:
                batch.faults[f"the file cannot be read from this record on ({damage})"] = [start]
            yield batch


def _read_serialized(path: str) -> Iterator[tuple[list[bytes], str]]:
    """Yields at least one batch of serialized records, and with each batch a description of damage.

    The description is empty, except with the last batch of a damaged file. There, the description
    is the reason why the record after the batch cannot be read.
    """
    data = tf.data.TFRecordDataset(path, tfrecords.compression(path))
    start = 0
    try:
        for batch in data.batch(_BATCH):
            yield list(batch.numpy()), ""
            start += len(batch)
    except tf.errors.OpError as error:
        # The batch that failed may contain valid records before the damaged record.
        rest = data.skip(start).ignore_errors()
        yield list(rest.as_numpy_iterator()), plain_message(error)
    else:
        if not start:
            yield [], ""


def _find_parser(records: Sequence[bytes], path: str, sizes: dict[str, int]) -> Any:
    """Returns a parser for the features of the first valid record, or None if no record is valid.

    Args:
        records: Serialized records of a file.
        path: The file.
        sizes: The lengths S and P. If empty, the lengths of the first valid record are added.
    """
    for record in records:
        found = sizes or _lengths(record)
        with contextlib.suppress(InputError):
            names = features.names_in(record, features.PRETRAINING, found, path)
            parse = features.parser(features.PRETRAINING, found, names, keep_int64=True)
            if _try_parse(parse, [record]):
                sizes.update(found)
                return parse
    return None


def _masking_parser(masks: DynamicMasks, max_seq_length: int) -> Callable[[Any], Any]:
    """Returns a function that parses unmasked records and masks them, as an evaluation does."""
    table = features.unmasked(masks.vocabulary.size)
    parse = features.parser(table, {"S": max_seq_length}, keep_int64=True)

    def parse_and_mask(records: Sequence[bytes]) -> dict[str, Any]:
        columns = parse(records)
        ids, lengths = columns[table[0].name], columns["lengths"]
        fits = features.unmasked_lengths(columns) <= max_seq_length
        fits &= tf.reduce_all((ids >= 0) & (ids < masks.vocabulary.size), axis=1)
        fits &= tf.reduce_all(lengths >= 0, axis=1)
        tf.debugging.Assert(tf.reduce_all(fits), ["a record is too long or has other ids"])
        masked = masks.mask({name: value.numpy() for name, value in columns.items()})
        return {name: tf.convert_to_tensor(values) for name, values in masked.items()}

    return parse_and_mask


def _lengths(record: bytes) -> dict[str, int]:
    """Returns the lengths S and P of a record, each at least 1."""
    found = features.values_in(record) or {}
    names = {"S": "input_mask", "P": "masked_lm_ids"}
    return {
        letter: max(len(found[name].int64_list.value), 1) if name in found else 1
        for letter, name in names.items()
    }


def _try_parse(parse: Any, records: Sequence[bytes]) -> Columns:
    """Parses records; returns no columns if there is no record or if any record is not valid."""
    # TensorFlow raises UnicodeDecodeError if its error message contains bytes that are not UTF-8.
    with contextlib.suppress(tf.errors.InvalidArgumentError, UnicodeDecodeError):
        if parse is not None and records:
            return {name: value.numpy() for name, value in parse(records).items()}
    return {}


def _parse_batch(parse: Any, serialized: Sequence[bytes], path: str, start: int) -> Batch:
    """Parses consecutive records of a file together, or one by one if any record is not valid.

    Args:
        parse: A parser of `_find_parser`, or None.
        serialized: The serialized records.
        path: The file.
        start: Index of the first serialized record in the file.
    """
    faults: dict[str, list[int]] = {}
    valid = list(range(len(serialized)))
    columns = _try_parse(parse, serialized)
    if not columns:
        valid = []
        for index, record in enumerate(serialized):
            if _try_parse(parse, [record]):
                valid.append(index)
            else:
                fault = NOT_AN_EXAMPLE if features.values_in(record) is None else OTHER_FEATURES
                faults.setdefault(fault, []).append(start + index)
        columns = _try_parse(parse, [serialized[index] for index in valid])
    return Batch(path, start + np.array(valid, np.int64), columns, faults)
