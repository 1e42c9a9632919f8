"""Damage in a record file is reported, and a copy has all readable records."""

import os
import pathlib

import hostile_records
import numpy as np
import pytest
import tensorflow as tf
from hostile_records import compress, flip
from refusals import refused
from tiny_corpus import write_records

from bert_tf.errors import InputError
from bert_tf.pretraining import batches, damaged_records

GOOD, SIZES = hostile_records.record(), hostile_records.SIZES
RECORDS = [bytes([number]) * (50 + number) for number in range(10)]
STARTS = [sum(16 + len(record) for record in RECORDS[:number]) for number in range(11)]


def write(path, records=RECORDS):
    return write_records(path, records)


def salvage(*paths):
    """Copies damaged files to a folder next to the first one."""
    return damaged_records.salvage(paths, f"{os.path.dirname(paths[0])}/salvaged")


def read(path):
    kind = "GZIP" if path.endswith(".gz") else ""
    return list(tf.data.TFRecordDataset(path, kind).as_numpy_iterator())


def cut(path, length):
    pathlib.Path(path).write_bytes(pathlib.Path(path).read_bytes()[:length])


LENGTH, LENGTH_CHECKSUM, DATA = 2, 9, 12 + 20
CHECKSUM = -2  # relative to the start of the next record


@pytest.mark.parametrize(
    ("flipped", "dropped", "num_damaged", "truncated_files"),
    [
        ([(4, DATA)], {4}, 1, 0),
        ([(5, CHECKSUM)], {4}, 1, 0),
        ([(0, DATA), (9, DATA)], {0, 9}, 2, 0),
        ([(3, DATA), (4, DATA), (8, CHECKSUM)], {3, 4, 7}, 3, 0),
        ([(4, LENGTH)], set(range(4, 10)), 0, 1),
        ([(4, LENGTH_CHECKSUM)], set(range(4, 10)), 0, 1),
        ([(2, DATA), (7, LENGTH)], {2, 7, 8, 9}, 1, 1),
    ],
)
def test_records_with_flipped_bytes_are_dropped(
    tmp_path, caplog, flipped, dropped, num_damaged, truncated_files
):
    intact, path = write(tmp_path / "intact"), write(tmp_path / "damaged")
    flip(path, *(STARTS[record] + place for record, place in flipped))
    unchanged, copy = salvage(intact, path)
    assert unchanged == intact
    end = ", and its end" * truncated_files
    assert caplog.messages == [
        f"warning: damaged records of {path} left out: {num_damaged}{end}"
    ]
    assert read(copy) == [r for n, r in enumerate(RECORDS) if n not in dropped]


@pytest.mark.parametrize("more", [0, 5, 11, 12, 30, 16 + 53])
def test_a_truncated_file_keeps_the_records_before_the_end(tmp_path, more):
    path = write(tmp_path / "damaged")
    cut(path, STARTS[4] + more)
    (copy,) = salvage(path)
    assert read(copy) == RECORDS[:4]
    # Without a manifest, a file cut between two records seems complete.
    assert (copy == path) == (not more)


@pytest.fixture
def noise():
    """Returns random records.

    Compression of their file hardly changes the records' offsets.
    """
    return [np.random.default_rng(number).bytes(1000) for number in range(300)]


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_compressed_file_keeps_the_records_before_the_damage(tmp_path, noise, share):
    original = compress(write(tmp_path / "a", noise))
    size = pathlib.Path(original).stat().st_size
    for damage_file in (flip, cut):
        path = compress(tmp_path / "a")
        damage_file(path, int(size * share))
        (copy,) = salvage(path)
        kept = read(copy)
        assert copy != path and copy.endswith(".gz")
        # Of the data before the damage, at most 128 KiB (one block) may be lost.
        first = next((n for n, each in enumerate(kept) if each != noise[n]), len(kept))
        assert 300 * share - 140 < first <= 300 * share
        assert all(record in noise for record in kept)


def test_a_compressed_file_without_its_trailer_keeps_all_records(tmp_path):
    path = compress(write(tmp_path / "a"))
    cut(path, -8)
    (copy,) = salvage(path)
    assert copy != path and read(copy) == RECORDS


def test_files_without_damage_are_not_copied(tmp_path, caplog):
    caplog.set_level("INFO", "bert_tf")
    plain = write(tmp_path / "a")
    paths = [plain, compress(plain), write(tmp_path / "b", [b"", b"x", bytes(100000)])]
    assert salvage(*paths) == paths
    assert not (tmp_path / "salvaged").exists()
    assert "checking records: 3 of 3 files" in caplog.text


def test_a_copy_is_reused_until_the_file_changes(tmp_path):
    path = write(tmp_path / "a")
    flip(path, STARTS[4] + DATA)
    (first,) = salvage(path)
    written = pathlib.Path(first).stat().st_mtime_ns
    assert salvage(path) == [first]
    assert pathlib.Path(first).stat().st_mtime_ns == written
    assert list((tmp_path / "salvaged").iterdir()) == [pathlib.Path(first)]
    flip(path, STARTS[6] + DATA)
    assert salvage(path) != [first]


def test_a_file_without_readable_records_is_refused(tmp_path):
    (tmp_path / "text").write_text("This is a text and not a file of records.")
    with refused("text holds no record that can be read"):
        salvage(str(tmp_path / "text"))


def test_files_in_object_stores_are_salvaged(tmp_path):
    path = f"ram://{tmp_path}/a"
    local = write(tmp_path / "a")
    flip(local, STARTS[4] + DATA)
    tf.io.gfile.copy(local, path)
    (copy,) = salvage(path)
    assert read(copy) == [*RECORDS[:4], *RECORDS[5:]]


@pytest.mark.parametrize("data", [b"", b"a", b"123456789", bytes(32), bytes(range(70))])
def test_checksums_equal_those_that_tensorflow_writes(tmp_path, data):
    assert pathlib.Path(
        write(tmp_path / "a", [data])
    ).read_bytes() == hostile_records.frames(data)


def test_an_error_unrelated_to_the_records_is_not_explained(tmp_path):
    assert (
        damaged_records.explain_read_error([write(tmp_path / "a", [GOOD] * 5)], SIZES)
        is None
    )


@pytest.mark.parametrize("number", [0, 7, 1500])
def test_a_damaged_record_is_reported(tmp_path, number):
    path = write(tmp_path / "a.tfrecord", [GOOD] * 2000)
    flip(path, number * (16 + len(GOOD)) + DATA)
    with pytest.raises((tf.errors.DataLossError, InputError)) as raised:
        for _ in batches.evaluation_batches([path], SIZES, 8):
            pass
    message = str(raised.value)
    if number:  # the first record of each file is checked before training
        message = damaged_records.explain_read_error([path], SIZES)
        assert message.startswith(
            f"Record {number} of {path} cannot be read: corrupted record at "
        )
    assert path in message and "skip_bad_records=true" in message
