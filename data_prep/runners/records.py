"""Reads pretraining records of any origin in batches of columns.

Imports `features`, `files`, `errors`, `tokenization`; TensorFlow inside functions.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from bert_tf import features, files
from bert_tf.errors import InputError
from data_prep.pretraining_data.masking import Vocabulary
from data_prep.pretraining_data.settings import RecordsConfig
from data_prep.runners import stages

_BATCH = 4096
_GZIP = b"\x1f\x8b"
Columns = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Batch:
    """Records that follow each other in a file.

    Attributes:
        path: The file.
        numbers: int64 [B], the place of each in it, from 0.
        columns: The columns of `bert_tf.features.PRETRAINING`.
        unreadable: Places of records among them that are not such columns.
    """

    path: str
    numbers: np.ndarray
    columns: Columns
    unreadable: list[int]


def load_vocabulary(vocab_file: str, do_lower_case: bool) -> tuple[Vocabulary, list[str]]:
    """The vocabulary's special ids, and its tokens.

    Raises:
        InputError: It cannot be used.
    """
    config = RecordsConfig(vocab_file, do_lower_case)
    return stages.vocabulary(config), stages.tokenizer(vocab_file, do_lower_case).vocabulary


def read(patterns: str) -> Iterator[Batch]:
    """All records, batch by batch; the first one of the first file tells the lengths.

    Args:
        patterns: Comma list of globs.

    Raises:
        InputError: No file, no record, a damaged file, one that lacks a feature or has other
            lengths.
    """
    import tensorflow as tf

    sizes: dict[str, int] = {}
    for path in files.expand(patterns, "record"):
        if tf.io.gfile.isdir(path):
            raise InputError(f"{path} is a folder; name the files in it.")
        with tf.io.gfile.GFile(path, "rb") as file:
            compression = "GZIP" if file.read(2) == _GZIP else ""
        data = tf.data.TFRecordDataset(path, compression)
        parse: Any = None
        start = 0
        try:
            for serialized in data.batch(_BATCH):
                parse = parse or _parser(serialized[0].numpy(), path, sizes)
                yield _parsed(parse, serialized, path, start)
                start += len(serialized)
        except tf.errors.OpError as error:
            raise InputError(f"{path} is damaged behind record {start}: {error.message}") from error
        if parse is None:
            raise InputError(f"{path} holds no record.")


def _parser(record: bytes, path: str, sizes: dict[str, int]) -> Any:
    """For records like this one: under its names, in its lengths; fills `sizes` if it is empty."""
    import tensorflow as tf

    try:
        found = tf.train.Example.FromString(record).features.feature
    except Exception as error:  # protobuf's DecodeError lives in a module that has moved
        raise InputError(f"{path} holds a record that is not a tf.train.Example.") from error
    if not sizes:
        sizes["S"] = len(found["input_mask"].int64_list.value)
        sizes["P"] = len(found["masked_lm_ids"].int64_list.value)
    names = features.names_in(record, features.PRETRAINING, sizes, path)
    return features.parser(features.PRETRAINING, sizes, names)


def _parsed(parse: Any, serialized: Any, path: str, start: int) -> Batch:
    """Parses a batch; if that fails, record by record."""
    import tensorflow as tf

    def columns(which: Any) -> Columns:
        return {name: value.numpy() for name, value in parse(which).items()}

    numbers = np.arange(start, start + len(serialized))
    try:
        return Batch(path, numbers, columns(serialized), [])
    except tf.errors.InvalidArgumentError:
        good: list[int] = []
        unreadable: list[int] = []
        for index in range(len(serialized)):
            try:
                columns(serialized[index : index + 1])
                good.append(index)
            except tf.errors.InvalidArgumentError:
                unreadable.append(start + index)
        readable = tf.gather(serialized, tf.constant(good, tf.int64))
        return Batch(path, numbers[good], columns(readable), unreadable)
