"""Compares the project's cross entropy and its gradient with those of TensorFlow."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.training.step.losses import cross_entropy


@pytest.mark.parametrize("shape", [[7], [3, 5]])
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_cross_entropy_and_gradient_equal_tensorflow(shape, scale):
    rng = np.random.default_rng(0)
    logits = tf.constant(scale * rng.normal(size=[*shape, 11]), tf.float32)
    labels = tf.constant(rng.integers(0, 11, shape), tf.int32)
    weights = tf.constant(rng.uniform(size=shape), tf.float32)
    results = []
    for loss in (
        cross_entropy,
        lambda x, y: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=x),
    ):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            value = loss(logits, labels)
            total = tf.reduce_sum(weights * value)
        results.append((value.numpy(), tape.gradient(total, logits).numpy()))
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(results[0][1], results[1][1], atol=1e-6)
