"""Fine-tuning batches: all records in each epoch, similar lengths, resume by number."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from prepared import numbered_columns
from scipy import stats

from bert_tf import record_format
from bert_tf.runs import batches, record_files
from bert_tf.tasks.task import Encoded
from bert_tf.training.step.objective import ORIGIN

LENGTH, COUNT, BATCH = 64, 160, 5
TABLE = record_format.CLASSIFICATION


def encode(numbers):
    numbers = np.array(numbers)
    lengths = np.random.default_rng(0).integers(3, LENGTH + 1, 10_000)
    return Encoded(numbered_columns(numbers, lengths[numbers], LENGTH))


@pytest.fixture
def records(tmp_path):
    path = str(tmp_path / "train.tf_record")
    return record_files.write(path, range(COUNT), encode, TABLE, {})


def dataset(records, trim=True, first_step=0, batch_size=BATCH):
    order = batches.TrainingOrder(records.index.num_tokens, batch_size, 3)
    parse = batches.make_parser(TABLE, {"S": LENGTH}, int(trim))
    return batches.training_batches(records, order, parse, first_step)


def labels(found):
    return [label for batch in found for label in batch["label_ids"].numpy().tolist()]


@pytest.mark.parametrize("trim", [True, False])
def test_each_epoch_has_all_records_in_a_different_order(records, trim):
    found = labels(dataset(records, trim).take(2 * COUNT // BATCH))
    epochs = found[:COUNT], found[COUNT:]
    assert all(sorted(each) == list(range(COUNT)) for each in epochs)
    assert epochs[0] != epochs[1]


# 1 and 7 records are fewer than a window of 16 batches; 161 ends an epoch inside of a
# window.
@pytest.mark.parametrize("count", [1, 7, 161])
@pytest.mark.parametrize("batch_size", [1, 5, 200])
def test_every_number_of_records_appears_equally_often(count, batch_size):
    tokens = np.arange(count) % LENGTH
    order = batches.TrainingOrder(tokens, batch_size, seed=3)
    windows = 16 * -(-4 * count // (16 * batch_size))
    found = np.concatenate([order.batch(step) for step in range(windows)])
    seen = np.bincount(found, minlength=count)
    assert seen.sum() == windows * batch_size
    assert seen.max() - seen.min() <= 1


@pytest.mark.parametrize("first_step", [0, 1, 15, 16, 37])
@pytest.mark.parametrize("trim", [True, False])
def test_a_later_first_step_continues_the_same_batches(records, trim, first_step):
    expected = labels(dataset(records, trim).take(60))
    assert (
        labels(dataset(records, trim, first_step).take(10))
        == (expected[first_step * BATCH : (first_step + 10) * BATCH])
    )


def test_batches_contain_records_of_similar_length(records):
    plain = next(iter(dataset(records, trim=False)))
    assert plain["input_ids"].shape == (BATCH, LENGTH)
    tokens, widths = 0, []
    for batch in dataset(records).take(COUNT // BATCH):
        width = batch["input_ids"].shape[1]
        used = batch["input_mask"].numpy().sum(axis=1)
        assert used.max() == width
        numbers = batch["label_ids"].numpy()
        np.testing.assert_array_equal(
            batch["input_ids"], batch["input_mask"].numpy() * (numbers + 5)[:, None]
        )
        np.testing.assert_array_equal(
            batch[ORIGIN], np.stack([0 * numbers, numbers], axis=1)
        )
        tokens += used.sum()
        widths.append(width)
    assert tokens / (BATCH * sum(widths)) > 0.9
    # The lengths of the batches are in random order.
    assert 0.25 < np.mean([a > b for a, b in itertools.pairwise(widths)]) < 0.75


def test_the_labels_of_a_batch_vary_as_in_random_samples():
    # Half of the records have the label 1. A batch of 32 records of a random
    # permutation has 16 of them with a variance of 8, and the order of 10 records is
    # one of 10! orders.
    order = batches.TrainingOrder(np.full(40_000, 9), 32, seed=1)
    ones = [int((order.batch(step) % 2).sum()) for step in range(1250)]
    variance = np.var(ones)
    low, high = stats.chi2.ppf([1e-4, 1 - 1e-4], 1249) / 1249 * 8
    assert low < variance < high
    few = batches.TrainingOrder(np.full(10, 9), 10, seed=1)
    assert len({tuple(few.batch(step)) for step in range(1000)}) > 990


def test_predictions_have_the_order_of_the_file(records):
    parse = batches.make_parser(TABLE, {"S": LENGTH}, 1)
    traced = []

    def forward(batch):
        traced.append(batch)
        return {"ids": batch["input_ids"], "label": batch["label_ids"]}

    load = batches.make_loader(records, parse)
    forward = batches.compiled_forward(forward, {}, load)
    found = list(batches.predict(records, load, forward, batch_size=7))
    assert [int(each["label"]) for each in found] == list(range(COUNT))
    assert all(set(each["ids"].tolist()) <= {0, n + 5} for n, each in enumerate(found))
    assert len({len(each["ids"]) for each in found}) > 10
    assert len(traced) == 1


def test_choices_are_cut_along_the_sequence():
    table = (
        record_format.Feature("input_ids", "int64", ("C", "S"), ""),
        record_format.Feature("input_mask", "int64", ("C", "S"), ""),
        record_format.Feature("label_ids", "int64", (), ""),
    )
    mask = np.zeros([2, 3, LENGTH], np.int64)
    mask[:, :, :4], mask[1, 2, :9] = 1, 1
    columns = {"input_ids": 7 * mask, "input_mask": mask, "label_ids": np.arange(2)}
    parse = batches.make_parser(table, {"S": LENGTH, "C": 3}, 1)
    batch = parse(tf.constant(record_format.encode(columns, table)))
    np.testing.assert_array_equal(batch["input_ids"], 7 * mask[:, :, :9])
    assert batch["label_ids"].shape == (2,)
