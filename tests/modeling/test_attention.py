"""`fused_operations.attention` compared with attention in float64, with and without dropout."""

import numpy as np
import pytest
import tensorflow as tf
from processors import EMULATION
from scipy.special import softmax

from bert_tf.modeling import fused_operations
from bert_tf.modeling.layers import Dropout, DropoutSeeds

B, A, S, D = 2, 3, 12, 8
ROUNDING = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def tensors(dtype, seed=0):
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=(B, A, S, D)) for _ in range(4)]
    return [tf.cast(tf.constant(array), dtype) for array in arrays]


def bias_of(lengths, dtype):
    visible = np.arange(S) < np.array(lengths)[:, None]
    return tf.cast(np.where(visible, 0.0, -10000.0)[:, None, None, :], dtype)


def exact(query, key, value, bias, factors, dy):
    """Returns output and gradients by the rules of the chain, in float64."""
    query, key, value, bias, dy = (
        np.asarray(x, np.float64) for x in (query, key, value, bias, dy)
    )
    probabilities = softmax(query @ key.swapaxes(-1, -2) / np.sqrt(D) + bias, axis=-1)
    kept = probabilities * factors
    dprobabilities = dy @ value.swapaxes(-1, -2) * factors
    mean = np.sum(probabilities * dprobabilities, -1, keepdims=True)
    dscores = probabilities * (dprobabilities - mean) / np.sqrt(D)
    return (
        kept @ value,
        dscores @ key,
        dscores.swapaxes(-1, -2) @ query,
        kept.swapaxes(-1, -2) @ dy,
    )


@pytest.mark.parametrize("jit", [False, True], ids=["", "xla"])
@pytest.mark.parametrize("rate", [0.0, 0.1])
@pytest.mark.parametrize("dtype", list(ROUNDING))
def test_output_and_gradients_are_those_of_float64(dtype, rate, jit):
    query, key, value, dy = tensors(dtype)
    bias = bias_of([S, 5], dtype)
    keep = np.random.default_rng(1).random((B, A, S, S)) >= rate

    @tf.function(jit_compile=jit)
    def call(*arguments):
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            mask = tf.constant(keep) if rate else None
            output = fused_operations.attention(*arguments, bias, mask, 1 / (1 - rate))
        return output, *tape.gradient(output, arguments, dy)

    wide = [tf.cast(x, tf.float64).numpy() for x in (query, key, value, bias)]
    expected = exact(*wide, keep / (1 - rate), tf.cast(dy, tf.float64).numpy())
    for found, right in zip(call(query, key, value), expected, strict=True):
        assert found.dtype == dtype
        difference = np.abs(tf.cast(found, tf.float64).numpy() - right).max()
        # In emulation, the result of each operation is rounded, not only that of fused
        # ones.
        roundings = 16 if dtype == "bfloat16" and EMULATION else 8
        assert difference < roundings * ROUNDING[dtype] * np.abs(right).max()


def test_second_derivatives_are_those_of_plain_operations():
    query, key, value, dy = tensors("float64")
    bias = bias_of([S, 5], "float64")

    def plain(query, key, value):
        scores = query @ tf.linalg.matrix_transpose(key) / np.sqrt(D) + bias
        return tf.nn.softmax(scores) @ value

    def explicit(query, key, value):
        return fused_operations.attention(query, key, value, bias, None, 1.0)

    found = []
    for function in (plain, explicit):

        @tf.function
        def second(query, key, value, function=function):
            with tf.GradientTape() as outer:
                outer.watch([query, key, value])
                with tf.GradientTape() as inner:
                    inner.watch(query)
                    output = function(query, key, value)
                slope = tf.reduce_sum(inner.gradient(output, query, dy) ** 2)
            return outer.gradient(slope, [query, key, value])

        found.append(second(query, key, value))
    for one, two in zip(*found, strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-10, atol=1e-12)


def test_the_mean_over_dropout_masks_is_the_output_without_dropout():
    query, key, value, _ = tensors("float32")
    bias = bias_of([S, 5], "float32")
    layer = Dropout(0.1, DropoutSeeds(0))

    @tf.function
    def call(step):
        with layer.dropout_seeds.use(tf.stack([step, 0])):
            return fused_operations.attention(
                query, key, value, bias, *layer.mask((B, A, S, S))
            )

    samples = np.stack([call(tf.constant(step)) for step in range(1000)]).astype(
        np.float64
    )
    expected = fused_operations.attention(query, key, value, bias, None, 1.0)
    errors = samples.std(axis=0) / np.sqrt(len(samples))
    # Of 576 values, about 0.04 are expected to differ by more than four standard
    # errors.
    assert (np.abs(samples.mean(axis=0) - expected) > 4 * errors).sum() <= 1
    assert errors.min() > 0
