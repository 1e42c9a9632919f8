"""Finds damaged records in TFRecord files, and copies the files without the damaged records.

TensorFlow's reader reports neither the file nor the index of a damaged record. The reader also
cannot read the records that follow a damaged record.

`bert_tf.tfrecords` describes the format of the files.
"""

import gzip
import json
import os
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import google_crc32c
import tensorflow as tf

from bert_tf import files
from bert_tf.errors import InputError
from bert_tf.progress import Progress
from bert_tf.tfrecords import (
    CHECKSUM,
    HEADER,
    compression,
    mask_crc32c,
    masked_crc32c,
    size_and_mtime,
)

_DATA_DAMAGED = "its data are damaged"
_LENGTH_DAMAGED = "its length field is damaged, so the records after it cannot be found"
_TRUNCATED = "the file is truncated within this record"
_GZIP_DAMAGED = "the compressed file is damaged or truncated at this record"
_BLOCK_BYTES = 1 << 20


class Damage(NamedTuple):
    """A record that cannot be read.

    Attributes:
        path: The file that contains the record.
        record: Index of the record in the file, from 0.
        reason: The reason why the record cannot be read.
    """

    path: str
    record: int
    reason: str


class Salvaged(NamedTuple):
    """The result of `salvage`: the paths of undamaged files, and counts of the lost data.

    Attributes:
        paths: For each input file, its path if the file is undamaged, else the path of the copy.
        dropped_records: Number of damaged records that were not copied.
        truncated_files: Number of files whose end could not be read and was not copied.
    """

    paths: list[str]
    dropped_records: int
    truncated_files: int


class _Frame(NamedTuple):
    """The byte range of a frame (length, record and checksums) in the decompressed file.

    Attributes:
        start: Offset of the first byte of the frame.
        end: Offset after the last byte of the frame; equal to `start` if the rest of the file
            cannot be read.
        damage: The reason why the record cannot be read; empty if the record is undamaged.
    """

    start: int
    end: int
    damage: str


def find_damage(paths: Sequence[str]) -> Damage | None:
    """Returns the first record that cannot be read, or None if all records can be read."""
    with Progress("looking for damaged records", len(paths), "files") as progress:
        for path in paths:
            for record, frame in enumerate(_frames(path)):
                if frame.damage:
                    return Damage(path, record, frame.damage)
            progress.update(1)
    return None


def salvage(paths: Sequence[str], folder: str) -> Salvaged:
    """Reads all files and copies the undamaged records of each damaged file.

    A record with damaged data is left out of the copy. The copy ends before the first record with a
    damaged length, before a truncated record, and before damaged compressed data.

    Args:
        paths: Record files, `.gz` if compressed.
        folder: Folder for the copies. Copies from an earlier call are reused.

    Raises:
        InputError: A file contains no undamaged record.
    """
    used, dropped_records, truncated_files = [], 0, 0
    with Progress("checking records", len(paths), "files") as progress:
        for path in paths:
            ranges, damaged_records, is_truncated = _readable_ranges(path)
            is_damaged = damaged_records or is_truncated
            used.append(_copy(path, ranges, folder) if is_damaged else path)
            dropped_records += damaged_records
            truncated_files += is_truncated
            progress.update(1)
    return Salvaged(used, dropped_records, truncated_files)


def _open(path: str) -> Any:
    file = tf.io.gfile.GFile(path, "rb")
    return gzip.GzipFile(fileobj=file, mode="rb") if compression(path) else file


def _frames(path: str) -> Iterator[_Frame]:
    """Yields the frames of a file, up to the first frame whose end cannot be found."""
    start = 0
    with _open(path) as file:
        while True:
            size, damage = _read_frame(file)
            if size or damage:
                yield _Frame(start, start + size, damage)
            if not size:
                return
            start += size


def _read_frame(file: Any) -> tuple[int, str]:
    """Reads the frame at the current position of a file.

    Returns:
        size: Size of the frame in bytes; 0 at the end of the file, or if the end of the frame
            cannot be found.
        damage: The reason why the record cannot be read; empty if the record is undamaged.
    """
    try:
        header = file.read(HEADER.size)
        if not header:
            return 0, ""
        if len(header) < HEADER.size:
            return 0, _TRUNCATED
        length, checksum = HEADER.unpack(header)
        if masked_crc32c(header[:8]) != checksum:
            return 0, _LENGTH_DAMAGED
        crc, left = 0, length
        while left:  # in blocks, because the length may exceed the memory
            block = file.read(min(left, _BLOCK_BYTES))
            if not block:
                return 0, _TRUNCATED
            crc = google_crc32c.extend(crc, block)
            left -= len(block)
        footer = file.read(CHECKSUM.size)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        return 0, _GZIP_DAMAGED
    if len(footer) < CHECKSUM.size:
        return 0, _TRUNCATED
    is_intact = CHECKSUM.unpack(footer) == (mask_crc32c(crc),)
    return HEADER.size + length + CHECKSUM.size, "" if is_intact else _DATA_DAMAGED


def _readable_ranges(path: str) -> tuple[list[list[int]], int, bool]:
    """Finds the undamaged parts of a file.

    Returns:
        ranges: Start and end offset of each sequence of adjacent undamaged frames.
        damaged_records: Number of records with damaged data.
        is_truncated: Whether the end of the file cannot be read.
    """
    ranges: list[list[int]] = []
    damaged_records, is_truncated = 0, False
    for start, end, damage in _frames(path):
        if damage:
            damaged_records += end > start
            is_truncated = end == start
        elif ranges and ranges[-1][1] == start:
            ranges[-1][1] = end
        else:
            ranges.append([start, end])
    return ranges, damaged_records, is_truncated


def _copy(path: str, ranges: list[list[int]], folder: str) -> str:
    """Copies byte ranges of a file to a new file in `folder`.

    The name of the new file contains a hash of the original file and of the ranges.
    """
    if not ranges:
        raise InputError(
            f"{path} holds no record that can be read. Remove it from the input files, or create "
            "it again."
        )
    identity = json.dumps([path, *size_and_mtime(path), ranges])
    digest = files.sha256(identity.encode())[:12]
    target = os.path.join(folder, f"{digest}-{os.path.basename(path)}")
    if tf.io.gfile.exists(target):
        return target
    with (
        files.atomic_replace(target) as temporary,
        _open(path) as source,
        tf.io.gfile.GFile(temporary, "wb") as file,
    ):
        if not compression(path):
            _copy_ranges(source, ranges, file)
        else:
            with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as compressed:
                _copy_ranges(source, ranges, compressed)
    return target


def _copy_ranges(source: Any, ranges: list[list[int]], target: Any) -> None:
    for start, end in ranges:
        source.seek(start)
        for position in range(start, end, _BLOCK_BYTES):
            target.write(source.read(min(_BLOCK_BYTES, end - position)))
