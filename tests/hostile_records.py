"""A tiny pretraining record, changed copies of it, and TFRecord files of all kinds."""

import gzip
import pathlib
import struct

import tensorflow as tf

from bert_tf.storage.tfrecords import masked_crc32c

SIZES = {"S": 8, "P": 2, "V": 9, "T": 2}
VALUES = {
    "input_ids": [2, 4, 6, 3, 7, 3, 0, 0],
    "input_mask": [1, 1, 1, 1, 1, 1, 0, 0],
    "segment_ids": [0, 0, 0, 0, 1, 1, 0, 0],
    "masked_lm_positions": [1, 4],
    "masked_lm_ids": [5, 7],
    "masked_lm_weights": [1.0, 1.0],
    "next_sentence_labels": [0],
}


def record(**changes):
    """Serializes the record with other lists of values; None removes a feature."""
    example = tf.train.Example()
    for name, values in {**VALUES, **changes}.items():
        if values is None:
            continue
        feature = example.features.feature[name]
        if values and isinstance(values[0], bytes):
            feature.bytes_list.value.extend(values)
        elif values and isinstance(values[0], float):
            feature.float_list.value.extend(values)
        else:
            feature.int64_list.value.extend(values)
    return example.SerializeToString(deterministic=True)


def with_value(name, value):
    """Serializes the record with another first value of a feature."""
    return record(**{name: [value, *VALUES[name][1:]]})


def header(length):
    """Returns the header of a record: the length and its valid checksum."""
    packed = struct.pack("<Q", length)
    return packed + struct.pack("<I", masked_crc32c(packed))


def frames(*records):
    """Returns the content of a TFRecord file."""
    return b"".join(
        header(len(each)) + each + struct.pack("<I", masked_crc32c(each))
        for each in records
    )


def flip(path, *places):
    """Changes a bit of each byte at the places of a file."""
    content = bytearray(pathlib.Path(path).read_bytes())
    for place in places:
        content[place] ^= 4
    pathlib.Path(path).write_bytes(content)


def compress(path):
    """Writes a copy of a file with gzip, and returns its path."""
    return write(f"{path}.gz", pathlib.Path(path).read_bytes())


def write(path, content):
    """Writes bytes, compressed if the name ends in .gz; returns the path as text."""
    content = gzip.compress(content, mtime=0) if str(path).endswith(".gz") else content
    pathlib.Path(path).write_bytes(content)
    return str(path)
