"""Opens TFRecord files, compressed or not, and reads damaged ones.

A TFRecord file is a sequence of frames, with one record in each frame. A frame consists
of the length of the record as uint64, the checksum of the 8 bytes of the length as
uint32, the record, and the checksum of the record as uint32. All integers are little
endian.

Source: TensorFlow's `record_writer.h`. The checksum is CRC-32C (RFC 3720, B.4), rotated
right by 15 bits and added to a constant.
"""

import gzip
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import google_crc32c

from bert_tf.errors import InputError
from bert_tf.storage import files
from bert_tf.storage.paths import check_is_regular

_HEADER = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")
INTACT, DAMAGED, LOST = "intact", "damaged", "lost"  # the states of records
_GZIP_MAGIC = b"\x1f\x8b\x08"  # as the length of a record, more than half a megabyte


def open_records(path: str) -> Any:
    """Returns a `tf.data.TFRecordDataset` of a file, compressed or not."""
    import tensorflow as tf

    return tf.data.TFRecordDataset(path, compression(path))


def compression(path: str) -> str:
    """Returns "GZIP" or "", as the first bytes of a file show, for `tf.data.TFRecordDataset`."""
    # Reading from a named pipe would block.
    if files.gfile().isdir(path):
        raise InputError(
            f"{path} is a folder. Give the record files in it, such as "
            f"{path.rstrip('/')}/*."
        )
    check_is_regular(path)

    with files.explain_read_errors(path), files.gfile().GFile(path, "rb") as file:
        return "GZIP" if file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC else ""


def read_frames(path: str) -> Iterator[tuple[str, bytes]]:
    """Yields each record of a file with its state: `INTACT` or `DAMAGED`.

    If the rest of the file cannot be read, the last pair is `LOST` and an empty record.
    """
    with files.gfile().GFile(path, "rb") as raw:
        file = gzip.GzipFile(fileobj=raw) if compression(path) else raw
        try:
            while header := file.read(_HEADER.size):
                length, checksum = _HEADER.unpack(header)
                if masked_crc32c(header[:8]) != checksum:
                    yield LOST, b""
                    return

                record, footer = file.read(length), file.read(_CHECKSUM.size)
                is_intact = _CHECKSUM.unpack(footer) == (masked_crc32c(record),)
                yield INTACT if is_intact else DAMAGED, record
        # A part of a header or of a checksum cannot be unpacked.
        except (struct.error, EOFError, zlib.error, gzip.BadGzipFile):
            yield LOST, b""


def masked_crc32c(content: bytes) -> int:
    """Returns the checksum of `content` as defined for TFRecord files, a uint32."""
    crc = google_crc32c.value(content)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
