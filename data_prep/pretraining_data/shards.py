"""Between rows and files: the shuffle through the disk, and the shards.

Rows carry a random 64-bit key; their order by key is the shuffled order. Each segment's rows are
stored sorted, so any run of the whole order can be put together from a slice of each file, and the
whole is never held. The run is cut into shards of equal size, each shard into parts that are made
independently.

Imports `features`, `files`; TensorFlow inside functions.
"""

import contextlib
import dataclasses
import gzip
import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bert_tf import files
from data_prep.pretraining_data.settings import RecordsConfig

_BIN_BITS = 20
_SHIFT = np.uint64(64 - _BIN_BITS)
_PARTS = 2048
_MIN_PART, _MAX_PART = 1 << 14, 1 << 18
_COPY_BYTES = 1 << 22


@dataclasses.dataclass(frozen=True)
class Part:
    """A run of the shuffled order.

    Attributes:
        shard: Which shard it is in.
        first_bin: Bin of its first row; a bin is the leading bits of a key.
        last_bin: Bin of its last row.
        skip: Rows of the first bin that belong to the part before.
        rows: Its number of rows.
    """

    shard: int
    first_bin: int
    last_bin: int
    skip: int
    rows: int


def count_bins(keys: np.ndarray) -> np.ndarray:
    """int64 [2**20]: how many keys are in each bin."""
    return np.bincount((keys >> _SHIFT).astype(np.int64), minlength=1 << _BIN_BITS)


def plan(bins: np.ndarray, shards: int) -> list[Part]:
    """Cuts the shuffled order into shards whose sizes differ by at most one, and those into parts.

    Args:
        bins: int64 [2**20], how many rows of the whole corpus are in each bin.
        shards: Number of shards.
    """
    before = np.concatenate([[0], np.cumsum(bins)])
    total = int(before[-1])
    size = min(max(total // _PARTS, _MIN_PART), _MAX_PART)
    parts = []
    for shard in range(shards):
        first, last = total * shard // shards, total * (shard + 1) // shards
        for start in range(first, max(last, first + 1), size):
            rows = min(size, last - start)
            low = int(np.searchsorted(before, start, "right")) - 1
            high = int(np.searchsorted(before, max(start + rows - 1, start), "right")) - 1
            parts.append(Part(shard, low, high, start - int(before[low]), rows))
    return parts


def save_rows(path: str, batches: Iterator[np.ndarray], dtype: np.dtype) -> int:
    """Writes rows, ascending by key, and beside them their keys alone.

    Args:
        path: Name without extension.
        batches: Arrays of rows.
        dtype: Of the rows.

    Returns:
        The number of rows.
    """
    keys: list[np.ndarray] = [np.zeros(0, np.uint64)]
    with appearing(path + ".rows") as temporary, open(temporary, "wb") as file:
        for batch in batches:
            batch.tofile(file)
            keys.append(batch["key"].copy())
    with appearing(path + ".keys") as temporary:
        np.concatenate(keys).tofile(temporary)
    return sum(map(len, keys))


def load_keys(path: str) -> np.ndarray:
    """uint64 [...], ascending: the keys that `save_rows` wrote."""
    return np.fromfile(path + ".keys", np.uint64)


def load_part(paths: Sequence[str], part: Part, dtype: np.dtype) -> np.ndarray:
    """The rows of a part, from the files of all segments, in shuffled order.

    Args:
        paths: Names without extension, in the order of the segments.
        part: Which rows.
        dtype: Of the rows.
    """
    slices = []
    for path in paths:
        if not os.path.getsize(path + ".keys"):
            continue
        keys = np.memmap(path + ".keys", np.uint64, "r")
        low = int(np.searchsorted(keys, np.uint64(part.first_bin) << _SHIFT))
        top = part.last_bin + 1
        high = (
            len(keys) if top >> _BIN_BITS else int(np.searchsorted(keys, np.uint64(top) << _SHIFT))
        )
        if high > low:
            slices.append(
                np.fromfile(path + ".rows", dtype, high - low, offset=low * dtype.itemsize)
            )
    if not slices:
        return np.zeros(0, dtype)
    return in_order(np.concatenate(slices), part)


def in_order(rows: np.ndarray, part: Part) -> np.ndarray:
    """The rows of a part out of all rows of its bins, which come in the order of the segments."""
    order = np.argsort(rows["key"], kind="stable")[part.skip : part.skip + part.rows]
    return rows[order]


# Names ----------------------------------------------------------------------------------------


def stem(output_file: str) -> str:
    """The output's name without what makes it a record file: "a/b.tfrecord" -> "a/b"."""
    folder, name = os.path.split(output_file)
    match = re.search(r"\.tf_?records?", name)
    base = name[: match.start()] if match and match.start() else os.path.splitext(name)[0]
    return os.path.join(folder, base)


def shard_names(output_files: Sequence[str], config: RecordsConfig) -> list[str]:
    """The training shards: the files as given, or one name numbered `num_output_shards` times."""
    if len(output_files) > 1 or config.num_output_shards == 1:
        return list(output_files)
    return _numbered(stem(output_files[0]), output_files[0], config.num_output_shards)


def eval_shard_names(output_files: Sequence[str], config: RecordsConfig) -> list[str]:
    """The held-out shards, `<stem>.eval-00000-of-00001.tfrecord` ...

    No glob that matches the training shards alone, such as `<stem>-*`, matches them.
    """
    if not config.eval_fraction:
        return []
    count = max(round(config.num_output_shards * config.eval_fraction), 1)
    return _numbered(stem(output_files[0]) + ".eval", output_files[0], count)


def _numbered(base: str, output_file: str, count: int) -> list[str]:
    extension = output_file[len(stem(output_file)) :]
    return [f"{base}-{number:05d}-of-{count:05d}{extension}" for number in range(count)]


# Files ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def appearing(path: str) -> Iterator[str]:
    """Gives a temporary name; what stands there at the end becomes the local file `path`.

    As `files.replacing`, which looks at the whole folder and so must not meet another process that
    writes into it. The file is on disk before it has its name.
    """
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.{os.getpid()}.tmp")
    try:
        yield temporary
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)
        raise


def write_records(path: str, batches: Iterator[list[bytes]]) -> None:
    """Writes serialized examples as a TFRecord file at a local path; not atomically."""
    import tensorflow as tf

    with tf.io.TFRecordWriter(path) as writer:
        for batch in batches:
            for example in batch:
                writer.write(example)


def assemble(parts: Sequence[str], path: str, compression: str) -> dict[str, Any]:
    """Puts the parts of a shard together under its name, whole or not at all.

    TFRecord files end to end are a TFRecord file.

    Args:
        parts: Local files.
        path: The shard, local or gs://.
        compression: "" or "gzip".

    Returns:
        Its size in bytes and SHA-256.
    """
    import tensorflow as tf

    whole = files.replacing if "://" in path else appearing
    with whole(path) as temporary, tf.io.gfile.GFile(temporary, "wb") as out:
        sink = _Sink(out)
        with contextlib.ExitStack() as stack:
            # No name and no time in the header: equal content, equal bytes.
            target: Any = sink
            if compression:
                target = stack.enter_context(gzip.GzipFile("", "wb", 6, sink, 0))
            for part in parts:
                with open(part, "rb") as file:
                    shutil.copyfileobj(file, target, _COPY_BYTES)
    return {"bytes": sink.size, "sha256": sink.digest.hexdigest()}


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
