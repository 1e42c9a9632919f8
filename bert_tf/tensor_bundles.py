"""Checks the index of a TensorFlow checkpoint (a tensor bundle) before TensorFlow reads it.

TensorFlow ends the process if an entry of the index has a shape, a dtype or a slice that no tensor
can have. The checksums do not help, because whoever writes an index computes them.

The index is a table of LevelDB without compression. The footer, the last 48 bytes, holds the places
of two blocks and a constant. The second of these blocks holds the places of the others, and those
hold the entries: for the key "" the `BundleHeaderProto`, and for the name of each tensor its
`BundleEntryProto`. A block consists of entries, whose keys omit what they share with the previous
key, of the places where a reader may start, and of their number. Its type, 0 for no compression,
and the masked CRC-32C of both follow.

Source: TensorFlow's `tensor_bundle.cc`, and `table_format.md` of LevelDB.
"""

import math
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from bert_tf import files
from bert_tf.errors import InputError
from bert_tf.tfrecords import masked_crc32c

_FOOTER_BYTES, _MAGIC = 48, struct.pack("<Q", 0xDB4775248B80FB57)
_TRAILER, _INT32 = struct.Struct("<BI"), struct.Struct("<I")
_STRING, _VARINT_BYTES = 7, 10  # number of the dtype, most bytes of a number
_MAX_RANK = 254  # of TensorFlow's TensorShape
_LARGEST_INT64 = 2**63 - 1


def check_index(path: str) -> None:
    """Checks the table of an index, and that its entries describe tensors in the data files.

    Of the contents of the tensors, only the lengths of strings are checked; TensorFlow compares the
    checksums.

    Args:
        path: The `.index` file of a checkpoint, local or gs://.

    Raises:
        InputError: The file is missing or damaged, or an entry describes no tensor.
    """
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    content = files.read_bytes(path)
    try:
        _check_entries(path.removesuffix(".index"), _read_table(content))
    except InputError:
        raise
    except (ValueError, DecodeError) as error:
        raise InputError(
            f"{path} is not a valid TensorFlow checkpoint: {str(error).rstrip('.')}. Copy it again "
            "from its source."
        ) from error


def _read_table(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yields the keys and the values.

    Raises:
        ValueError: The table is damaged, or its keys are not sorted.
    """
    footer, position, place = content[-_FOOTER_BYTES:], 0, []
    if len(footer) < _FOOTER_BYTES or not footer.endswith(_MAGIC):
        raise ValueError("its last bytes are not those of an index")
    for _ in range(4):
        number, position = _read_varint(footer, position)
        place.append(number)
    previous = None
    for _, value in _read_block(content, *place[2:]):
        offset, position = _read_varint(value, 0)
        for entry in _read_block(content, offset, _read_varint(value, position)[0]):
            if previous is not None and entry[0] <= previous:
                raise ValueError("its entries are not in the order of their names")
            previous = entry[0]
            yield entry


def _read_block(content: bytes, offset: int, size: int) -> list[tuple[bytes, bytes]]:
    end = offset + size
    if end + _TRAILER.size > len(content):
        raise ValueError("its last bytes are not those of an index, or it is not complete")
    kind, checksum = _TRAILER.unpack_from(content, end)
    if masked_crc32c(content[offset : end + 1]) != checksum:
        raise ValueError("a checksum of its index differs")
    count = _INT32.unpack_from(content, end - _INT32.size)[0] if size >= _INT32.size else 0
    limit = size - _INT32.size * (count + 1)
    if kind or limit < 0:
        raise ValueError("its index is compressed or damaged")
    block, position, key = content[offset:end], 0, b""
    entries, starts = [], {0}
    while position < limit:
        start = position
        shared, position = _read_varint(block, position)
        unshared, position = _read_varint(block, position)
        length, position = _read_varint(block, position)
        place = position + unshared
        if shared > len(key) or place + length > limit:
            raise ValueError("its index is damaged")
        if not shared:
            starts.add(start)
        key = key[:shared] + block[position:place]
        position = place + length
        entries.append((key, block[place:position]))
    # TensorFlow searches from these places, so each must be that of an entry that was read here.
    if not starts.issuperset(struct.unpack_from(f"<{count}I", block, limit)):
        raise ValueError("its index is damaged")
    return entries


def _read_varint(content: bytes, position: int) -> tuple[int, int]:
    """Reads 7-bit groups, lowest first; returns the number and the position after it."""
    number = 0
    for shift in range(0, 64, 7):
        if position >= len(content):
            break
        byte = content[position]
        number |= (byte & 127) << shift
        position += 1
        if byte < 128:
            return number, position
    raise ValueError("its index is damaged")


def _check_entries(prefix: str, table: Iterator[tuple[bytes, bytes]]) -> None:
    """Checks the header and the entries.

    Raises:
        ValueError: An entry describes no tensor.
    """
    from tensorflow.core.protobuf import tensor_bundle_pb2

    key, value = next(table, (None, b""))
    if key != b"":
        raise ValueError("it has no header")
    shards = tensor_bundle_pb2.BundleHeaderProto.FromString(value).num_shards
    sizes: dict[int, int] = {}
    stored, sliced = 0, 0
    for key, value in table:
        entry = tensor_bundle_pb2.BundleEntryProto.FromString(value)
        try:
            needed = _check_tensor(entry)
            if entry.slices:  # the slices have entries of their own
                sliced += needed
                continue
            stored += entry.size
            if not 0 <= entry.shard_id < shards:
                raise ValueError(f"is in data file {entry.shard_id} of {shards}")
            _check_place(prefix, entry, shards, sizes)
        except ValueError as error:
            name = ascii(key.decode(errors="backslashreplace"))
            raise ValueError(f"{name:.80} {error}") from error
    if sliced > stored:
        raise ValueError("its slices hold fewer numbers than the tensors")


def _check_tensor(entry: Any) -> int:
    """Checks dtype, shape, size and slices; returns the number of bytes that the shape needs."""
    sizes = [dim.size for dim in entry.shape.dim]
    shown = f"the shape {sizes!s:.80}"
    item = _item_bytes(entry.dtype)
    is_known = len(sizes) <= _MAX_RANK and not entry.shape.unknown_rank
    is_shape = is_known and min(sizes, default=0) >= 0
    # TensorFlow multiplies from left to right, so a later 0 does not undo an overflow.
    if not is_shape or math.prod(max(n, 1) for n in (*sizes, item)) > _LARGEST_INT64:
        raise ValueError(f"has {shown}, which no tensor can have")
    count = math.prod(sizes)
    for each in entry.slices:
        _check_slice(each.extent, sizes)
    if not entry.slices and (count > entry.size if item == 0 else count * item != entry.size):
        raise ValueError(f"has {shown}, but {entry.size} bytes")
    return count * max(item, 1)


def _item_bytes(number: int) -> int:
    """Returns the bytes of an element; 0 for strings, whose lengths differ.

    Raises:
        ValueError: There is no such dtype, or checkpoints do not hold it.
    """
    import tensorflow as tf

    try:
        dtype = tf.as_dtype(number)
    except TypeError as error:
        raise ValueError(f"has the unknown dtype {number}") from error
    # Numbers from 100 are dtypes of references.
    if number >= 100 or dtype in (tf.resource, tf.variant):
        raise ValueError(f"has the dtype {dtype.name}, which no weight has")
    return int(dtype.size)


def _check_slice(extents: Sequence[Any], sizes: list[int]) -> None:
    def is_inside(extent: Any, size: int) -> bool:
        if not extent.HasField("length"):  # all of the axis
            return bool(extent.start == 0)
        return bool(extent.start >= 0 and 0 < extent.length <= size - extent.start)

    if len(extents) != len(sizes) or not all(map(is_inside, extents, sizes)):
        raise ValueError(f"has the shape {sizes!s:.80}, but a slice that is not inside")


def _check_place(prefix: str, entry: Any, shards: int, sizes: dict[int, int]) -> None:
    """Checks that a tensor is inside its data file; `sizes` holds the sizes of these files."""
    from tensorflow.io import gfile

    shard = entry.shard_id
    path = f"{prefix}.data-{shard:05d}-of-{shards:05d}"
    if shard not in sizes and not files.is_file(path):
        raise ValueError(f"is in {path}, which does not exist")
    if shard not in sizes:
        sizes[shard] = gfile.stat(path).length
    end = entry.offset + entry.size
    if entry.offset < 0 or entry.size < 0 or end > sizes[shard]:
        raise ValueError(
            f"has the bytes {entry.offset} to {end}, but {path} has {sizes[shard]} bytes"
        )
    if entry.dtype == _STRING:
        with files.explain_read_errors(path), gfile.GFile(path, "rb") as file:
            file.seek(entry.offset)
            count = math.prod(dim.size for dim in entry.shape.dim)
            start = file.read(min(entry.size, count * _VARINT_BYTES))
        _check_strings(start, count, entry.size)


def _check_strings(start: bytes, count: int, size: int) -> None:
    """Checks the lengths of strings, which are before their checksum and the strings."""
    total = position = 0
    for _ in range(count):
        length, position = _read_varint(start, position)
        total += length
    if position + total > size:
        raise ValueError(f"has strings of {total} bytes, but {size} bytes")
