"""The loss and the metrics of tagging, compared with NumPy."""

import numpy as np
import pytest
import scipy.special
import tensorflow as tf
from ner_data import make_task

from bert_tf.config import BertConfig
from bert_tf.training.step.objective import loss_and_metrics

CONFIG = BertConfig(
    vocab_size=30, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
    max_position_embeddings=16,
)  # fmt: skip
# 1 + the index of the tag; 0 at [CLS], further pieces, [SEP] and padding.
LABELS = np.array(
    [[0, 1, 0, 3, 5, 0, 0, 0, 0, 0], [0, 2, 0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 4, 1, 1, 0, 0, 0]]
)
LENGTHS = np.array([7, 3, 9])


def make_objective():
    objective = make_task().make_objective(CONFIG, seed=3, dtype="float32")
    for variable in objective.model.variables:  # larger weights make the outputs differ
        variable.assign(20 * variable)
    return objective


def batch(rows=slice(None), width=10):
    ids = np.random.default_rng(0).integers(5, 30, LABELS.shape)
    mask = (np.arange(10) < LENGTHS[:, None]).astype(np.int32)
    columns = {
        "input_ids": ids * mask, "input_mask": mask, "segment_ids": 0 * mask, "label_ids": LABELS,
    }  # fmt: skip
    return {name: tf.constant(v[rows, :width], tf.int32) for name, v in columns.items()}


def evaluate(objective, data):
    return loss_and_metrics(objective, objective.sums(data, training=False), objective.counts(data))


def test_the_loss_is_the_mean_over_the_words_of_the_batch():
    objective, data = make_objective(), batch()
    logits = objective.model(data, training=False)["logits"].numpy()
    places = np.nonzero(LABELS)
    wanted = LABELS[places] - 1
    log_probabilities = scipy.special.log_softmax(logits, axis=-1)[places]
    values = evaluate(objective, data)
    assert values["loss"] == pytest.approx(
        -log_probabilities[np.arange(len(wanted)), wanted].mean(), rel=1e-5
    )
    assert values["accuracy"] == pytest.approx((logits.argmax(-1)[places] == wanted).mean())
    assert objective.counts(data)["words"].numpy() == 7


def test_padding_does_not_change_the_loss():
    objective = make_objective()
    assert not objective.full_length
    assert evaluate(objective, batch(width=9)) == pytest.approx(
        evaluate(objective, batch()), rel=1e-5
    )


def test_ignored_positions_have_no_gradient():
    objective, data = make_objective(), batch()
    with tf.GradientTape() as tape:
        logits = tf.constant(objective.model(data, training=False)["logits"])
        tape.watch(logits)
        sums = objective.sums_of_outputs({"logits": logits}, data)
        loss = objective.loss(sums, objective.counts(data))
    gradient = np.abs(tape.gradient(loss, logits).numpy()).sum(axis=-1)
    np.testing.assert_array_equal(gradient > 0, LABELS > 0)


def test_outputs_are_the_best_tags():
    objective, data = make_objective(), batch()
    found = objective.outputs(data)
    logits = objective.model(data, training=False)["logits"].numpy()
    assert found["predictions"].dtype == tf.int32
    np.testing.assert_array_equal(found["predictions"], logits.argmax(-1))
    np.testing.assert_array_equal(found["label_ids"], LABELS)


def test_facts_of_the_task():
    task = make_task(document_context=True)
    assert task.facts.saved() == {
        "task": "ner", "task_type": "tagging", "labels": list(task.labels), "scheme": "iob2",
        "document_context": True,
    }  # fmt: skip
    assert task.best_by == ("f1", 1)
    assert task.make_objective(CONFIG, seed=0, dtype="float32").best_by == ("f1", 1)
