"""Damaged record files: which record it is, and copies without what is damaged.

TensorFlow's reader names neither file nor record, ends a file without a word where it is cut off
between two records, and cannot go on behind a damaged one.

A record file is a row of frames, little endian: the length of the record as uint64, the checksum
of these 8 bytes as uint32, the record, its checksum as uint32.

Source: TensorFlow's `record_writer.h`; the checksum is CRC-32C (RFC 3720, B.4), rotated by 15 bits
and added to a constant.
"""

import gzip
import itertools
import json
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf import files
from bert_tf.errors import InputError
from bert_tf.progress import Progress

_DATA = "its data are damaged"
_LENGTH = "its length field is damaged, so nothing behind it can be found"
_CUT = "the file is cut off within it"
_GZIP = "the compressed file is damaged or cut off there"
_AT_ONCE = 4096
_HEADER, _CHECKSUM = struct.Struct("<QI"), struct.Struct("<I")
_BLOCK_BYTES = 1 << 20


class Damage(NamedTuple):
    """A record that cannot be read.

    Attributes:
        path: The file.
        record: Its number in the file, from 0.
        reason: What is wrong with it.
    """

    path: str
    record: int
    reason: str


class Salvaged(NamedTuple):
    """What can be read of some record files.

    Attributes:
        paths: In the place of each file, itself if it is whole, else a copy.
        dropped_records: Damaged records that the copies lack.
        dropped_rests: Files whose copies lack everything from a damaged place on.
    """

    paths: list[str]
    dropped_records: int
    dropped_rests: int


def compression(path: str) -> str:
    """As TensorFlow's reader wants it: "GZIP" for `.gz`."""
    return "GZIP" if path.endswith(".gz") else ""


def find_damage(paths: Sequence[str]) -> Damage | None:
    """The first record that cannot be read; None where all can."""
    with Progress("looking for the damage", len(paths), "files") as progress:
        for path in paths:
            if not _is_whole(path):
                for record, frame in enumerate(_frames(path)):
                    if frame.reason:
                        return Damage(path, record, frame.reason)
            progress.update(1)
    return None


def salvage(paths: Sequence[str], folder: str) -> Salvaged:
    """Copies what can be read of damaged files; reads all of them once.

    A damaged record is left out; where its length field is damaged, where the file is cut off,
    and where compression is damaged, the rest of the file is.

    Args:
        paths: Record files, `.gz` if compressed.
        folder: Where to put the copies; one that is there from before is used again.

    Raises:
        InputError: Nothing of a file can be read.
    """
    used, dropped_records, dropped_rests = [], 0, 0
    with Progress("checking records", len(paths), "files") as progress:
        for path in paths:
            if _is_whole(path):
                used.append(path)
            else:
                kept, records, rests = _sorted_out(path)
                used.append(_copy(path, kept, folder))
                dropped_records += records
                dropped_rests += rests
            progress.update(1)
    return Salvaged(used, dropped_records, dropped_rests)


class _Frame(NamedTuple):
    """Where a record begins and ends, in decompressed bytes; `reason` if it cannot be read.

    Begin and end are the same where the rest of the file cannot be read.
    """

    start: int
    end: int
    reason: str


def _is_whole(path: str) -> bool:
    """Whether TensorFlow's reader, which is fast, gets all of a file."""
    found = 0
    try:
        for batch in tf.data.TFRecordDataset(path, compression(path)).batch(_AT_ONCE):
            lengths = tf.strings.length(batch).numpy()
            found += int(lengths.sum()) + len(lengths) * (_HEADER.size + _CHECKSUM.size)
    except tf.errors.DataLossError:
        return False
    size = tf.io.gfile.stat(path).length
    if not compression(path):
        return found == size
    with tf.io.gfile.GFile(path, "rb") as file:
        file.seek(max(size - _CHECKSUM.size, 0))
        end = file.read()  # a gzip file ends with the number of bytes in it, modulo 2^32
    return len(end) == _CHECKSUM.size and found % 2**32 == _CHECKSUM.unpack(end)[0]


def _frames(path: str) -> Iterator[_Frame]:
    """All frames, up to the first behind which nothing can be found."""
    start, contents = 0, _contents(path)
    while group := list(itertools.islice(contents, _AT_ONCE)):
        bodies = [each for each in group if isinstance(each, bytes)]
        records = [body[: -_CHECKSUM.size] for body in bodies]
        written = [_CHECKSUM.unpack(body[-_CHECKSUM.size :])[0] for body in bodies]
        for body, whole in zip(bodies, _checksums(records) == written, strict=True):
            end = start + _HEADER.size + len(body)
            yield _Frame(start, end, "" if whole else _DATA)
            start = end
        if isinstance(group[-1], str):
            yield _Frame(start, start, group[-1])


def _contents(path: str) -> Iterator[bytes | str]:
    """Each record with its checksum, as they stand there; last, why no more can be read if so."""
    with _opened(path) as file:
        try:
            while header := file.read(_HEADER.size):
                if len(header) < _HEADER.size:
                    yield _CUT
                    return
                length, checksum = _HEADER.unpack(header)
                if _checksum(header[:8]) != checksum:
                    yield _LENGTH
                    return
                body = file.read(length + _CHECKSUM.size)
                if len(body) < length + _CHECKSUM.size:
                    yield _CUT
                    return
                yield body
        except (EOFError, zlib.error, gzip.BadGzipFile):
            yield _GZIP


def _opened(path: str) -> Any:
    file = tf.io.gfile.GFile(path, "rb")
    return gzip.GzipFile(fileobj=file, mode="rb") if compression(path) else file


def _sorted_out(path: str) -> tuple[list[list[int]], int, int]:
    """Start and end of each run of whole frames; how many records, and rests, are not whole."""
    kept: list[list[int]] = [[0, 0]]
    records = rests = 0
    for start, end, reason in _frames(path):
        if reason:
            records += end > start
            rests += end == start
        elif start == kept[-1][1]:
            kept[-1][1] = end
        else:
            kept.append([start, end])
    return [each for each in kept if each[1] > each[0]], records, rests


def _copy(path: str, kept: list[list[int]], folder: str) -> str:
    """Copies the runs of frames into `folder`, under a name that says what they are."""
    if not kept:
        raise InputError(f"{path}: no record of it can be read. Leave it out, or write it anew.")
    found = tf.io.gfile.stat(path)
    identity = json.dumps([path, found.length, found.mtime_nsec, kept])
    digest = files.sha256(identity.encode())[:12]
    target = os.path.join(folder, f"{digest}-{os.path.basename(path)}")
    if tf.io.gfile.exists(target):
        return target
    with (
        files.atomic_replace(target) as temporary,
        _opened(path) as source,
        tf.io.gfile.GFile(temporary, "wb") as file,
    ):
        if not compression(path):
            _copy_runs(source, kept, file)
        else:
            with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as compressed:
                _copy_runs(source, kept, compressed)
    return target


def _copy_runs(source: Any, kept: list[list[int]], target: Any) -> None:
    for start, end in kept:
        source.seek(start)
        for at in range(start, end, _BLOCK_BYTES):
            target.write(source.read(min(_BLOCK_BYTES, end - at)))


def _table() -> np.ndarray:
    values: np.ndarray = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        values = values >> 1 ^ np.where(values & 1, np.uint32(0x82F63B78), np.uint32(0))
    return values


_TABLE = _table()
_TABLE_NUMBERS = _TABLE.tolist()  # numpy is slow on single numbers


def _checksum(content: bytes) -> int:
    """Of a few bytes."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc = _TABLE_NUMBERS[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _checksums(contents: Sequence[bytes]) -> np.ndarray:
    """Of each of many: uint32 [N]. A byte of each at a time."""
    data = np.frombuffer(b"".join(contents), np.uint8)
    lengths = np.array([len(content) for content in contents], np.int64)
    starts = np.cumsum(lengths) - lengths
    crc: np.ndarray = np.full(len(contents), 0xFFFFFFFF, np.uint32)
    for place in range(lengths.max(initial=0)):
        rows = np.flatnonzero(lengths > place)
        before = crc[rows]
        crc[rows] = _TABLE[(before ^ data[starts[rows] + place]) & 255] ^ before >> 8
    crc = ~crc
    return (crc >> 15 | crc << 17) + np.uint32(0xA282EAD8)
