"""Writes TensorFlow checkpoints (tensor bundles) with any entries and with valid checksums."""

import struct

from tensorflow.core.framework import tensor_shape_pb2, types_pb2
from tensorflow.core.protobuf import tensor_bundle_pb2

from bert_tf.tfrecords import masked_crc32c

WORDS = "bert/embeddings/word_embeddings"
DATA = bytes(64)


def shape(*sizes, **fields):
    dims = [tensor_shape_pb2.TensorShapeProto.Dim(size=size) for size in sizes]
    return tensor_shape_pb2.TensorShapeProto(dim=dims, **fields)


def entry(*sizes, dtype=types_pb2.DT_FLOAT, slices=(), **fields):
    """Returns the entry of a tensor, by default of the 64 bytes of `DATA`.

    Args:
        *sizes: The shape; [4, 4] if there are none.
        dtype: Number of the dtype, which need not exist.
        slices: For each slice a list of (start, length); the length None means the whole axis.
        **fields: Other fields of the entry.
    """
    values = {"size": len(DATA), "crc32c": masked_crc32c(DATA), "shape": shape(*sizes or (4, 4))}
    message = tensor_bundle_pb2.BundleEntryProto(**{**values, **fields})
    for extents in slices:
        added = message.slices.add()
        for start, length in extents:
            added.extent.add(start=start, **({} if length is None else {"length": length}))
    # The field of an enum takes unknown numbers only when it is parsed.
    return message.SerializeToString() + b"\x08" + varint(dtype & (1 << 64) - 1)


def header(num_shards=1):
    message = tensor_bundle_pb2.BundleHeaderProto(num_shards=num_shards)
    message.version.producer = 1
    return message.SerializeToString()


def varint(number):
    groups = []
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    return bytes([*groups, number])


def item(key, value, shared=0):
    """Returns an entry of a block; the first bytes of the key are those of the previous key."""
    name = key[shared:]
    return varint(shared) + varint(len(name)) + varint(len(value)) + name + value


def block(*items, starts=(0,)):
    places = struct.pack(f"<{len(starts) + 1}I", *starts, len(starts))
    return b"".join(items) + places


def table(data_block, kind=0):
    """Returns a table with one block of entries, of the given type of compression."""
    content = b""

    def add(each, kind=0):
        nonlocal content
        place = varint(len(content)) + varint(len(each))
        content += each + bytes([kind])
        content += struct.pack("<I", masked_crc32c(each + bytes([kind])))
        return place

    data = add(data_block, kind)
    footer = add(block()) + add(block(item(b"\xff", data)))
    return content + footer.ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)


def index(entries=None, head=None):
    """Returns an index with the given entries, a dict from bytes to bytes."""
    entries = {WORDS.encode(): entry()} if entries is None else entries
    pairs = {b"": header() if head is None else head, **entries}
    return table(block(*(item(*pair) for pair in pairs.items())))


def write(folder, content, name="bert_model.ckpt", data=DATA):
    """Writes a checkpoint with one data file."""
    (folder / f"{name}.index").write_bytes(content)
    (folder / f"{name}.data-00000-of-00001").write_bytes(data)
