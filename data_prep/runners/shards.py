"""The shards: their names, and how the parts of one become a file.

Imports `files`; TensorFlow inside functions.
"""

import contextlib
import dataclasses
import gzip
import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from bert_tf import files
from bert_tf.errors import InputError
from data_prep.pretraining_data.settings import RecordsConfig
from data_prep.runners.shuffling import appearing

_COPY_BYTES = 1 << 22
_RECORDS = re.compile(r"\.tf_?records?")


def stem(output_file: str) -> str:
    """The output's name without what makes it a record file: "a/b.tfrecord" -> "a/b".

    What stands behind stays, so that each output has its own: "a/b.tfrecord-1" -> "a/b-1".
    """
    base, extension = _cut(output_file)
    return base + _RECORDS.sub("", extension, count=1) if _RECORDS.match(extension) else base


def _cut(output_file: str) -> tuple[str, str]:
    """A name in front of ".tfrecord", or of its last extension; and the rest."""
    folder, name = os.path.split(output_file)
    match = _RECORDS.search(name, 1)
    base = name[: match.start()] if match else os.path.splitext(name)[0]
    return os.path.join(folder, base), name[len(base) :]


def settled(output_files: Sequence[str], config: RecordsConfig) -> RecordsConfig:
    """The config with as many shards as there are output files, if there are several.

    Raises:
        InputError: Both are given and differ, or a file is given twice.
    """
    if len(set(output_files)) < len(output_files):
        raise InputError(f"output_file names a file twice: {', '.join(output_files)}.")
    if len(output_files) == 1:
        return config
    if config.num_output_shards not in (1, len(output_files)):
        raise InputError(
            f"output_file names {len(output_files)} files, num_output_shards is "
            f"{config.num_output_shards}. Give one file to number, or leave num_output_shards out."
        )
    return dataclasses.replace(config, num_output_shards=len(output_files))


def train_names(output_files: Sequence[str], config: RecordsConfig) -> list[str]:
    """The training shards: the files as given, or one name numbered `num_output_shards` times."""
    if len(output_files) > 1 or config.num_output_shards == 1:
        return list(output_files)
    return _numbered(output_files[0], "", config.num_output_shards)


def eval_names(output_files: Sequence[str], config: RecordsConfig) -> list[str]:
    """The held-out shards, `<name>.eval-00000-of-00001.tfrecord` ...

    No glob that matches the training shards alone, such as `<name>-*`, matches them.
    """
    count = max(round(config.num_output_shards * config.eval_fraction), 1)
    return _numbered(output_files[0], ".eval", count)


def _numbered(output_file: str, kind: str, count: int) -> list[str]:
    base, extension = _cut(output_file)
    return [f"{base}{kind}-{number:05d}-of-{count:05d}{extension}" for number in range(count)]


def write_records(path: str, batches: Iterator[list[bytes]]) -> None:
    """Writes serialized examples as a TFRecord file at a local path; not atomically."""
    import tensorflow as tf

    with tf.io.TFRecordWriter(path) as writer:
        for batch in batches:
            for example in batch:
                writer.write(example)


def assemble(parts: Iterable[str], path: str, compression: str) -> dict[str, Any]:
    """Puts the parts of a shard together under its name, whole or not at all.

    TFRecord files end to end are a TFRecord file.

    Args:
        parts: Files, in order; each is read when it is its turn.
        path: The shard, local or gs://.
        compression: "" or "gzip".

    Returns:
        Its size in bytes and SHA-256.
    """
    whole = files.atomic_replace if "://" in path else appearing
    with whole(path) as temporary, opened(temporary, "wb") as out:
        sink = _Sink(out)
        with contextlib.ExitStack() as stack:
            # No name and no time in the header: equal content, equal bytes.
            target: Any = sink
            if compression:
                target = stack.enter_context(gzip.GzipFile("", "wb", 6, sink, 0))
            for part in parts:
                with opened(part, "rb") as file:
                    shutil.copyfileobj(file, target, _COPY_BYTES)
    return {"bytes": sink.size, "sha256": sink.digest.hexdigest()}


def opened(path: str, mode: str) -> Any:
    """Opens a file, a local one without TensorFlow, which loads slowly."""
    if "://" not in path:
        return open(path, mode)
    from tensorflow.io import gfile

    return gfile.GFile(path, mode)


def size(path: str) -> int | None:
    """Bytes of a file, or None if it is not there."""
    if "://" not in path:
        return os.path.getsize(path) if os.path.exists(path) else None
    from tensorflow.io import gfile

    return int(gfile.stat(path).length) if gfile.exists(path) else None


class _Sink:
    """Counts and hashes what is written to a file."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.digest, self.size = hashlib.sha256(), 0

    def write(self, content: bytes) -> int:
        self.digest.update(content)
        self.size += len(content)
        self._file.write(bytes(content))
        return len(content)

    def flush(self) -> None:
        self._file.flush()
