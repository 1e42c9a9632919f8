"""Copies TFRecord files without their damaged records.

TensorFlow's reader cannot read the records that follow a damaged record.

`bert_tf.tfrecords` describes the format of the files.
"""

import gzip
import json
import os
import zlib
from collections.abc import Sequence
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

_BLOCK_BYTES = 1 << 20


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


def _read_frame(file: Any) -> tuple[int, bool]:
    """Reads the frame (length, record and checksums) at the current position of a file.

    Returns:
        size: Size of the frame in bytes; 0 at the end of the file, or if the end of the frame
            cannot be found.
        is_intact: Whether the record can be read, or the file ends here.
    """
    try:
        header = file.read(HEADER.size)
        if len(header) < HEADER.size:
            return 0, not header
        left, checksum = HEADER.unpack(header)
        size = HEADER.size + left + CHECKSUM.size
        if masked_crc32c(header[:8]) != checksum:
            return 0, False
        crc = 0
        while left:  # in blocks, because the length may exceed the memory
            block = file.read(min(left, _BLOCK_BYTES))
            if not block:
                return 0, False
            crc = google_crc32c.extend(crc, block)
            left -= len(block)
        footer = file.read(CHECKSUM.size)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        return 0, False
    if len(footer) < CHECKSUM.size:
        return 0, False
    return size, CHECKSUM.unpack(footer) == (mask_crc32c(crc),)


def _readable_ranges(path: str) -> tuple[list[list[int]], int, bool]:
    """Finds the undamaged parts of the decompressed content of a file.

    Returns:
        ranges: Start and end offset of each sequence of adjacent undamaged frames.
        damaged_records: Number of records with damaged data.
        is_truncated: Whether the end of the file cannot be read.
    """
    ranges: list[list[int]] = []
    damaged_records = start = 0
    with _open(path) as file:
        while True:
            size, is_intact = _read_frame(file)
            if not size:
                return ranges, damaged_records, not is_intact
            if not is_intact:
                damaged_records += 1
            elif ranges and ranges[-1][1] == start:
                ranges[-1][1] += size
            else:
                ranges.append([start, start + size])
            start += size


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
