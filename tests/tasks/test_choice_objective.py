"""Scores, loss and accuracy of multiple choice, compared with NumPy."""

import numpy as np
import pytest
import tensorflow as tf
from reference import multiple_choice as reference
from squad_data import INPUTS
from tiny_bert import small_config
from tiny_objectives import evaluate

from bert_tf.modeling import arrays_by_name
from bert_tf.tasks.choice.choice_task import ChoiceTask

CONFIG = small_config(30, initializer_range=0.5)
SIZES = [2, 3, 4, 5, 6, 7]  # the number of choices of each row
C, S = 7, 9
EXISTS = np.arange(C) < np.array(SIZES)[:, None]


@pytest.fixture(scope="module")
def objective():
    return ChoiceTask(C).make_objective(CONFIG, seed=3, dtype="float32")


def make_batch(seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, S + 1, EXISTS.shape) * EXISTS
    mask = np.arange(S) < lengths[..., None]
    shape = mask.shape
    arrays = {
        "input_ids": rng.integers(5, 30, shape) * mask,
        "input_mask": mask,
        "segment_ids": rng.integers(0, 2, shape) * mask,
        "num_choices": np.array(SIZES),
        "label_ids": rng.integers(0, SIZES),
    }
    return {name: value.astype(np.int32) for name, value in arrays.items()}


def outputs_of(objective, batch):
    return {name: value.numpy() for name, value in objective.outputs(batch).items()}


def expected_scores(objective, batch):
    """Returns the scores of the choices of each row."""
    arrays = arrays_by_name(objective.model)
    weights = {name: tf.constant(value, tf.float64) for name, value in arrays.items()}
    rows = []
    for number, size in enumerate(batch["num_choices"].tolist()):
        inputs = {name: tf.constant(batch[name][number, :size]) for name in INPUTS}
        rows.append(np.asarray(reference.scores(weights, CONFIG.to_dict(), inputs)))
    return rows


def test_rows_with_2_to_7_choices_have_the_values_of_the_paper(objective):
    batch = make_batch()
    scores = expected_scores(objective, batch)
    found = outputs_of(objective, batch)
    for row, size in enumerate(SIZES):
        np.testing.assert_allclose(found["logits"][row, :size], scores[row], atol=1e-5)
        probabilities = reference.probabilities(scores[row])
        np.testing.assert_allclose(
            found["probabilities"][row, :size], probabilities, atol=1e-5
        )
        assert not found["probabilities"][row, size:].any()
        assert (found["logits"][row, size:] < -1e8).all()
    loss, accuracy = reference.loss_and_accuracy(scores, batch["label_ids"])
    values = evaluate(objective, batch)
    assert values == pytest.approx({"loss": loss, "accuracy": accuracy}, rel=1e-4)
    assert np.ptp(np.concatenate(scores)) > 0.1


def test_missing_choices_and_padding_may_have_any_content(objective):
    batch = make_batch()
    expected, values = outputs_of(objective, batch), evaluate(objective, batch)
    other = make_batch(seed=9)
    changed = {
        **batch,
        "input_ids": np.where(
            batch["input_mask"], batch["input_ids"], 1 + other["segment_ids"]
        ),
        "input_mask": np.where(EXISTS[..., None], batch["input_mask"], 1),
    }
    found = outputs_of(objective, changed)
    np.testing.assert_allclose(
        found["probabilities"], expected["probabilities"], atol=1e-5
    )
    assert evaluate(objective, changed) == pytest.approx(values, abs=1e-5)


def test_counts_are_examples_and_not_sequences(objective):
    assert float(objective.counts(make_batch())["examples"]) == len(SIZES)
    assert objective.best_by == ("accuracy", 1)
