"""The loss and the metrics of tagging, compared with NumPy."""

import numpy as np
import pytest
import scipy.special
import tensorflow as tf
from ner_data import make_task
from tiny_objectives import evaluate, make_objective

# 1 + the index of the tag; 0 at [CLS], further pieces, [SEP] and padding.
LABELS = np.array(
    [
        [0, 1, 0, 3, 5, 0, 0, 0, 0, 0],
        [0, 2, 0, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 4, 1, 1, 0, 0, 0],
    ]
)
LENGTHS = np.array([7, 3, 9])


def batch(rows=slice(None), width=10):
    ids = np.random.default_rng(0).integers(5, 30, LABELS.shape)
    mask = (np.arange(10) < LENGTHS[:, None]).astype(np.int32)
    columns = {
        "input_ids": ids * mask,
        "input_mask": mask,
        "segment_ids": 0 * mask,
        "label_ids": LABELS,
    }
    return {name: tf.constant(v[rows, :width], tf.int32) for name, v in columns.items()}


def test_the_loss_is_the_mean_over_the_words_of_the_batch():
    objective, data = make_objective(make_task()), batch()
    logits = objective.model(data, training=False)["logits"].numpy()
    places = np.nonzero(LABELS)
    wanted = LABELS[places] - 1
    log_probabilities = scipy.special.log_softmax(logits, axis=-1)[places]
    values = evaluate(objective, data)
    assert values["loss"] == pytest.approx(
        -log_probabilities[np.arange(len(wanted)), wanted].mean(), rel=1e-5
    )
    assert values["accuracy"] == pytest.approx(
        (logits.argmax(-1)[places] == wanted).mean()
    )
    assert objective.counts(data)["words"].numpy() == 7


def test_padding_does_not_change_the_loss():
    objective = make_objective(make_task())
    assert not objective.full_length
    assert evaluate(objective, batch(width=9)) == pytest.approx(
        evaluate(objective, batch()), rel=1e-5
    )
