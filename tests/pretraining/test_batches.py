"""Records -> batches: order, ends, compression, and what is refused."""

import gzip
import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import features
from bert_tf.errors import InputError
from bert_tf.pretraining import data

SIZES = {"S": 4, "P": 2}


def write(path, start, count):
    """Records whose first id says which they are."""
    shapes = {f.name: [int(SIZES.get(d, d)) for d in f.shape] for f in features.PRETRAINING}
    columns = {name: np.zeros([count, *shape]) for name, shape in shapes.items()}
    columns["input_ids"][:, 0] = np.arange(start, start + count)
    records = features.encode(columns, features.PRETRAINING)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)
    return str(path)


def ids(batch):
    return batch["input_ids"].numpy()[:, 0].tolist()


def test_evaluation_gives_each_example_once_in_order(tmp_path):
    paths = [write(tmp_path / "a", 0, 5), write(tmp_path / "b", 5, 2)]
    batches = [ids(batch) for batch in data.evaluation_batches(paths, SIZES, 3)]
    assert batches == [[0, 1, 2], [3, 4, 5], [6]]


def test_training_gives_each_example_once_a_pass_in_an_order_of_the_seed(tmp_path):
    paths = [write(tmp_path / "a", 0, 7), write(tmp_path / "b", 7, 5)]

    def order(seed):
        dataset = data.training_batches(paths, SIZES, 4, seed, shuffle_buffer_size=100)
        return [i for batch in dataset.take(6) for i in ids(batch)]

    first = order(1)
    assert sorted(first[:12]) == sorted(first[12:]) == list(range(12))
    assert first[:12] != first[12:]
    assert order(1) == first
    assert order(2) != first


def test_gzip_is_read(tmp_path):
    plain = write(tmp_path / "a", 0, 3)
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(pathlib.Path(plain).read_bytes()))
    assert [ids(b) for b in data.evaluation_batches([str(path)], SIZES, 3)] == [[0, 1, 2]]


def test_another_vocabulary_is_refused_with_both_values(tmp_path):
    path = write(tmp_path / "a.tfrecord", 0, 1)
    manifest = {"vocab_size": 100, "vocabulary_sha256": "a" * 64}
    (tmp_path / "a.manifest.json").write_text(json.dumps(manifest))
    data.check_vocabulary([path], 100, "a" * 64)
    data.check_vocabulary([path], 100, None)
    with pytest.raises(InputError, match=r"100 entries, but the model's vocab_size is 99"):
        data.check_vocabulary([path], 99, None)
    with pytest.raises(InputError, match=r"SHA-256 aaaaaaaaaaaa, but --vocab_file has bbbb"):
        data.check_vocabulary([path], 100, "b" * 64)


def test_another_casing_is_refused(tmp_path):
    path = write(tmp_path / "a.tfrecord", 0, 1)
    (tmp_path / "a.manifest.json").write_text(json.dumps({"do_lower_case": False}))
    data.check_vocabulary([path], 100, None, False)
    with pytest.raises(InputError, match=r"made with do_lower_case=False"):
        data.check_vocabulary([path], 100, None, True)


def test_ids_beyond_the_vocabulary_are_refused(tmp_path):
    path = write(tmp_path / "a.tfrecord", 8, 1)
    data.check_ids([path], 9)
    with pytest.raises(InputError, match=r"the id 8 in input_ids, but the model's vocab_size is 8"):
        data.check_ids([path], 8)


def test_other_records_have_another_fingerprint(tmp_path):
    paths = [write(tmp_path / "a", 0, 7), write(tmp_path / "b", 7, 5)]
    before = data.fingerprint(paths)
    assert data.fingerprint(paths[:1]) != before
    write(tmp_path / "b", 7, 6)
    assert data.fingerprint(paths) != before


def test_no_record_is_refused(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(b""))
    with pytest.raises(InputError, match=r"a\.gz holds no record"):
        data.evaluation_batches([str(tmp_path / "a.gz")], SIZES, 3)
