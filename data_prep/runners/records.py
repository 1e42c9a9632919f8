"""Reads pretraining records of any origin in batches of columns.

Imports `features`, `files`, `errors`, `tokenization`; TensorFlow inside functions.
"""

import contextlib
import dataclasses
import gzip
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bert_tf import features, files
from bert_tf.errors import InputError, plain_message
from data_prep.pretraining_data.pairing import Vocabulary
from data_prep.pretraining_data.settings import RecordsConfig
from data_prep.runners import stages

_BATCH = 4096
_COPY_BYTES = 1 << 22
_GZIP = b"\x1f\x8b"
NO_EXAMPLE = "it is not a tf.train.Example"
OTHER_FEATURES = "other features or lengths than the first sound record"
Columns = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Batch:
    """Records that follow each other in a file.

    Attributes:
        path: The file.
        numbers: int64 [B], the place of each in it, from 0.
        columns: The columns of `bert_tf.features.PRETRAINING`; none if B is 0.
        faults: What else is there, in words, and the places of the records among them.
        is_first: Whether the file starts with them.
    """

    path: str
    numbers: np.ndarray
    columns: Columns
    faults: dict[str, list[int]]
    is_first: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether the file holds no record at all."""
        return self.is_first and not len(self.numbers) and not any(self.faults.values())


def load_vocabulary(vocab_file: str, do_lower_case: bool) -> tuple[Vocabulary, list[str]]:
    """The vocabulary's special ids, and its tokens.

    Raises:
        InputError: It cannot be used.
    """
    config = RecordsConfig(vocab_file, do_lower_case)
    return stages.vocabulary(config), stages.tokenizer(vocab_file, do_lower_case).vocabulary


def read(patterns: str) -> Iterator[Batch]:
    """All records, batch by batch; the first sound one tells the lengths.

    A file that is damaged is read up to the damage; one without records gives an empty batch.

    Args:
        patterns: Comma list of globs.

    Raises:
        InputError: No file, or one that cannot be opened.
    """
    sizes: dict[str, int] = {}
    for path in files.expand_globs(patterns, "record"):
        compression = _compression(path)
        parse: Any = None
        start = 0
        for serialized, damage in _serialized(path, compression):
            parse = parse or _parser(serialized, path, sizes)
            batch = _parsed(parse, serialized, path, start)
            is_first, start = start == 0, start + len(serialized)
            if damage:
                batch.faults[f"the file cannot be read from there on ({damage})"] = [start]
            yield dataclasses.replace(batch, is_first=is_first)


def _compression(path: str) -> str:
    """As TensorFlow names it; by the bytes, whatever the file's name."""
    import tensorflow as tf

    if tf.io.gfile.isdir(path):
        raise InputError(f"{path} is a folder; name the files in it.")
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            return "GZIP" if file.read(2) == _GZIP else ""
    except tf.errors.OpError as error:
        reason = plain_message(error).split("; ")[-1]
        raise InputError(f"{path} cannot be read: {reason}.") from error


def _serialized(path: str, compression: str) -> Iterator[tuple[list[bytes], str]]:
    """Batches of records, one at least, and with the last what is wrong with the next record."""
    import tensorflow as tf

    data = tf.data.TFRecordDataset(path, compression)
    start, damage, rest = 0, "", []
    try:
        for batch in data.batch(_BATCH):
            yield list(batch.numpy()), ""
            start += len(batch)
        # What TensorFlow takes for the end of a file may be a cut between two records.
        damage = _damage_of_gzip(path) if compression else ""
    except tf.errors.OpError as error:
        damage = plain_message(error)
        # With the damaged record TensorFlow withholds those before it in its batch.
        with contextlib.suppress(tf.errors.OpError):
            for record in data.skip(start).take(_BATCH):
                rest.append(record.numpy())
    if damage or not start:
        yield rest, damage


def _damage_of_gzip(path: str) -> str:
    """What is wrong with a packed file, in words; nothing if its end and checksum are there."""
    import tensorflow as tf

    with tf.io.gfile.GFile(path, "rb") as file, gzip.GzipFile(fileobj=file) as unpacked:
        try:
            while unpacked.read(_COPY_BYTES):
                pass
        except EOFError:
            return "the end of the gzip file is missing"
        except (OSError, zlib.error) as error:
            return str(error)
    return ""


def _parser(records: Sequence[bytes], path: str, sizes: dict[str, int]) -> Any:
    """For records like the first sound one, or None; fills `sizes` if it is empty."""
    for record in records:
        found = sizes or _sizes(record)
        with contextlib.suppress(InputError):
            names = features.names_in(record, features.PRETRAINING, found, path)
            parse = features.parser(features.PRETRAINING, found, names)
            with contextlib.suppress(*_misfits()):
                parse([record])
                sizes.update(found)
                return parse
    return None


def _sizes(record: bytes) -> dict[str, int]:
    """The lengths in a record, 1 at least."""
    found = _features(record) or {}
    counts = {
        letter: len(found[name].int64_list.value) if name in found else 0
        for letter, name in (("S", "input_mask"), ("P", "masked_lm_ids"))
    }
    return {letter: max(count, 1) for letter, count in counts.items()}


def _features(record: bytes) -> Any:
    """What is in a `tf.train.Example`; None if it is no such thing."""
    import tensorflow as tf

    try:
        return tf.train.Example.FromString(record).features.feature
    except Exception:  # protobuf's DecodeError lives in a module that has moved
        return None


def _misfits() -> tuple[type[Exception], ...]:
    """What parsing raises; TensorFlow fails to put bytes that are not UTF-8 into its message."""
    import tensorflow as tf

    return tf.errors.InvalidArgumentError, UnicodeDecodeError


def _parsed(parse: Any, serialized: Sequence[bytes], path: str, start: int) -> Batch:
    """Parses a batch; if that fails, record by record."""

    def columns(which: Sequence[bytes]) -> Columns:
        return {name: value.numpy() for name, value in parse(which).items()}

    def is_sound(record: bytes) -> bool:
        with contextlib.suppress(*_misfits()):
            return parse is not None and bool(parse([record]))
        return False

    numbers = np.arange(start, start + len(serialized))
    if parse is not None and len(serialized):
        with contextlib.suppress(*_misfits()):
            return Batch(path, numbers, columns(serialized), _faults())
    faults, good = _faults(), []
    for index, record in enumerate(serialized):
        if is_sound(record):
            good.append(index)
        else:
            rule = NO_EXAMPLE if _features(record) is None else OTHER_FEATURES
            faults[rule].append(start + index)
    found = columns([serialized[index] for index in good]) if good else {}
    return Batch(path, numbers[good], found, faults)


def _faults() -> dict[str, list[int]]:
    return {NO_EXAMPLE: [], OTHER_FEATURES: []}
