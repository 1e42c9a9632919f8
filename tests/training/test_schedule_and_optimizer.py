"""The released schedule and update against a plain transcription of the rules."""

import numpy as np
import pytest
import tensorflow as tf
from reference.optimization import adam_weight_decay, learning_rate

from bert_tf.training import schedule
from bert_tf.training.config import TrainingConfig
from bert_tf.training.optimizer import AdamWeightDecay


def rate(step, **fields):
    config = TrainingConfig(seed=0, global_batch_size=1, **fields)
    return float(schedule.learning_rate(tf.constant(step, tf.int64), config))


class Weight:
    """What the optimizer needs of a Keras variable."""

    def __init__(self, value):
        self.value = tf.Variable(value)
        self.shape = self.value.shape


@pytest.mark.parametrize(("total", "warmup"), [(100, 10), (30, 6), (7, 0), (5, 5)])
def test_schedule(total, warmup):
    for step in range(total + 3):
        expected = learning_rate(step, 2e-5, total, warmup)
        found = rate(step, learning_rate=2e-5, num_train_steps=total, num_warmup_steps=warmup)
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_the_drop_after_warmup_is_kept():
    rates = [
        rate(step, learning_rate=1.0, num_train_steps=100, num_warmup_steps=10)
        for step in (0, 9, 10, 100)
    ]
    np.testing.assert_allclose(rates, [0.0, 0.9, 0.9, 0.0], atol=1e-6)


def test_update_follows_the_rules():
    rng = np.random.default_rng(0)
    names = ["bert/encoder/layer_0/output/dense/kernel", "cls/predictions/output_bias",
             "bert/embeddings/LayerNorm/gamma", "bert/embeddings/word_embeddings"]  # fmt: skip
    expected = {name: rng.normal(size=(5, 3)) for name in names}
    weights = {name: Weight(value.astype(np.float32)) for name, value in expected.items()}
    optimizer = AdamWeightDecay(weights)
    slots = {name: (np.zeros((5, 3)), np.zeros((5, 3))) for name in names}
    for _ in range(5):
        gradients = {name: rng.normal(size=(5, 3)) for name in names}
        optimizer.apply(
            {name: tf.constant(g, tf.float32) for name, g in gradients.items()}, tf.constant(0.01)
        )
        for name in names:
            expected[name], slots[name] = adam_weight_decay(
                name, expected[name], gradients[name], slots[name], 0.01
            )
    for name in names:
        np.testing.assert_allclose(weights[name].value, expected[name], atol=1e-5)
        np.testing.assert_allclose(optimizer.slots[f"{name}/adam_m"], slots[name][0], atol=1e-5)
        np.testing.assert_allclose(optimizer.slots[f"{name}/adam_v"], slots[name][1], atol=1e-5)


def test_no_gradient_leaves_everything():
    optimizer = AdamWeightDecay({"w": Weight(np.ones(3, np.float32))})
    optimizer.apply({"w": None}, tf.constant(0.1))
    np.testing.assert_array_equal(optimizer.variables["w"].value, [1, 1, 1])
