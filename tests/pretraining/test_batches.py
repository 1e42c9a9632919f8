"""Batches of records: order, last batch, compression, and records that are refused."""

import os
import pathlib

import iterator_positions as positions
import numpy as np
import pytest
import tensorflow as tf
from hostile_records import compress, flip
from json_files import write_json
from refusals import refused
from tiny_corpus import write_records

from bert_tf import record_format
from bert_tf.pretraining import damaged_records, record_checks
from bert_tf.pretraining.batches import (
    describe_origins,
    evaluation_batches,
    training_batches,
)

SIZES = {"S": 4, "P": 2, "V": 1000, "T": 2}


def write(path, start, count):
    """Writes `count` records; the first id of record number n is `start` + n."""
    shapes = {
        f.name: [int(SIZES.get(d, d)) for d in f.shape]
        for f in record_format.PRETRAINING
    }
    columns = {name: np.zeros([count, *shape]) for name, shape in shapes.items()}
    columns["input_ids"][:, 0] = np.arange(start, start + count)
    return write_records(path, record_format.encode(columns, record_format.PRETRAINING))


def ids(batch):
    return batch["input_ids"].numpy()[:, 0].tolist()


def test_evaluation_batches_contain_each_example_once_in_order(tmp_path):
    paths = [write(tmp_path / "a", 0, 5), write(tmp_path / "b", 5, 2)]
    batches = [ids(batch) for batch in evaluation_batches(paths, SIZES, 3)]
    assert batches == [[0, 1, 2], [3, 4, 5], [6]]


def test_training_batches_contain_each_example_once_per_epoch_in_an_order_from_the_seed(
    tmp_path,
):
    paths = [write(tmp_path / "a", 0, 7), write(tmp_path / "b", 7, 5)]

    def order(seed):
        dataset = training_batches(paths, SIZES, 4, seed, shuffle_buffer_size=100)
        return [i for batch in dataset.take(6) for i in ids(batch)]

    first = order(1)
    assert sorted(first[:12]) == sorted(first[12:]) == list(range(12))
    assert first[:12] != first[12:]
    assert order(1) == first
    assert order(2) != first


A, B = "a" * 64, "b" * 64
MANIFEST = {"vocab_size": 100, "vocabulary_sha256": A, "do_lower_case": False}


@pytest.mark.parametrize(
    ("facts", "fitting", "changes", "words"),
    [
        (
            {},
            [100, A, None, "mlm"],
            {0: 99},
            "100 entries, but the model's vocab_size is 99",
        ),
        (
            {},
            [100, None, None, "mlm"],
            {0: 99},
            "100 entries, but the model's vocab_size is 99",
        ),
        (
            {},
            [100, A, None, "mlm"],
            {1: B},
            rf"_sha256={A}, but .*={B}\. Give the vocab_file",
        ),
        ({}, [100, None, False, "mlm"], {2: True}, "created with do_lower_case=False"),
        *(
            (
                {"flags": {"objective": made_for}},
                [100, None, None, made_for],
                {3: "causal"},
                f"={made_for}, but this run has objective=causal",
            )
            for made_for in ("mlm_nsp", "mlm")
        ),
    ],
)
def test_records_of_other_settings_are_refused(
    tmp_path, facts, fitting, changes, words
):
    """`fitting` are arguments of `check_manifests`, and `changes` replaces some."""
    path = write(tmp_path / "a.tfrecord", 0, 1)
    write_json(tmp_path / "a.manifest.json", {**MANIFEST, **facts})
    record_checks.check_manifests([path], *fitting)
    others = [changes.get(number, each) for number, each in enumerate(fitting)]
    with refused(words):
        record_checks.check_manifests([path], *others)


def test_each_example_has_the_index_of_its_file_and_record(tmp_path):
    paths = [write(tmp_path / "a", 0, 7), compress(write(tmp_path / "b", 7, 5))]
    places = {
        number: (0, number) if number < 7 else (1, number - 7) for number in range(12)
    }
    for batch in training_batches(paths, SIZES, 4, 1, 5).take(9):
        assert batch["origin"].dtype == tf.int64
        found = [tuple(origin) for origin in batch["origin"].numpy().tolist()]
        assert found == [places[number] for number in ids(batch)]


def test_origins_are_described_by_file_and_record():
    origins = np.array([[1, 3], [0, 17], [0, 1042], [1, 3]])
    paths = ["x/a", "x/b"]
    assert describe_origins(paths, origins) == "x/a: records 17, 1042; x/b: records 3"
    for number, more in ((5, ""), (6, ", and 1 more")):
        many = np.array([[0, record] for record in range(number)])
        text = f"x/a: records 0, 1, 2, 3, 4{more}"
        assert describe_origins(paths, many) == text


@pytest.mark.parametrize("at", [0, 1, 3, 4, 7])  # an epoch has three batches
def test_the_position_is_restored_exactly_with_files_that_were_moved(tmp_path, at):
    def make(folder):
        folder.mkdir()
        return [write(folder / "a", 0, 7), compress(write(folder / "b", 7, 5))]

    paths, moved = make(tmp_path / "before"), make(tmp_path / "after")
    for number in (0, 1):  # the moved files have the same lengths but other ids
        write(tmp_path / "after" / "ab"[number], 100 + 7 * number, [7, 5][number])
    compress(moved[1].removesuffix(".gz"))
    iterator = iter(training_batches(paths, SIZES, 4, 1, 5))
    for _ in range(at):
        next(iterator)
    saved = positions.save(iterator, tmp_path / "position")
    expected = positions.columns(iterator, 10)["origin"]
    tf.io.gfile.rmtree(str(tmp_path / "before"))
    resumed = positions.restore(training_batches(moved, SIZES, 4, 1, 5), saved)
    np.testing.assert_array_equal(positions.columns(resumed, 10)["origin"], expected)


def test_a_run_resumes_after_a_damaged_record_with_a_salvaged_copy(tmp_path):
    path = write(tmp_path / "a", 0, 200)
    flip(path, 100 * (os.path.getsize(path) // 200 + 1))
    iterator = iter(training_batches([path], SIZES, 4, 1, 5))
    seen = [i for _ in range(10) for i in ids(next(iterator))]
    saved = positions.save(iterator, tmp_path / "position")
    with pytest.raises(tf.errors.DataLossError):
        for _ in range(50):
            next(iterator)
    copies = damaged_records.salvage([path], str(tmp_path))
    iterator = positions.restore(training_batches(copies, SIZES, 4, 1, 5), saved)
    seen += [i for _ in range(39) for i in ids(next(iterator))]
    assert len(set(seen)) == len(seen) == 196


def test_the_fingerprint_depends_on_the_files_and_their_sizes(tmp_path):
    paths = [write(tmp_path / "a", 0, 7), write(tmp_path / "b", 7, 5)]
    before = record_checks.fingerprint(paths)
    assert record_checks.fingerprint(paths[:1]) != before
    write(tmp_path / "b", 7, 6)
    assert record_checks.fingerprint(paths) != before


def test_a_file_in_two_manifests_must_match_one_of_them(tmp_path):
    path = write(tmp_path / "b.tfrecord", 0, 3)
    length = pathlib.Path(path).stat().st_size
    for name, size in (("a", length + 1), ("b", length)):
        shard = {"name": "b.tfrecord", "bytes": size, "sha256": ""}
        write_json(tmp_path / f"{name}.manifest.json", {"shards": [shard]})
    assert len(list(evaluation_batches([path], SIZES, 3))) == 1
    (tmp_path / "b.manifest.json").unlink()
    with refused(rf"has {length} bytes, but {length + 1} by .*a\.manifest"):
        evaluation_batches([path], SIZES, 3)
