"""The loss and the metrics of span prediction, compared with NumPy."""

import numpy as np
import pytest
import scipy.special
import tensorflow as tf
from tiny_bert import random_inputs
from tiny_objectives import evaluate, make_objective

from bert_tf.tasks.squad.best_answers import AnswerSettings
from bert_tf.tasks.squad.squad_task import SquadTask

LENGTHS = [9, 4, 6]
STARTS, ENDS = np.array([3, 0, 5]), np.array([4, 0, 5])


def make(padding_as_released):
    settings = AnswerSettings(padding_as_released=padding_as_released)
    return make_objective(SquadTask(None, answers=settings))


def batch(width):
    columns = random_inputs(LENGTHS, 12, 30)
    cut = {name: values[:, :width] for name, values in columns.items()}
    cut |= {
        "start_positions": STARTS,
        "end_positions": ENDS,
        "is_impossible": np.zeros(3),
    }
    return {name: tf.constant(values, tf.int32) for name, values in cut.items()}


def expected(objective, data, lengths):
    outputs = {name: value.numpy() for name, value in objective.outputs(data).items()}
    values = {"loss": 0.0}
    for name, positions in (("start", STARTS), ("end", ENDS)):
        right = 0
        for logits, length, position in zip(
            outputs[f"{name}_logits"], lengths, positions, strict=True
        ):
            values["loss"] -= scipy.special.log_softmax(logits[:length])[position] / 6
            right += logits[:length].argmax() == position
        values[f"{name}_accuracy"] = right / 3
    return values


def test_padding_does_not_change_the_loss():
    objective = make(padding_as_released=False)
    assert not objective.full_length
    values = evaluate(objective, batch(12))
    assert values == pytest.approx(expected(objective, batch(12), LENGTHS), rel=1e-5)
    assert evaluate(objective, batch(9)) == pytest.approx(values, rel=1e-5)


def test_padding_is_a_class_as_released():
    objective = make(padding_as_released=True)
    assert objective.full_length
    values = evaluate(objective, batch(12))
    assert values == pytest.approx(expected(objective, batch(12), [12] * 3), rel=1e-5)
    assert evaluate(objective, batch(9))["loss"] < values["loss"] - 1e-3
