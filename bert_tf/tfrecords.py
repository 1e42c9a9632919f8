"""Opens TFRecord files, after a check of their compression and of the lengths of their records.

TensorFlow's reader allocates as many bytes as the header of a record announces. If a header
announces more memory than there is, the process ends with a segmentation fault. A TFRecord file is
therefore opened with `open_records`, or after `check_lengths`.

A TFRecord file is a sequence of frames, with one record in each frame. A frame consists of the
length of the record as uint64, the checksum of the 8 bytes of the length as uint32, the record, and
the checksum of the record as uint32. All integers are little endian.

Source: TensorFlow's `record_writer.h`. The checksum is CRC-32C (RFC 3720, B.4), rotated right by 15
bits and added to a constant.
"""

import functools
import gzip
import os
import struct
from typing import Any

import google_crc32c

from bert_tf import files
from bert_tf.errors import InputError
from bert_tf.file_checks import check_is_regular

HEADER, CHECKSUM = struct.Struct("<QI"), struct.Struct("<I")
_GZIP_MAGIC = b"\x1f\x8b"
_BLOCK_BYTES = 1 << 18


def open_records(path: str) -> Any:
    """Returns a `tf.data.TFRecordDataset` of a file, after a check of the file.

    Raises:
        InputError: As in `compression` and `check_lengths`.
    """
    import tensorflow as tf

    check_lengths(path)
    return tf.data.TFRecordDataset(path, compression(path))


def compression(path: str) -> str:
    """Returns the compression type for `tf.data.TFRecordDataset`: "GZIP", or "" for none.

    The first bytes of the file decide, not its name.

    Raises:
        InputError: The path is not that of a regular file, or the file cannot be read.
    """
    from tensorflow.io import gfile

    _check_regular(path)
    with files.explain_read_errors(path), gfile.GFile(path, "rb") as file:
        start = file.read(HEADER.size)
    return "GZIP" if start.startswith(_GZIP_MAGIC) and not _has_valid_length(start, 0) else ""


def is_tfrecord(path: str) -> bool:
    """Returns whether a file, compressed or not, begins with a record.

    Raises:
        InputError: As in `compression`; or the file is gzip and damaged.
    """
    from tensorflow.io import gfile

    is_gzip = compression(path) == "GZIP"
    with files.explain_read_errors(path), gfile.GFile(path, "rb") as file:
        content = gzip.GzipFile(fileobj=file) if is_gzip else file
        return _has_valid_length(content.read(HEADER.size), 0)


def check_lengths(path: str) -> None:
    """Checks that each record ends before the end of the file.

    Raises:
        InputError: A record ends after the end of the file, or as in `compression`.
    """
    found = find_excessive_length(path)
    if found is not None:
        record, reason = found
        raise InputError(
            f"Record {record} of {path} cannot be read: {reason}. Copy the file again, or create "
            "it again."
        )


def find_excessive_length(path: str) -> tuple[int, str] | None:
    """Finds the first record that ends after the end of a file without compression.

    The file is read once, in blocks; apart from the time of the disk, this takes about 0.4 seconds
    for 1 GB of records of 800 bytes. A compressed file is not checked: TensorFlow allocates no more
    memory than its content needs.

    Returns:
        The index of the record, from 0, and the reason why it cannot be read. None if there is no
        such record.

    Raises:
        InputError: As in `compression`.
    """
    return None if compression(path) else _find_excessive_length(path, *size_and_mtime(path))


def size_and_mtime(path: str) -> tuple[int, int]:
    """Returns the size of a file in bytes, and the time of its last change in nanoseconds."""
    if "://" not in path:
        facts = os.stat(path)  # TensorFlow rounds the time to seconds
        return facts.st_size, facts.st_mtime_ns
    from tensorflow.io import gfile

    stored = gfile.stat(path)
    return stored.length, stored.mtime_nsec


@functools.lru_cache(maxsize=1 << 16)
def _find_excessive_length(path: str, size: int, mtime_nsec: int) -> tuple[int, str] | None:
    """Implements `find_excessive_length`; the size and the time identify the content."""
    del mtime_nsec
    from tensorflow.io import gfile

    unpack, overhead = HEADER.unpack_from, HEADER.size + CHECKSUM.size
    record = start = 0
    with files.explain_read_errors(path), gfile.GFile(path, "rb") as file:
        while start + HEADER.size <= size:
            file.seek(start)
            block = file.read(_BLOCK_BYTES)
            position, last = 0, len(block) - HEADER.size
            if last < 0:  # the file has become shorter
                return None
            while position <= last:
                length = unpack(block, position)[0]
                rest = size - start - position - overhead
                if length > rest and _has_valid_length(block, position):
                    return record, (
                        f"its length is {length:,} bytes, but only {max(rest, 0):,} bytes are left "
                        "in the file"
                    )
                record += 1
                position += length + overhead
            start += position
    return None


def _has_valid_length(content: bytes, position: int) -> bool:
    """Returns whether the header at a position contains the checksum of its length."""
    header = content[position : position + HEADER.size]
    if len(header) < HEADER.size:
        return False
    return masked_crc32c(header[:8]) == HEADER.unpack(header)[1]


def masked_crc32c(content: bytes) -> int:
    """Returns the checksum of `content` as defined for TFRecord files, a uint32."""
    return mask_crc32c(google_crc32c.value(content))


def mask_crc32c(crc: int) -> int:
    """Rotates a CRC-32C and adds the constant, as defined for TFRecord files."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _check_regular(path: str) -> None:
    """Checks that a path is that of a file; reading from a named pipe would block."""
    from tensorflow.io import gfile

    if gfile.isdir(path):
        raise InputError(
            f"{path} is a folder. Give the record files in it, such as {path.rstrip('/')}/*."
        )
    check_is_regular(path)
