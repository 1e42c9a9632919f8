"""Copies TFRecord files without their damaged records.

TensorFlow's reader cannot read the records that follow a damaged record.

`bert_tf.storage.tfrecords` describes the format of the files.
"""

import gzip
import json
import logging
import os
import struct
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from bert_tf.errors import InputError
from bert_tf.progress import Progress
from bert_tf.storage import files
from bert_tf.storage.tfrecords import CHECKSUM, HEADER, compression, masked_crc32c

_LOGGER = logging.getLogger(__name__)
_INTACT, _DAMAGED, _LOST = "intact", "damaged", "lost"  # the states of records


def salvage(paths: Sequence[str], folder: str) -> list[str]:
    """Reads all files and copies the undamaged records of each damaged file.

    A record with damaged data is left out of the copy. The copy ends before the first
    record with a damaged length, before a truncated record, and before damaged
    compressed data.

    Args:
        paths: Record files, `.gz` if compressed.
        folder: Folder for the copies. Copies from an earlier call are reused.

    Returns:
        For each file, its path if the file is undamaged, else the path of the copy.

    Raises:
        InputError: A file contains no undamaged record.
    """
    used = []
    with Progress("checking records", len(paths), "files") as progress:
        for path in paths:
            counts = Counter(state for state, _ in _records(path))
            if not counts[_INTACT]:
                raise InputError(
                    f"{path} holds no record that can be read. Remove it from the "
                    "input files, or create it again."
                )
            is_damaged = counts[_DAMAGED] or counts[_LOST]
            if is_damaged:
                end = ", and its end" * counts[_LOST]
                _LOGGER.warning(
                    "damaged records of %s left out: %d%s", path, counts[_DAMAGED], end
                )
            used.append(_copy(path, folder) if is_damaged else path)
            progress.update(1)
    return used


def _records(path: str) -> Iterator[tuple[str, bytes]]:
    """Yields each record of a file with its state: `_INTACT` or `_DAMAGED`.

    If the end of the file cannot be read, the last pair is `_LOST` and no record.
    """
    with tf.io.gfile.GFile(path, "rb") as raw:
        file: Any = gzip.GzipFile(fileobj=raw, mode="rb") if compression(path) else raw
        try:
            while header := file.read(HEADER.size):
                length, checksum = HEADER.unpack(header)
                if masked_crc32c(header[:8]) != checksum:
                    yield _LOST, b""
                    return
                record, footer = file.read(length), file.read(CHECKSUM.size)
                is_intact = CHECKSUM.unpack(footer) == (masked_crc32c(record),)
                yield _INTACT if is_intact else _DAMAGED, record
        # A part of a header or of a checksum cannot be unpacked.
        except (struct.error, EOFError, zlib.error, gzip.BadGzipFile):
            yield _LOST, b""


def _copy(path: str, folder: str) -> str:
    """Copies the intact records of a file to a new file in `folder`.

    The name of the new file contains a hash of the path, size and time of the original
    file.
    """
    identity = json.dumps([path, *files.size_and_mtime(path)])
    digest = files.sha256(identity.encode())[:12]
    target = os.path.join(folder, f"{digest}-{os.path.basename(path)}")
    if not tf.io.gfile.exists(target):
        with (
            files.atomic_replace(target) as temporary,
            tf.io.TFRecordWriter(temporary, compression(path)) as file,
        ):
            for state, record in _records(path):
                if state == _INTACT:
                    file.write(record)
    return target
