"""Softmax and attention in bfloat16 and float16, compared with float64."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from processors import EMULATION
from scipy.special import softmax
from tiny_bert import random_inputs

from bert_tf.config import BertConfig
from bert_tf.modeling import (
    BertEncoder,
    SelfAttention,
    attention_bias,
    fused_operations,
    variables_by_name,
)

CONFIG = BertConfig(
    vocab_size=50,
    hidden_size=64,
    num_hidden_layers=1,
    num_attention_heads=4,
    intermediate_size=64,
    max_position_embeddings=256,
    attention_probs_dropout_prob=0.0,
    initializer_range=0.2,
)
B, S = 2, 256
# Largest relative rounding error (half a unit in the last place) for 8 and 11 bits of
# mantissa.
ROUNDING = {"bfloat16": 2.0**-8, "float16": 2.0**-11}
low_precision = pytest.mark.parametrize("dtype", list(ROUNDING))


def masked_scores(dtype):
    """Returns partly masked scores, rounded to `dtype`, and these in float64."""
    scores = np.random.default_rng(0).normal(scale=4, size=(40, 512))
    scores[:, 300:] -= 10000
    rounded = tf.cast(scores, dtype)
    return rounded, tf.cast(rounded, tf.float64).numpy()


@low_precision
@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_softmax_rounds_only_its_result(dtype, jit, training):
    """With sums of 512 terms in `dtype`, errors would exceed the tolerance."""
    scores, exact = masked_scores(dtype)
    call = tf.function(fused_operations.softmax, jit_compile=jit)
    output = call(scores, training)
    assert output.dtype == dtype
    output = tf.cast(output, tf.float64).numpy()
    expected = softmax(exact, axis=-1)
    # Below 6e-5, float16 values are subnormal and have fewer bits of mantissa.
    np.testing.assert_allclose(
        output, expected, rtol=1.01 * ROUNDING[dtype], atol=3.1e-8
    )
    assert not output[:, 300:].any()


@low_precision
def test_gradient_of_softmax_is_accurate(dtype):
    scores, exact = masked_scores(dtype)
    upstream = np.random.default_rng(1).normal(size=exact.shape)
    with tf.GradientTape() as tape:
        tape.watch(scores)
        y = fused_operations.softmax(scores, True)
        loss = tf.reduce_sum(tf.cast(y, tf.float32) * tf.cast(upstream, tf.float32))
    gradient = tf.cast(tape.gradient(loss, scores), tf.float64).numpy()
    y = softmax(exact, axis=-1)
    upstream = tf.cast(tf.cast(upstream, dtype), tf.float64).numpy()
    expected = y * (upstream - (upstream * y).sum(-1, keepdims=True))
    tolerance = 2 * ROUNDING[dtype] * np.abs(expected).max()
    np.testing.assert_allclose(gradient, expected, atol=tolerance)


@low_precision
@pytest.mark.parametrize("attention", ["bidirectional", "causal"])
def test_attention_is_accurate(dtype, attention):
    """Compares with attention in float64 on the same inputs.

    Half of example 1 is padding.
    """
    keras.utils.set_random_seed(0)
    layer = SelfAttention(CONFIG, dtype=f"mixed_{dtype}")
    hidden = tf.cast(np.random.default_rng(2).normal(size=(B, S, 64)), dtype)
    mask = np.ones((B, S), np.int32)
    mask[1, S // 2 :] = 0
    output, probabilities = layer(hidden, attention_bias(mask, attention, dtype))
    variables = layer.variables_by_name().items()
    weights = {name: np.asarray(value, np.float64) for name, value in variables}
    x = tf.cast(hidden, tf.float64).numpy()

    def split(part):
        y = x @ weights[f"self/{part}/kernel"] + weights[f"self/{part}/bias"]
        return y.reshape(B, S, 4, 16).transpose(0, 2, 1, 3)

    query, key, value = map(split, ("query", "key", "value"))
    visible = mask[:, None, None, :] * (np.tri(S) if attention == "causal" else 1)
    scores = query @ key.transpose(0, 1, 3, 2) / 4 - 10000.0 * (1 - visible)
    expected = softmax(scores, axis=-1)
    actual = tf.cast(probabilities, tf.float64).numpy()
    assert np.isfinite(np.asarray(output, np.float32)).all()
    assert not actual[:1][np.broadcast_to(visible == 0, actual.shape)[:1]].any()
    # In emulation, partial sums of products are rounded too: of 40 models, the largest
    # differences were 6.6 and 8.4 roundings, and 5.3 and 4.4 with bfloat16
    # instructions.
    emulated = dtype == "bfloat16" and EMULATION is not None
    np.testing.assert_allclose(
        actual, expected, atol=(16 if emulated else 8) * ROUNDING[dtype]
    )
    merged = (expected @ value).transpose(0, 2, 1, 3).reshape(-1, 64)
    exact = merged @ weights["output/dense/kernel"] + weights["output/dense/bias"]
    difference = np.abs(np.asarray(output, np.float64) - exact).max()
    assert difference < (16 if emulated else 6) * ROUNDING[dtype] * np.abs(exact).max()


@low_precision
@pytest.mark.parametrize("attention", ["bidirectional", "causal"])
def test_padding_causes_no_overflow(dtype, attention):
    """Outputs and gradients are finite. Example 0 has one token.

    Example 1 has only padding.
    """
    config = BertConfig.from_dict({**CONFIG.to_dict(), "attention": attention})
    model = BertEncoder(config, seed=0, dtype=f"mixed_{dtype}")
    inputs = random_inputs([1, 0], 16)
    variables = [v.value for v in variables_by_name(model).values()]
    with tf.GradientTape() as tape:
        outputs = model(inputs, training=True)
        loss = tf.reduce_sum(tf.cast(outputs["pooled_output"], tf.float32))
    for value in (*tf.nest.flatten(outputs), *tape.gradient(loss, variables)):
        assert np.isfinite(np.asarray(tf.convert_to_tensor(value), np.float32)).all()
