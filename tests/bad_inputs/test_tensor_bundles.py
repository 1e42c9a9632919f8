"""Indexes of TensorFlow checkpoints with valid checksums and impossible entries are refused."""

import struct

import bundle_files as bundles
import numpy as np
import pytest
import tensorflow as tf
from bundle_files import WORDS, entry, header, item
from run_programs import assert_refused, run_mains

from bert_tf.errors import InputError
from bert_tf.tensor_bundles import check_index
from bert_tf.tfrecords import masked_crc32c

NAME = "bert_model.ckpt"
KEY = WORDS.encode()


def weight(*sizes, **fields):
    return bundles.index({KEY: entry(*sizes, **fields)})


def blocks(*items, starts=(0,), kind=0):
    return bundles.table(bundles.block(*items, starts=starts), kind)


HEAD, ITEM = item(b"", header()), item(KEY, entry())
# A row: the content of the index, words of the message.
INDEXES = [
    (weight(2**31, 2**31, 2**31), "has the shape [2147483648, 2147483648, 2147483648], which no"),
    (weight(2**40), "has the shape [1099511627776], but 64 bytes"),
    (weight(2**40, 2**40, 0), "which no tensor can have"),
    (weight(-1, 4), "has the shape [-1, 4], which no tensor can have"),
    (weight(*[1] * 300), "which no tensor can have"),
    (weight(shape=bundles.shape(unknown_rank=True)), "has the shape [], which no tensor can"),
    (weight(4, 3), "has the shape [4, 3], but 64 bytes"),
    (weight(dtype=0), "'bert/embeddings/word_embeddings' has the unknown dtype 0"),
    (weight(dtype=99), "has the unknown dtype 99"),
    (weight(dtype=-1), "has the unknown dtype -1"),
    (weight(dtype=101), "has the dtype float32_ref, which no weight has"),
    (weight(dtype=20), "has the dtype resource, which no weight has"),
    (weight(dtype=21), "has the dtype variant, which no weight has"),
    (weight(65, dtype=7), "has the shape [65], but 64 bytes"),
    (weight(size=-1), "has the shape [4, 4], but -1 bytes"),
    (weight(offset=-4), "has the bytes -4 to 60, but"),
    (weight(offset=4), "has the bytes 4 to 68, but"),
    (weight(shard_id=1), "is in data file 1 of 1"),
    (weight(shard_id=-1), "is in data file -1 of 1"),
    (weight(slices=[[(-7, -7), (0, None)]]), "has the shape [4, 4], but a slice that is not in"),
    (weight(slices=[[(0, 2**60), (0, None)]]), "but a slice that is not inside"),
    (weight(slices=[[(1, 4), (0, None)]]), "but a slice that is not inside"),
    (weight(slices=[[(0, 2)]]), "but a slice that is not inside"),
    (weight(2**40, slices=[[(0, None)]]), "its slices hold fewer numbers than the tensors"),
    (bundles.index(head=header(1 << 30)), "data-00000-of-1073741824, which does not exist"),
    (bundles.index(head=header(-1)), "is in data file 0 of -1"),
    (bundles.index(head=b"\xff\xff"), "is not a valid TensorFlow checkpoint"),
    (bundles.index({KEY: b"\xff\xff"}), "is not a valid TensorFlow checkpoint"),
    (blocks(), "it has no header"),
    (blocks(ITEM), "it has no header"),
    (blocks(HEAD, ITEM, ITEM), "not in the order of their names"),
    (blocks(HEAD, ITEM, kind=1), "its index is compressed or damaged"),
    (blocks(HEAD, ITEM, starts=range(9**3)), "its index is damaged"),
    (blocks(HEAD, item(KEY, entry(), shared=1)), "its index is damaged"),
    (blocks(HEAD, ITEM[:-9]), "its index is damaged"),
    (blocks(HEAD, b"\xff" * 20), "its index is damaged"),
    (bundles.table(b"\xff" * 4), "its index is compressed or damaged"),
    (bundles.table(b""), "its index is compressed or damaged"),
    (bundles.index()[:-1] + b"\0", "its last bytes are not those of an index"),
    (b"", "its last bytes are not those of an index"),
]  # fmt: skip


@pytest.mark.parametrize("row", INDEXES, ids=lambda row: row[1][:40])
def test_impossible_indexes_are_refused(tmp_path, row):
    content, *words = row
    bundles.write(tmp_path, content)
    with pytest.raises(InputError) as error:
        check_index(str(tmp_path / f"{NAME}.index"))
    message = str(error.value)
    assert all(word in message for word in words), message
    assert "is not a valid TensorFlow checkpoint: " in message
    assert message.endswith(". Copy it again from its source.") and "\n" not in message


@pytest.mark.parametrize("length", [64, 10**12, 2**62])
def test_impossible_lengths_of_strings_are_refused(tmp_path, length):
    """With a checksum of the length, TensorFlow would allocate that many bytes."""
    data = bundles.varint(length)
    data += struct.pack("<I", masked_crc32c(struct.pack("<Q" if length >> 32 else "<I", length)))
    bundles.write(tmp_path, weight(1, dtype=7), data=data.ljust(64, b"\0"))
    with pytest.raises(InputError, match=f"has strings of {length} bytes, but 64 bytes"):
        check_index(str(tmp_path / f"{NAME}.index"))


def test_checkpoints_of_tensorflow_are_valid(tmp_path):
    prefix = str(tmp_path / NAME)
    values = {
        f"weights/{number:03}": tf.zeros([number % 4, 3], dtype)
        for number in range(200)
        for dtype in [(tf.float32, tf.bfloat16, tf.int64, tf.bool, tf.string)[number % 5]]
    }
    values |= {"text": tf.constant([["a" * 300], [""]]), "number": tf.constant(1.0)}
    # A variable of TensorFlow 1 in two parts.
    parts = ["4 3 0,1:0,3", "4 3 1,3:0,3"]
    names = [*values, "part", "part"]
    tensors = [*values.values(), tf.ones([1, 3]), tf.ones([3, 3])]
    slices = [""] * len(values) + parts
    tf.raw_ops.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=slices, tensors=tensors)
    check_index(f"{prefix}.index")
    read = tf.train.load_checkpoint(prefix).get_tensor("part")
    np.testing.assert_array_equal(read, np.ones([4, 3]))


def test_the_files_of_the_writer_are_valid(tmp_path):
    """Otherwise the rows above could be refused for another reason."""
    bundles.write(tmp_path, bundles.index())
    check_index(str(tmp_path / f"{NAME}.index"))
    read = tf.train.load_checkpoint(str(tmp_path / NAME)).get_tensor(WORDS)
    np.testing.assert_array_equal(read, np.zeros([4, 4]))


def test_a_checkpoint_is_checked_before_it_is_read(tmp_path):
    """Without the check, the process of the program ends with SIGABRT."""
    contents = {"bad_shape": weight(-1, 4), "bad_dtype": weight(dtype=99)}
    for name, content in contents.items():
        (tmp_path / name).mkdir()
        bundles.write(tmp_path / name, content)
    program = "bert_tf.run_scripts.convert_checkpoint"
    commands = [(program, [f"--from={name}", "--to=out"]) for name in contents]
    shape, dtype = run_mains(commands, cwd=tmp_path, secs=60)
    assert_refused(shape, "bad_shape/bert_model.ckpt.index is not a valid", "the shape [-1, 4]")
    assert_refused(dtype, "bad_dtype/bert_model.ckpt.index is not a valid", "unknown dtype 99")
