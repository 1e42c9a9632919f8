"""Writes the records of a split with all cores, and reads records at any position.

A record file is a TFRecord file, as google-research/bert writes it. Its index, a file next to it,
contains the position of each record. Random access needs the index: a TFRecord file can only be
read from the start.

Shape letters: N examples, R records.
"""

import collections
import concurrent.futures
import dataclasses
import functools
import itertools
import json
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf

from bert_tf import features, files, json_files
from bert_tf.errors import InputError
from bert_tf.progress import Progress
from bert_tf.tasks.task import Encoded

_LOGGER = logging.getLogger(__name__)
_EXAMPLES_PER_BLOCK = 2048
_MAX_LISTED_RECORDS = 5
_HEADER_BYTES, _FOOTER_BYTES = 12, 4  # length and checksum; checksum: the TFRecord format
_INDEX_SUFFIX = ".index"
# The entry of `RecordIndex.counts` with the number of examples of `unlabelled_file`.
WITHOUT_LABELS = "without labels"
# The types of `RecordIndex.starts`, `num_tokens` and `records_per_example` in the file.
_DTYPES = tuple(map(np.dtype, ("<i8", "<u2", "<u4")))

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclasses.dataclass(frozen=True)
class RecordIndex:
    """The contents of an index.

    Attributes:
        key: Values that identify the content of the record file; see `write`.
        num_examples: N.
        counts: The number of unusual examples, by property; see `Encoded.counts`.
        starts: int64 [R + 1], the position of each record, and the size of the file.
        num_tokens: uint16 [R], the length of the longest sequence of each record.
        records_per_example: uint32 [N]; None if each example has one record.
    """

    key: Mapping[str, Any]
    num_examples: int
    counts: Mapping[str, int]
    starts: np.ndarray
    num_tokens: np.ndarray
    records_per_example: np.ndarray | None


class RecordFile:
    """A record file with its index.

    A file in a remote store, such as gs://, is copied to a local temporary folder, because random
    access to a remote file is slow.

    Args:
        path: The record file.
        index: Its index.

    Attributes:
        path: The argument `path`.
        index: The argument `index`.
        caches: Further features of the records, by name: `feature_cache.FeatureCache` objects.
    """

    def __init__(self, path: str, index: RecordIndex) -> None:
        self.path, self.index = path, index
        self.caches: dict[str, Any] = {}

    def __len__(self) -> int:
        return len(self.index.num_tokens)

    @property
    def num_labelled(self) -> int:
        """The number of records of examples with labels; all others follow them."""
        examples = self.index.num_examples - self.index.counts.get(WITHOUT_LABELS, 0)
        per_example = self.index.records_per_example
        return examples if per_example is None else int(per_example[:examples].sum())

    def read(self, records: np.ndarray) -> list[bytes]:
        """Returns the serialized records with the given indices."""
        starts, descriptor = self.index.starts, self._file.fileno()
        begins = (starts[records] + _HEADER_BYTES).tolist()
        ends = (starts[records + 1] - _FOOTER_BYTES).tolist()
        return [
            os.pread(descriptor, end - begin, begin)
            for begin, end in zip(begins, ends, strict=True)
        ]

    @functools.cached_property
    def _file(self) -> Any:
        if "://" not in self.path:
            return open(self.path, "rb")
        check_disk_space(tempfile.gettempdir(), int(self.index.starts[-1]), "a local copy")
        copy = tempfile.TemporaryFile()  # noqa: SIM115 it stays open as long as this object
        with files.explain_read_errors(self.path), tf.io.gfile.GFile(self.path, "rb") as file:
            shutil.copyfileobj(file, copy, 1 << 22)
        copy.flush()
        return copy


def read_index(path: str, key: Mapping[str, Any]) -> RecordIndex | None:
    """Reads the index of a record file.

    Args:
        path: The record file.
        key: As in `write`.

    Returns:
        The index; None if there is no complete and undamaged record file with this key.

    Raises:
        InputError: A file is a folder, a pipe or a device, or cannot be read.
    """
    if not tf.io.gfile.exists(path) or not tf.io.gfile.exists(path + _INDEX_SUFFIX):
        return None
    content = files.read_bytes(path + _INDEX_SUFFIX)
    try:
        facts, (starts, num_tokens, per_example) = _parse_index(content)
    except (ValueError, KeyError):  # damaged, or of an earlier version
        return None
    # Records are read without their checksums, so the file is checked as a whole.
    if facts["key"] != json.loads(json.dumps(key)) or files.sha256_of_file(path) != facts["sha256"]:
        return None
    return RecordIndex(
        key, facts["num_examples"], facts["counts"], starts, num_tokens,
        per_example if facts["records_per_example"] else None,
    )  # fmt: skip


def _has_index(path: str) -> bool:
    """Whether there is an index of a run, which starts with a checksum."""
    index = path + _INDEX_SUFFIX
    if not files.is_file(index):
        return False
    with files.explain_read_errors(index), tf.io.gfile.GFile(index, "rb") as file:
        return re.fullmatch(rb"[0-9a-f]{64}\n", file.read(65)) is not None


def _parse_index(content: bytes) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Returns the facts and the arrays of an index, which `_write_index` wrote."""
    checksum, _, rest = content.partition(b"\n")
    if files.sha256(rest).encode() != checksum:
        raise ValueError("the content has another SHA-256")
    line, _, data = rest.partition(b"\n")
    facts = json_files.parse(line.decode(), "the index")
    records = facts["num_records"]
    ends = 8 * (records + 1), 8 * (records + 1) + 2 * records
    parts = data[: ends[0]], data[ends[0] : ends[1]], data[ends[1] :]
    return facts, [np.frombuffer(part, each) for part, each in zip(parts, _DTYPES, strict=True)]


def write(
    path: str,
    examples: Iterable[Any],
    encode: Callable[[Sequence[Any]], Encoded],
    table: features.Table,
    key: Mapping[str, Any],
) -> RecordFile:
    """Writes the records of a split, and their index. Both files appear when they are complete.

    Args:
        path: The record file.
        examples: N examples; they are not held in memory.
        encode: Converts a block of examples to records; called by several threads.
        table: The features to write.
        key: JSON values that identify the content: two files with equal keys have equal content.

    Raises:
        InputError: The file cannot be written.
    """
    encoded = _map_in_order(lambda block: (encode(block), len(block)), _split_into_blocks(examples))
    blocks = _map_in_order(functools.partial(_serialize, table), _number_records(encoded))
    writer = _RecordWriter()
    with files.atomic_replace(path) as temporary, tf.io.TFRecordWriter(temporary) as file:
        name = os.path.basename(path)
        with Progress(f"writing {name}", None, "examples", log_end=False) as progress:
            for block in blocks:
                writer.write(file, block)
                progress.update(block.num_examples)
        file.close()
        index = writer.index(key)
        # Before the records, as in `move`.
        _write_index(path + _INDEX_SUFFIX, index, files.sha256_of_file(temporary))
    return RecordFile(path, index)


def move(records: RecordFile, path: str) -> RecordFile:
    """Moves a record file and its index to a folder of a run.

    Args:
        records: A record file with a local path.
        path: The new path, local or in a remote store.

    Raises:
        InputError: The disk has not enough space, the file cannot be written, or it exists and no
            run has written it.
    """
    if tf.io.gfile.exists(path) and not _has_index(path):
        raise InputError(
            f"{path} would be replaced, but no run has written it: it has no {_INDEX_SUFFIX} file "
            "of a run. Move it, or give another output_dir."
        )
    size = os.path.getsize(records.path)
    check_disk_space(os.path.dirname(path), size, os.path.basename(path))
    # The index first, so that records never exist without an index.
    for suffix in (_INDEX_SUFFIX, ""):
        with files.atomic_replace(path + suffix) as temporary:
            tf.io.gfile.copy(records.path + suffix, temporary, overwrite=True)
        os.remove(records.path + suffix)
    return RecordFile(path, records.index)


@dataclasses.dataclass(frozen=True)
class _Block:
    """The serialized records of a block of examples."""

    records: list[bytes]
    num_tokens: np.ndarray
    num_examples: int
    records_per_example: np.ndarray | None
    counts: Mapping[str, int]


def _number_records(blocks: Iterable[tuple[Encoded, int]]) -> Iterator[tuple[Encoded, int]]:
    """Adds the number of each record in the file, as the feature `UNIQUE_IDS`."""
    first = features.FIRST_UNIQUE_ID
    for encoded, num_examples in blocks:
        count = len(encoded.columns["input_ids"])
        columns = {**encoded.columns, features.UNIQUE_IDS.name: np.arange(first, first + count)}
        yield dataclasses.replace(encoded, columns=columns), num_examples
        first += count


def _serialize(table: features.Table, block: tuple[Encoded, int]) -> _Block:
    encoded, num_examples = block
    lengths = encoded.columns["input_mask"].sum(axis=-1)
    longest = lengths.max(axis=tuple(range(1, lengths.ndim)), initial=0)
    records = features.encode(encoded.columns, table)
    return _Block(
        records, longest.astype(np.uint16), num_examples, encoded.records_per_example,
        encoded.counts,
    )  # fmt: skip


class _RecordWriter:
    """Writes blocks to a file, and collects the values of the index."""

    def __init__(self) -> None:
        self._end, self._num_examples = 0, 0
        self._counts: collections.Counter[str] = collections.Counter()
        self._ends: list[np.ndarray] = [np.zeros(1, np.int64)]
        self._num_tokens: list[np.ndarray] = []
        self._records_per_example: list[np.ndarray] = []

    def write(self, file: tf.io.TFRecordWriter, block: _Block) -> None:
        for record in block.records:
            file.write(record)
        sizes = np.array([len(record) for record in block.records], np.int64)
        ends = self._end + np.cumsum(sizes + _HEADER_BYTES + _FOOTER_BYTES)
        self._end = int(ends[-1]) if len(ends) else self._end
        self._ends.append(ends)
        self._num_tokens.append(block.num_tokens)
        if block.records_per_example is not None:
            self._records_per_example.append(block.records_per_example.astype(np.uint32))
        self._num_examples += block.num_examples
        self._counts.update(block.counts)

    def index(self, key: Mapping[str, Any]) -> RecordIndex:
        per_example = self._records_per_example
        return RecordIndex(
            key, self._num_examples, dict(self._counts),
            np.concatenate(self._ends), np.concatenate(self._num_tokens),
            np.concatenate(per_example) if per_example else None,
        )  # fmt: skip


def _write_index(path: str, index: RecordIndex, sha256: str) -> None:
    """Writes the SHA-256 of the rest, the facts as a line of JSON, and the bytes of the arrays."""
    per_example = index.records_per_example
    facts = {
        "key": index.key, "num_examples": index.num_examples, "num_records": len(index.num_tokens),
        "counts": index.counts, "sha256": sha256, "records_per_example": per_example is not None,
    }  # fmt: skip
    arrays = index.starts, index.num_tokens, () if per_example is None else per_example
    parts = [np.asarray(array, each).tobytes() for array, each in zip(arrays, _DTYPES, strict=True)]
    rest = b"".join([json.dumps(facts).encode(), b"\n", *parts])
    files.write_bytes(path, files.sha256(rest).encode() + b"\n" + rest)


def describe(source: str, records: RecordFile, origin: np.ndarray) -> str:
    """Names the examples of a batch for a message.

    Args:
        source: The file of the examples.
        records: Their records.
        origin: The feature `objective.ORIGIN` of the batch.
    """
    numbers = np.unique(np.asarray(origin)[:, 1])
    per_example = records.index.records_per_example
    if per_example is not None:
        ends = np.cumsum(per_example)
        numbers = np.unique(np.searchsorted(ends, numbers, side="right"))
    listed = ", ".join(str(number + 1) for number in numbers[:_MAX_LISTED_RECORDS].tolist())
    more = len(numbers) - _MAX_LISTED_RECORDS
    rest = f", and {more} more" if more > 0 else ""
    order = os.path.basename(records.path)
    return f"{source}: examples {listed}{rest}, counted from 1 in the order of {order}"


def check_disk_space(folder: str, num_bytes: int, name: str) -> None:
    """Logs the size of a file that is about to be written.

    Raises:
        InputError: The file system of `folder` has less free space.
    """
    text = f"{name} will have {max(num_bytes / 1e6, 0.1):,.1f} MB"
    if "://" in folder:
        _LOGGER.info("%s.", text)
        return
    existing = os.path.abspath(folder or ".")
    while not os.path.exists(existing):
        existing = os.path.dirname(existing)
    free = shutil.disk_usage(existing).free
    if num_bytes > free:
        raise InputError(
            f"{text}, but {existing} has only {free / 1e6:,.1f} MB of free space. Free space, or "
            "choose a folder on another disk."
        )
    _LOGGER.info("%s (%s GB are free).", text, f"{free / 1e9:,.1f}")


def _split_into_blocks(examples: Iterable[Any]) -> Iterator[list[Any]]:
    iterator = iter(examples)
    yield list(itertools.islice(iterator, _EXAMPLES_PER_BLOCK))
    while block := list(itertools.islice(iterator, _EXAMPLES_PER_BLOCK)):
        yield block


def _map_in_order(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Applies a function in one thread per core; at most two results per thread wait."""
    threads = os.cpu_count() or 1
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        waiting: collections.deque[concurrent.futures.Future[Result]] = collections.deque()
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > 2 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
