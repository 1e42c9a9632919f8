"""The cache of hidden states: values, shards, resumption, and refused caches."""

import collections
import pathlib
import resource
import shutil

import numpy as np
import pytest
import tensorflow as tf
from refusals import refused

from bert_tf.runs import output_cache
from bert_tf.runs.output_cache import FeatureCache

SHAPE = (2, 3)
KEY = {"source": "a"}


def vectors_of(record, length):
    """Returns the hidden states of a record; each vector differs from all others."""
    numbers = (
        100 * record + np.arange(length)[:, None, None] + np.arange(6).reshape(2, 3) / 8
    )
    return numbers.astype(np.float32)


class Encoder:
    """Computes batches of hidden states, with padding of other values.

    Counts the records.
    """

    def __init__(self, lengths, fails_after=None):
        self.lengths, self.computed, self._fails_after = lengths, [], fails_after

    def __call__(self, records):
        if self._fails_after is not None and len(self.computed) >= self._fails_after:
            raise KeyboardInterrupt
        self.computed += records.tolist()
        rows = np.full(
            [len(records), self.lengths[records].max() + 2, *SHAPE], -7, np.float32
        )
        for row, record in zip(rows, records, strict=True):
            row[: self.lengths[record]] = vectors_of(record, self.lengths[record])
        return rows


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of a cache with small shards."""
    monkeypatch.setattr(output_cache, "_SHARD_BYTES", 1000)
    monkeypatch.setattr(output_cache, "_RECORDS_PER_BATCH", 4)
    return tmp_path / "cache"


def lengths_of(count):
    return np.random.default_rng(count).integers(1, 12, count).astype(np.uint16)


def write(folder, lengths, compute=None, key=KEY, dtype="float32"):
    cache = FeatureCache(str(folder), lengths, SHAPE, dtype, key)
    cache.write(compute or Encoder(lengths), "train")
    return cache


def bytes_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("count", [1, 2, 300])
def test_records_are_read_in_any_order(folder, count, dtype):
    lengths = lengths_of(count)
    cache = write(folder, lengths, dtype=dtype)
    records = np.random.default_rng(0).permutation(count)[:7]
    values = cache.read(records, 14)
    assert values.shape == (len(records), 14, *SHAPE)
    for row, record in zip(values, records, strict=True):
        length = lengths[record]
        np.testing.assert_array_equal(
            row[:length], vectors_of(record, length).astype(dtype)
        )
        assert not row[length:].any()
    assert (len(list(folder.glob("*.npy"))) > 10) == (count == 300)


def test_a_record_longer_than_a_shard(folder):
    lengths = np.array([100, 1, 90, 2], np.uint16)
    cache = write(folder, lengths)
    values = cache.read(np.arange(4), 100)
    for record, length in enumerate(lengths):
        np.testing.assert_array_equal(
            values[record, :length], vectors_of(record, length)
        )


def test_batches_are_padded_to_the_length_of_the_sequences(folder, tmp_path):
    cache = write(folder, np.array([3, 5], np.uint16))
    values, mask = cache.tensors(tf.constant([0], tf.int64), 7)
    assert values.shape == (1, 7, *SHAPE)
    assert mask.numpy().tolist() == [[1, 1, 1, 0, 0, 0, 0]]
    # A classifier with a linear head has one vector for each record.
    cache = write(tmp_path / "mean", np.array([1, 1], np.uint16))
    assert cache.tensors(tf.constant([1], tf.int64), 7)[1].numpy().tolist() == [[1]]


@pytest.mark.parametrize("fails_after", [0, 150])
def test_an_interrupted_cache_is_completed(folder, tmp_path, fails_after):
    lengths = lengths_of(300)
    write(tmp_path / "complete", lengths)
    first, second = Encoder(lengths, fails_after), Encoder(lengths)
    with pytest.raises(KeyboardInterrupt):
        write(folder, lengths, first)
    assert not list(folder.glob(".*"))
    write(folder, lengths, second)
    assert bytes_of(folder) == bytes_of(tmp_path / "complete")
    repeated = collections.Counter(first.computed + second.computed)
    assert sum(repeated.values()) - 300 < 40  # at most the records of one shard
    third = Encoder(lengths)
    write(folder, lengths, third)
    assert third.computed == []


def test_a_damaged_shard_is_refused_and_kept(folder):
    lengths = lengths_of(300)
    write(folder, lengths)
    shard = folder / "shard-00003.npy"
    shard.write_bytes(shard.read_bytes()[:-1] + b"\x07")
    before = bytes_of(folder)
    with refused(r"shard-00003.npy is incomplete or damaged. Remove this file"):
        write(folder, lengths)
    assert bytes_of(folder) == before


def test_more_shards_than_open_files(folder, monkeypatch):
    lengths = lengths_of(2000)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(list(pathlib.Path("/proc/self/fd").iterdir()))
    monkeypatch.setattr(output_cache, "_OPEN_SHARDS", 8)
    cache = write(folder, lengths)
    assert len(list(folder.glob("*.npy"))) > 100
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 40, limits[1]))
    try:
        values = cache.read(np.arange(2000), 12)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    np.testing.assert_array_equal(values[1999, :1], vectors_of(1999, 1))


@pytest.mark.parametrize("value", [np.nan, 1e5])
def test_values_that_the_dtype_cannot_hold_are_refused(folder, value):
    def compute(records):
        return np.full([len(records), 3, *SHAPE], value)

    with refused("not finite in float16"):
        write(folder, np.array([3, 2]), compute, dtype="float16")
    assert not list(folder.glob("*.npy"))


def test_a_full_disk_is_noticed_before_the_computation(folder, monkeypatch):
    lengths = lengths_of(300)
    usage = collections.namedtuple("usage", "total used free")
    size = 4 * 6 * int(lengths.sum())
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(size, 0, size - 1))
    encoder = Encoder(lengths)
    with refused(r"has only 0\.0 MB of free space"):
        write(folder, lengths, encoder)
    assert encoder.computed == [] and not folder.exists()
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(size, 0, size))
    write(folder, lengths, encoder)
