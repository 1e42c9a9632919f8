"""The shuffle through the disk: any run of the whole order, without ever holding the whole.

Rows carry a random 64-bit key; their order by key is the shuffled order. Each segment's rows are
stored sorted, so any run of the whole order can be put together from a slice of each file. The
order is cut into shards of equal size, each shard into parts that are made independently.

Imports `files`; numpy.
"""

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Sequence

import numpy as np

from bert_tf import files
from data_prep.pretraining_data.corpus import Documents, offsets

_BIN_BITS = 20
_SHIFT = np.uint64(64 - _BIN_BITS)
_PARTS = 2048
_MIN_PART, _MAX_PART_BYTES = 1 << 14, 1 << 25


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


def plan(bins: np.ndarray, shards: int, row_bytes: int) -> list[Part]:
    """Cuts the shuffled order into shards whose sizes differ by at most one, and those into parts.

    Args:
        bins: int64 [2**20], how many rows of the whole corpus are in each bin.
        shards: Number of shards.
        row_bytes: Size of a row; a part is held in memory.
    """
    before = np.concatenate([[0], np.cumsum(bins)])
    total = int(before[-1])
    size = max(min(max(total // _PARTS, _MIN_PART), _MAX_PART_BYTES // row_bytes), 1)
    parts = []
    for shard in range(shards):
        first, last = total * shard // shards, total * (shard + 1) // shards
        for start in range(first, max(last, first + 1), size):
            rows = min(size, last - start)
            low = int(np.searchsorted(before, start, "right")) - 1
            high = int(np.searchsorted(before, max(start + rows - 1, start), "right")) - 1
            parts.append(Part(shard, low, high, start - int(before[low]), rows))
    return parts


@contextlib.contextmanager
def appearing(path: str) -> Iterator[str]:
    """Gives a temporary name; what stands there at the end becomes the local file `path`.

    Unlike `files.atomic_replace` it does not list the folder, because other processes write into
    the same folder. The file is on disk before it has its name.
    """
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f"{files.temporary_prefix(name)}{os.getpid()}.tmp")
    try:
        yield temporary
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)
        raise


def write_small(path: str, content: bytes) -> None:
    """Writes a short file."""
    with appearing(path) as temporary, open(temporary, "wb") as file:
        file.write(content)


def save_documents(path: str, documents: Documents) -> None:
    """Writes documents as one file."""
    with appearing(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, **dataclasses.asdict(documents))


def load_documents(paths: Sequence[str]) -> Documents:
    """Reads what `save_documents` wrote in several files, end to end.

    Tokens and sentences, which are nearly all of it, are never held twice.
    """
    documents = list(_arrays(paths, "documents"))
    sentences: np.ndarray = np.zeros(sum(int(each[-1]) for each in documents) + 1, np.int64)
    at = 0
    for array in _arrays(paths, "sentences"):
        end = at + len(array) - 1
        np.add(array[1:], sentences[at], out=sentences[at + 1 : end + 1])
        at = end
    tokens: np.ndarray = np.zeros(0, np.uint16)
    at = 0
    for array in _arrays(paths, "tokens"):
        if not at:
            tokens = np.empty(sentences[-1], array.dtype)
        tokens[at : at + len(array)] = array
        at += len(array)
    return Documents(
        tokens,
        sentences,
        offsets(np.concatenate([np.diff(each) for each in documents])),
        np.concatenate(list(_arrays(paths, "ids"))),
    )


def _arrays(paths: Sequence[str], name: str) -> Iterator[np.ndarray]:
    for path in paths:
        with np.load(path) as arrays:
            yield arrays[name]


def count_documents(path: str) -> int:
    """How many documents `save_documents` wrote."""
    with np.load(path) as arrays:
        return len(arrays["ids"])


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
            file.write(batch.tobytes())
            keys.append(batch["key"].copy())
    with appearing(path + ".keys") as temporary, open(temporary, "wb") as file:
        file.write(np.concatenate(keys).tobytes())
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
    for path in paths if part.rows else ():
        if not os.path.getsize(path + ".keys"):
            continue
        mine = slice_of(np.memmap(path + ".keys", np.uint64, "r"), part)
        if mine.stop > mine.start:
            count, offset = mine.stop - mine.start, mine.start * dtype.itemsize
            slices.append(np.fromfile(path + ".rows", dtype, count, offset=offset))
    if not slices:
        return np.zeros(0, dtype)
    return in_order(np.concatenate(slices), part)


def slice_of(keys: np.ndarray, part: Part) -> slice:
    """Where in ascending keys the bins of a part are."""
    low, top = (
        np.uint64(b % (1 << _BIN_BITS)) << _SHIFT for b in (part.first_bin, part.last_bin + 1)
    )
    stop = np.searchsorted(keys, top) if part.last_bin + 1 < 1 << _BIN_BITS else len(keys)
    start = int(np.searchsorted(keys, low))
    return slice(start, int(stop) if part.rows else start)


def in_order(rows: np.ndarray, part: Part) -> np.ndarray:
    """The rows of a part out of all rows of its bins, which come in the order of the segments."""
    order = np.argsort(rows["key"], kind="stable")[part.skip : part.skip + part.rows]
    return rows[order]
