"""Losses, metrics and outputs of the objectives, compared with NumPy and SciPy."""

import numpy as np
import pytest
import scipy.special
import tensorflow as tf
from tiny_bert import random_inputs
from tiny_objectives import evaluate, make_objective

from bert_tf.tasks.classification.classification_task import ClassificationTask

COUNT, CLASSES = 6, 3
NAMES = ("x", "y", "z")
THRESHOLD = 0.45
LABEL_IDS = {
    "classification": np.array([0, 1, 2, 2, 1, 0], np.int32),
    "regression": np.array([0.0, 1.5, 5.0, -2.0, 1.0, 3.0], np.float32),
    "multi_label": np.eye(3, dtype=np.float32)[[0, 1, 2, 2, 1, 0]],
}


def make(task_type, labels=NAMES, best_by=("loss", -1)):
    task = ClassificationTask(
        "any", labels, False, None, task_type, best_by=best_by, threshold=THRESHOLD
    )
    return make_objective(task)


def batch(label_ids):
    return {
        **random_inputs([7] * COUNT, 7, 30),
        "label_ids": tf.constant(label_ids),
        "is_real_example": np.ones(COUNT, np.int32),
    }


def values_and_outputs(objective, data):
    outputs = {name: value.numpy() for name, value in objective.outputs(data).items()}
    return evaluate(objective, data), outputs


def test_classification():
    labels = LABEL_IDS["classification"]
    values, outputs = values_and_outputs(make("classification"), batch(labels))
    logits = outputs["logits"].astype(np.float64)
    assert logits.shape == (COUNT, CLASSES) and np.ptp(logits) > 0.1
    probabilities = scipy.special.softmax(logits, axis=-1)
    np.testing.assert_allclose(outputs["probabilities"], probabilities, atol=1e-6)
    expected = -np.log(probabilities[np.arange(COUNT), labels]).mean()
    assert values == {
        "loss": pytest.approx(expected, abs=1e-6),
        "accuracy": pytest.approx(np.mean(logits.argmax(-1) == labels)),
    }


def test_regression():
    labels = LABEL_IDS["regression"]
    values, outputs = values_and_outputs(make("regression", ()), batch(labels))
    assert outputs["logits"].shape == (COUNT, 1)
    np.testing.assert_array_equal(outputs["score"], outputs["logits"][:, 0])
    assert np.ptp(outputs["score"]) > 0.1
    expected = np.mean((outputs["score"].astype(np.float64) - labels) ** 2)
    assert values == {"loss": pytest.approx(expected, abs=1e-5)}


def test_multi_label():
    labels = (
        np.random.default_rng(1).integers(0, 2, [COUNT, CLASSES]).astype(np.float32)
    )
    values, outputs = values_and_outputs(make("multi_label"), batch(labels))
    logits = outputs["logits"].astype(np.float64)
    probabilities = scipy.special.expit(logits)
    np.testing.assert_allclose(outputs["probabilities"], probabilities, atol=1e-6)
    losses = -labels * np.log(probabilities) - (1 - labels) * np.log1p(-probabilities)
    predicted = probabilities >= THRESHOLD
    assert 0 < predicted.sum() < predicted.size
    right = np.sum(predicted * labels)
    precision, recall = right / predicted.sum(), right / labels.sum()
    assert values == {
        "loss": pytest.approx(losses.mean(), abs=1e-6),
        "micro_f1": pytest.approx(
            2 * precision * recall / (precision + recall), abs=1e-6
        ),
    }


def test_multi_label_without_any_label_has_f1_0():
    objective = make("multi_label")
    sums = {"loss": 1.0, "true_positives": 0.0, "positives": 0.0}
    assert objective.metrics(sums, {"examples": 2.0}) == {"micro_f1": 0.0}


@pytest.mark.parametrize("task_type", LABEL_IDS)
def test_sums_of_parts_are_the_sums_of_the_batch(task_type):
    objective = make(task_type, () if task_type == "regression" else NAMES)
    data = batch(LABEL_IDS[task_type])
    total, first, last = (
        objective.sums({name: v[rows] for name, v in data.items()}, training=False)
        for rows in (slice(None), slice(2), slice(2, None))
    )
    for name, value in total.items():
        np.testing.assert_allclose(first[name] + last[name], value, atol=1e-5)
