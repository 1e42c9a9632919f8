"""Record files: the records of all examples, random access, reuse, and errors."""

import collections
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf
from prepared import numbered_columns
from refusals import refused

from bert_tf import record_format
from bert_tf.runs import record_files
from bert_tf.tasks.task import Encoded

LENGTH = 16
KEY = {"source": "a", "labels": ["x"]}


def encode(examples):
    """Example n has n % 3 + 1 records.

    A record has the id n + 5 in all of its tokens.
    """
    counts = np.array([n % 3 + 1 for n in examples])
    numbers = np.repeat(examples, counts)
    columns = numbered_columns(numbers, 3 + numbers % (LENGTH - 2), LENGTH)
    return Encoded(columns, counts, {"even": sum(n % 2 == 0 for n in examples)})


def write(path, count, key=KEY):
    return record_files.write(
        path, iter(range(count)), encode, record_format.CLASSIFICATION, key
    )


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "train.tf_record")


def example_of(serialized):
    return (
        tf.train.Example.FromString(serialized)
        .features.feature["label_ids"]
        .int64_list.value[0]
    )


# More examples than one block per thread, so that several blocks are encoded at the
# same time.
COUNT = 20_000


@pytest.mark.parametrize("count", [1, 2, pytest.param(COUNT, marks=pytest.mark.medium)])
def test_each_example_has_its_records_in_order(path, count):
    records = write(path, count)
    expected = [n for n in range(count) for _ in range(n % 3 + 1)]
    found = [
        example_of(each) for each in tf.data.TFRecordDataset(path).as_numpy_iterator()
    ]
    assert found == expected
    assert len(records) == len(expected)
    assert records.index.num_examples == count
    assert records.index.counts == {"even": (count + 1) // 2}
    np.testing.assert_array_equal(
        records.index.num_tokens, [3 + n % 14 for n in expected]
    )


def test_records_are_read_at_any_position(path):
    records = write(path, 1000)
    expected = list(tf.data.TFRecordDataset(path).as_numpy_iterator())
    order = np.random.default_rng(0).permutation(len(expected))
    assert records.read(order) == [expected[number] for number in order]


def test_a_remote_file_is_read_from_a_local_copy():
    path = "ram://test_record_files/train.tf_record"
    records = write(path, 10)
    assert [example_of(each) for each in records.read(np.array([0, 3]))] == [0, 2]


def test_a_complete_file_with_the_same_key_is_used_again(path):
    written = write(path, 100).index
    found = record_files.read_index(path, KEY)
    assert found.num_examples == written.num_examples
    assert dict(found.counts) == dict(written.counts)
    for name in ("starts", "num_tokens", "records_per_example"):
        np.testing.assert_array_equal(getattr(found, name), getattr(written, name))
    assert record_files.read_index(path, {**KEY, "source": "b"}) is None


def test_a_file_is_moved_with_its_index(tmp_path, path):
    records = write(path, 10)
    moved = record_files.move(records, str(tmp_path / "run" / "train.tf_record"))
    assert [example_of(each) for each in moved.read(np.array([0, 3]))] == [0, 2]
    assert record_files.read_index(moved.path, KEY) is not None
    assert [each.name for each in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("suffix", ["", ".index"])
@pytest.mark.parametrize("damage", ["removed", "cut", "changed"])
def test_a_damaged_file_is_not_used(path, suffix, damage):
    write(path, 100)
    damaged = pathlib.Path(path + suffix)
    content = damaged.read_bytes()
    if damage == "removed":
        damaged.unlink()
    elif damage == "cut":
        damaged.write_bytes(content[:-1])
    else:
        damaged.write_bytes(
            content.replace(b"label_ids" if not suffix else b'"key"', b"x", 1)
        )
    assert record_files.read_index(path, KEY) is None


def test_a_full_disk_is_reported_before_the_folder_changes(tmp_path, path, monkeypatch):
    records = write(path, 10)
    usage = collections.namedtuple("usage", "total used free")(10, 9, 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with refused(r"train.tf_record will have 0.1 MB, but .* only 0.0 MB"):
        record_files.move(records, str(tmp_path / "out" / "train.tf_record"))
    assert not (tmp_path / "out").exists()
