"""Writes the records of a split with all cores, and reads records at any position.

A record file is a TFRecord file, as google-research/bert writes it. Its index, a file
next to it, contains the position of each record. Random access needs the index: a
TFRecord file can only be read from the start.

Shape letters: N examples, R records.
"""

import collections
import dataclasses
import functools
import io
import itertools
import json
import logging
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf import record_format
from bert_tf.errors import InputError, shortened
from bert_tf.progress import Progress, map_in_order
from bert_tf.storage import files, integrity
from bert_tf.storage.overwrite_rule import check_is_own
from bert_tf.tasks.task import Encoded

_LOGGER = logging.getLogger(__name__)
_EXAMPLES_PER_BLOCK = 2048
_MAX_LISTED_RECORDS = 5
# Of a record in the TFRecord format: length and checksum before it, checksum after it.
_HEADER_BYTES, _FOOTER_BYTES = 12, 4
_INDEX_SUFFIX = ".index"
# The entry of `RecordIndex.counts` with the number of examples of `unlabelled_file`.
WITHOUT_LABELS = "without labels"

Facts = Mapping[str, Any]  # JSON values by name


@dataclasses.dataclass(frozen=True)
class RecordIndex:
    """The contents of an index.

    Attributes:
        key: JSON values that identify the content of the record file.
        counts: The number of unusual examples, by property; see `Encoded.counts`.
        starts: int64 [R + 1], the position of each record, and the size of the file.
        num_tokens: uint16 [R], the length of the longest sequence of each record.
        records_per_example: uint32 [N]; None if each example has one record.
    """

    key: Facts
    num_examples: int
    counts: Mapping[str, int]
    starts: np.ndarray
    num_tokens: np.ndarray
    records_per_example: np.ndarray | None
    notes: Facts = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(eq=False)
class RecordFile:
    """A record file with its index.

    A file in a remote store, such as gs://, is copied to a local temporary folder,
    because random access to a remote file is slow. `caches` has further features of the
    records by name, as `output_cache.FeatureCache` objects.
    """

    path: str
    index: RecordIndex
    caches: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.index.num_tokens)

    @property
    def num_labelled(self) -> int:
        """The number of records of examples with labels, which precede all other records."""
        examples = self.index.num_examples - self.index.counts.get(WITHOUT_LABELS, 0)
        per_example = self.index.records_per_example
        return examples if per_example is None else int(per_example[:examples].sum())

    def read(self, records: np.ndarray) -> list[bytes]:
        """Returns the serialized records with the given indices."""
        starts = self.index.starts
        descriptor = self._file.fileno()
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
        check_disk_space(
            tempfile.gettempdir(), int(self.index.starts[-1]), "a local copy"
        )
        # It stays open as long as this object.
        copy = tempfile.TemporaryFile()  # noqa: SIM115
        with (
            files.explain_read_errors(self.path),
            tf.io.gfile.GFile(self.path, "rb") as file,
        ):
            shutil.copyfileobj(file, copy, 1 << 22)
        copy.flush()
        return copy


def read_index(path: str, key: Facts) -> RecordIndex | None:
    """Reads the index of a record file.

    Returns None if the index or the record file is missing, damaged or of another key.
    """
    if not tf.io.gfile.exists(path) or not tf.io.gfile.exists(path + _INDEX_SUFFIX):
        return None

    # The arrays and the facts; None if they are damaged, or of another version.
    content = io.BytesIO(files.read_bytes(path + _INDEX_SUFFIX))
    try:
        with np.load(content) as arrays:  # checks the checksum of each array
            facts = json.loads(arrays["facts"].tobytes())
            starts, num_tokens = arrays["starts"], arrays["num_tokens"]
            per_example = arrays.get("records_per_example")
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None

    # Records are read without their checksums, so the file is checked as a whole.
    is_same = facts["key"] == json.loads(json.dumps(key))
    if not is_same or any(integrity.changed_files("", {path: facts["sha256"]})):
        return None

    return RecordIndex(
        key,
        facts["num_examples"],
        counts=facts["counts"],
        starts=starts,
        num_tokens=num_tokens,
        records_per_example=per_example,
        notes=facts.get("notes", {}),
    )


def write(
    path: str,
    examples: Iterable[Any],
    encode: Callable[[Sequence[Any]], Encoded],
    table: record_format.Table,
    key: Facts,
    notes: Mapping[str, Any] = {},
) -> RecordFile:
    """Writes the records of a split, and their index.

    Both files appear when they are complete.

    Args:
        examples: N examples; they are not held in memory.
        encode: Converts a block of examples to records; called by several threads.
        key: JSON values that identify the content: two files with equal keys have equal
            content.
        notes: Further JSON values of the index. They may change while the examples are
            read.
    """
    # Threads encode blocks of examples and serialize their records, in order.
    encoded = map_in_order(encode, _split_into_blocks(examples))
    blocks = map_in_order(
        functools.partial(_serialize, table), _number_records(encoded)
    )

    written = []
    with (
        files.atomic_replace(path) as temporary,
        tf.io.TFRecordWriter(temporary) as file,
    ):
        name = os.path.basename(path)
        with Progress(f"writing {name}", None, "examples", log_end=False) as progress:
            for records, block in blocks:
                for record in records:
                    file.write(record)
                written.append(block)
                progress.update(block.num_examples)
        file.close()

        # The index appears before the records, as in `move`.
        index = _index_of(written, key, notes)
        _write_index(path + _INDEX_SUFFIX, index, files.sha256_of_file(temporary))
    return RecordFile(path, index)


def move(records: RecordFile, path: str) -> RecordFile:
    """Moves a local record file and its index to a folder of a run, local or remote.

    Raises:
        InputError: The disk has not enough space, the file cannot be written, or it
            exists and no run has written it.
    """
    check_is_own(
        "",
        [path],
        marks=[path + _INDEX_SUFFIX],
        reason=f"no run has written it: it has no {_INDEX_SUFFIX} file of a run",
        remedy="Move it, or give another output_dir",
    )
    size = os.path.getsize(records.path)
    check_disk_space(os.path.dirname(path), size, os.path.basename(path))

    # The index first, so that records never exist without an index.
    for suffix in (_INDEX_SUFFIX, ""):
        with files.atomic_replace(path + suffix) as temporary:
            tf.io.gfile.copy(records.path + suffix, temporary, overwrite=True)
        os.remove(records.path + suffix)
    return RecordFile(path, records.index)


class _Block(NamedTuple):
    """Facts about the records of a block of examples; see `RecordIndex`."""

    sizes: np.ndarray  # of the serialized records, in bytes
    num_tokens: np.ndarray
    num_examples: int
    records_per_example: np.ndarray | None
    counts: Mapping[str, int]


def _number_records(blocks: Iterable[Encoded]) -> Iterator[Encoded]:
    """Adds the number of each record in the file, as the feature `UNIQUE_IDS`."""
    first = record_format.FIRST_UNIQUE_ID
    for encoded in blocks:
        count = len(encoded.columns["input_ids"])
        columns = {
            **encoded.columns,
            record_format.UNIQUE_IDS.name: np.arange(first, first + count),
        }
        yield dataclasses.replace(encoded, columns=columns)
        first += count


def _serialize(
    table: record_format.Table, encoded: Encoded
) -> tuple[list[bytes], _Block]:
    # The length of the longest of the sequences of each record: [R] or [R, ...] -> [R]
    lengths = encoded.columns["input_mask"].sum(axis=-1)
    longest = lengths.max(axis=tuple(range(1, lengths.ndim)), initial=0)
    records = record_format.encode(encoded.columns, table)
    per_example = encoded.records_per_example  # None: one record for each example
    return records, _Block(
        np.array([len(record) for record in records], np.int64),
        longest.astype(np.uint16),
        num_examples=len(records if per_example is None else per_example),
        records_per_example=per_example,
        counts=encoded.counts,
    )


def _index_of(blocks: Sequence[_Block], key: Facts, notes: Facts) -> RecordIndex:
    """Returns the index of a record file that consists of one or more blocks."""
    sizes, num_tokens, num_examples, per_example, counts = zip(*blocks, strict=True)
    totals: collections.Counter[str] = collections.Counter()
    for block_counts in counts:
        totals.update(block_counts)

    steps = np.concatenate([[0], *sizes])
    steps[1:] += _HEADER_BYTES + _FOOTER_BYTES
    return RecordIndex(
        key,
        sum(num_examples),
        counts=dict(totals),
        starts=np.cumsum(steps),
        num_tokens=np.concatenate(num_tokens),
        records_per_example=None
        if per_example[0] is None
        else np.concatenate(per_example).astype(np.uint32),
        notes=notes,
    )


def _write_index(path: str, index: RecordIndex, sha256: str) -> None:
    """Writes an .npz file with the arrays, and the facts as bytes of JSON."""
    facts = {
        "key": index.key,
        "num_examples": index.num_examples,
        "counts": index.counts,
        "sha256": sha256,
        "notes": index.notes,
    }
    arrays: dict[str, Any] = {"starts": index.starts, "num_tokens": index.num_tokens}
    if index.records_per_example is not None:
        arrays["records_per_example"] = index.records_per_example

    content = io.BytesIO()
    np.savez(
        content, facts=np.frombuffer(json.dumps(facts).encode(), np.uint8), **arrays
    )
    files.write_bytes(path, content.getvalue())


def describe(source: str, records: RecordFile, origin: np.ndarray) -> str:
    """Lists the examples of a batch for a message; `origin` is the batch's feature ORIGIN."""
    # The examples of the records, from 0.
    numbers = np.unique(np.asarray(origin)[:, 1])
    per_example = records.index.records_per_example
    if per_example is not None:
        ends = np.cumsum(per_example)
        numbers = np.unique(np.searchsorted(ends, numbers, side="right"))

    listed = shortened(
        [str(number + 1) for number in numbers.tolist()], _MAX_LISTED_RECORDS
    )
    order = os.path.basename(records.path)
    return f"{source}: examples {listed}, counted from 1 in the order of {order}"


def check_disk_space(folder: str, num_bytes: int, name: str) -> None:
    """Logs the size of a file to be written; raises `InputError` if the disk lacks the space."""
    text = f"{name} will have {max(num_bytes / 1e6, 0.1):,.1f} MB"
    if "://" in folder:
        _LOGGER.info("%s.", text)
        return

    # The folder may not exist yet.
    existing = os.path.abspath(folder or ".")
    while not os.path.exists(existing):
        existing = os.path.dirname(existing)
    free = shutil.disk_usage(existing).free
    if num_bytes > free:
        raise InputError(
            f"{text}, but {existing} has only {free / 1e6:,.1f} MB of free space. Free "
            "space, or choose a folder on another disk."
        )
    _LOGGER.info("%s (%s GB are free).", text, f"{free / 1e9:,.1f}")


def _split_into_blocks(examples: Iterable[Any]) -> Iterator[list[Any]]:
    iterator = iter(examples)
    yield list(itertools.islice(iterator, _EXAMPLES_PER_BLOCK))
    while block := list(itertools.islice(iterator, _EXAMPLES_PER_BLOCK)):
        yield block
