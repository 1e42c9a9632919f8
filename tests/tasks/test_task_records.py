"""Fine-tuning batches: all examples in each epoch, similar lengths in a batch, exact resume."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import features
from bert_tf.tasks import task_records

LENGTH, COUNT, BATCH = 64, 160, 5


@pytest.fixture
def path(tmp_path):
    lengths = np.random.default_rng(0).integers(3, LENGTH + 1, COUNT)
    mask = (np.arange(LENGTH) < lengths[:, None]).astype(np.int64)
    number = np.arange(COUNT)
    columns = {
        "input_ids": mask * (number[:, None] + 5), "input_mask": mask, "segment_ids": 0 * mask,
        "label_ids": number, "is_real_example": 0 * number + 1,
    }  # fmt: skip
    path = str(tmp_path / "train.tf_record")
    assert task_records.write(path, columns, features.CLASSIFICATION) == COUNT
    return path


def batches(path, trim=True, count=COUNT):
    return task_records.training_batches(
        path, count, features.CLASSIFICATION, LENGTH, BATCH, 3, trim
    )


def labels(found):
    return [label for batch in found for label in batch["label_ids"].numpy().tolist()]


@pytest.mark.parametrize("trim", [True, False])
def test_each_epoch_has_all_examples_in_a_different_order(path, trim):
    found = labels(batches(path, trim).take(2 * COUNT // BATCH))
    epochs = found[:COUNT], found[COUNT:]
    assert all(sorted(each) == list(range(COUNT)) for each in epochs)
    assert epochs[0] != epochs[1]
    assert labels(batches(path, trim).take(3)) == found[: 3 * BATCH]


def test_batches_contain_examples_of_similar_length(path):
    plain = next(iter(batches(path, trim=False)))
    assert plain["input_ids"].shape == (BATCH, LENGTH)
    tokens = padded = 0
    widths = []
    for batch in batches(path).take(COUNT // BATCH):
        width = batch["input_ids"].shape[1]
        used = batch["input_mask"].numpy().sum(axis=1)
        assert used.max() == width
        np.testing.assert_array_equal(
            batch["input_ids"],
            batch["input_mask"].numpy() * (batch["label_ids"].numpy() + 5)[:, None],
        )
        tokens, padded, widths = tokens + used.sum(), padded + BATCH * width, [*widths, width]
    assert tokens / padded > 0.9
    # The lengths of the batches are in random order.
    assert 0.25 < np.mean([a > b for a, b in itertools.pairwise(widths)]) < 0.75


def test_a_restored_iterator_continues_at_the_same_batch(path, tmp_path):
    expected = labels(batches(path).take(40))
    iterator = iter(batches(path))
    before = labels(itertools.islice(iterator, 17))
    saved = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "position"))
    other = iter(batches(path))
    tf.train.Checkpoint(iterator=other).read(saved).assert_consumed()
    assert before + labels(itertools.islice(other, 23)) == expected


def test_evaluation_batches_keep_the_file_order(path):
    found = list(task_records.evaluation_batches(path, features.CLASSIFICATION, LENGTH, 7))
    assert labels(found) == list(range(COUNT))
