"""Shuffles rows on disk: reads ranges of the order without loading all rows.

A row is an unmasked sequence, and has a random 64-bit key. The shuffled order is the
order of the keys. A segment is a group of whole documents (see
`segments`). The rows of each segment are stored in one file, sorted by
key. So a range of the shuffled order consists of one slice of each file.

The shuffled order is divided into shards, which are the output files. The numbers of
rows of two shards differ by at most one. Each shard is divided into parts. The parts
are masked independently of each other.
"""

import dataclasses
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.storage import files

_BIN_BITS = 20
_BIN_SHIFT = 64 - _BIN_BITS
_PARTS = 2048
_MIN_PART = 1 << 14
_MAX_PART_BYTES = 1 << 25


@dataclasses.dataclass(frozen=True)
class Part:
    """A range of the shuffled order.

    Attributes:
        shard: Index, within the split, of the shard that contains the part.
        first_bin: Bin of the first row of the part. The bin of a row is the number in
            the leading 20 bits of the key of the row.
        last_bin: Bin of the last row of the part.
        skip: Number of rows in the first bin that belong to the previous part.
    """

    shard: int
    first_bin: int
    last_bin: int
    skip: int
    rows: int


def count_bins(path: str) -> np.ndarray:
    """Counts, for each bin (see `Part`), the rows that `save_rows` wrote: int64 [2**20]."""
    keys = load_array(f"{path}.keys", np.uint64)
    return np.bincount(
        (keys >> np.uint64(_BIN_SHIFT)).astype(np.int64), minlength=1 << _BIN_BITS
    )


def plan_parts(bins: np.ndarray, shards: int, row_bytes: int) -> list[Part]:
    """Divides the shuffled order into shards, and each shard into parts.

    The numbers of rows of two shards differ by at most one. A complete part is loaded
    into memory, so the larger `row_bytes` is, the fewer rows a part may have. `bins`,
    int64 [2**20], has the number of rows of the whole corpus in each bin.
    """
    before = np.concatenate([[0], np.cumsum(bins)])
    total = int(before[-1])
    size = max(min(max(total // _PARTS, _MIN_PART), _MAX_PART_BYTES // row_bytes), 1)
    parts = []
    for shard in range(shards):
        first = total * shard // shards
        last = total * (shard + 1) // shards
        for start in range(first, max(last, first + 1), size):
            rows = min(size, last - start)
            ends = [start, max(start + rows - 1, start)]
            low, high = (np.searchsorted(before, ends, "right") - 1).tolist()
            skip = start - int(before[low])
            parts.append(Part(shard, low, last_bin=high, skip=skip, rows=rows))
    return parts


def save_arrays(path: str, arrays: Mapping[str, Any]) -> None:
    """Writes arrays and numbers to a file."""
    content = io.BytesIO()
    np.savez(content, **arrays)
    files.write_bytes(path, content.getvalue())


def load_arrays(path: str) -> dict[str, np.ndarray]:
    """Reads the file that `save_arrays` wrote."""
    with files.open_binary(path, "rb") as file, np.load(file) as arrays:
        return dict(arrays)


def count_documents(path: str) -> np.ndarray:
    """Returns the numbers of documents and of sentences in a file of documents: int64 [2]."""
    with files.open_binary(path, "rb") as file, np.load(file) as arrays:
        return np.array([len(arrays["ids"]), len(arrays["sentences"]) - 1])


def save_rows(path: str, batches: Iterator[np.ndarray]) -> None:
    """Writes rows, in ascending order of their keys, to three files.

    The files are `<path>.rows`, `<path>.keys` (uint64 [N]) and `<path>.tokens` (int64
    [2], the sum of `count_tokens` over all rows).
    """
    keys = bytearray()
    tokens: np.ndarray = np.zeros(2, np.int64)
    with (
        files.atomic_replace(path + ".rows") as temporary,
        files.open_binary(temporary, "wb") as file,
    ):
        for batch in batches:
            file.write(batch.tobytes())
            keys += batch["key"].tobytes()
            tokens += count_tokens(batch)
    files.write_bytes(path + ".tokens", tokens.tobytes())
    files.write_bytes(path + ".keys", keys)


def count_tokens(rows: np.ndarray) -> np.ndarray:
    """Returns the numbers of tokens that truncation kept and removed: int64 [2]."""
    kept = rows["length_a"].sum(dtype=np.int64) + rows["length_b"].sum(dtype=np.int64)
    return np.array([kept, rows["trimmed"].sum(dtype=np.int64)])


def load_array(path: str, dtype: type | np.dtype) -> np.ndarray:
    """Reads one of the files that `save_rows` wrote, as a flat array of `dtype`."""
    with files.open_binary(path, "rb") as file:
        return np.frombuffer(file.read(), dtype)


def load_part(paths: Sequence[str], part: Part, dtype: np.dtype) -> np.ndarray:
    """Reads the rows of a part, in shuffled order, from the files of all segments.

    `paths` are the paths that were given to `save_rows`, in the order of the segments.
    """
    slices = [np.zeros(0, dtype)]
    for path in paths if part.rows else ():
        if not os.path.getsize(path + ".keys"):
            continue  # np.memmap does not accept an empty file
        mine = slice_of_part(np.memmap(path + ".keys", np.uint64, "r"), part)
        if count := mine.stop - mine.start:
            offset = mine.start * dtype.itemsize
            slices.append(np.fromfile(path + ".rows", dtype, count, offset=offset))
    return sort_part(np.concatenate(slices), part)


def slice_of_part(keys: np.ndarray, part: Part) -> slice:
    """Returns the slice of the ascending array `keys` that is in the bins of a part."""
    if not part.rows:
        return slice(0, 0)
    first = part.first_bin << _BIN_SHIFT
    last = ((part.last_bin + 1) << _BIN_SHIFT) - 1
    start = np.searchsorted(keys, np.uint64(first))
    return slice(int(start), int(np.searchsorted(keys, np.uint64(last), "right")))


def sort_part(rows: np.ndarray, part: Part) -> np.ndarray:
    """Sorts rows by key, and returns only the rows that belong to a part.

    `rows` has all rows in the bins of the part, in the order of the segments. The first
    and the last bin may also contain rows of the adjacent parts.
    """
    order = np.argsort(rows["key"], kind="stable")[part.skip : part.skip + part.rows]
    return rows[order]
