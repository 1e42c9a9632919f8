"""bfloat16 and float16 beside the same formulas in float64: softmax, attention, its mask."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.modeling import BertEncoder, SelfAttention, attention_bias, fused, variables_by_name

CONFIG = BertConfig(
    vocab_size=50, hidden_size=64, num_hidden_layers=1, num_attention_heads=4,
    intermediate_size=64, max_position_embeddings=256, attention_probs_dropout_prob=0.0,
    initializer_range=0.2,
)  # fmt: skip
B, S = 2, 256
# Half a unit in the last place, relative: 8 and 11 bits of mantissa.
ROUNDING = {"bfloat16": 2.0**-8, "float16": 2.0**-11}
narrow = pytest.mark.parametrize("dtype", list(ROUNDING))


def exact_softmax(scores):
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def scores_of(dtype):
    """Wide scores and a mask, as the dtype holds them: its value, and that in float64."""
    scores = np.random.default_rng(0).normal(scale=4, size=(40, 512))
    scores[:, 300:] -= 10000
    held = tf.cast(scores, dtype)
    return held, tf.cast(held, tf.float64).numpy()


@narrow
@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_softmax_is_rounded_once(dtype, jit, training):
    """Nothing but the result is rounded: sums over 512 terms in the dtype itself would be off."""
    held, exact = scores_of(dtype)
    found = tf.function(lambda x: fused.softmax(x, training), jit_compile=jit)(held)
    assert found.dtype == dtype
    found = tf.cast(found, tf.float64).numpy()
    expected = exact_softmax(exact)
    # float16 has fewer bits below 6e-5.
    np.testing.assert_allclose(found, expected, rtol=1.01 * ROUNDING[dtype], atol=3.1e-8)
    assert not found[:, 300:].any()


@narrow
def test_the_gradient_of_softmax(dtype):
    held, exact = scores_of(dtype)
    upstream = np.random.default_rng(1).normal(size=exact.shape)
    with tf.GradientTape() as tape:
        tape.watch(held)
        y = fused.softmax(held, True)
        loss = tf.reduce_sum(tf.cast(y, tf.float32) * tf.cast(upstream, tf.float32))
    found = tf.cast(tape.gradient(loss, held), tf.float64).numpy()
    y = exact_softmax(exact)
    upstream = tf.cast(tf.cast(upstream, dtype), tf.float64).numpy()
    expected = y * (upstream - (upstream * y).sum(-1, keepdims=True))
    np.testing.assert_allclose(found, expected, atol=2 * ROUNDING[dtype] * np.abs(expected).max())


@narrow
@pytest.mark.parametrize("attention", ["bidirectional", "causal"])
def test_attention(dtype, attention):
    """Beside float64, from the same rounded hidden states; half of one example is padding."""
    layer = SelfAttention(CONFIG, dtype=f"mixed_{dtype}")
    hidden = tf.cast(np.random.default_rng(2).normal(size=(B, S, 64)), dtype)
    mask = np.ones((B, S), np.int32)
    mask[1, S // 2 :] = 0
    output, probabilities = layer(hidden, attention_bias(mask, attention, dtype))
    weights = {n: np.asarray(v, np.float64) for n, v in layer.variables_by_name().items()}
    x = tf.cast(hidden, tf.float64).numpy()

    def split(part):
        y = x @ weights[f"self/{part}/kernel"] + weights[f"self/{part}/bias"]
        return y.reshape(B, S, 4, 16).transpose(0, 2, 1, 3)

    query, key, value = map(split, ("query", "key", "value"))
    seen = mask[:, None, None, :] * (np.tri(S) if attention == "causal" else 1)
    expected = exact_softmax(query @ key.transpose(0, 1, 3, 2) / 4 - 10000.0 * (1 - seen))
    found = tf.cast(probabilities, tf.float64).numpy()
    assert np.isfinite(np.asarray(output, np.float32)).all()
    assert not found[:1][np.broadcast_to(seen == 0, found.shape)[:1]].any()
    np.testing.assert_allclose(found, expected, atol=8 * ROUNDING[dtype])
    joined = (expected @ value).transpose(0, 2, 1, 3).reshape(-1, 64)
    exact = joined @ weights["output/dense/kernel"] + weights["output/dense/bias"]
    difference = np.abs(np.asarray(output, np.float64) - exact).max()
    assert difference < 6 * ROUNDING[dtype] * np.abs(exact).max()


@narrow
@pytest.mark.parametrize("attention", ["bidirectional", "causal"])
def test_padding_overflows_nothing(dtype, attention):
    """All padding but one token, and an example of padding alone; gradients too."""
    config = BertConfig.from_dict({**CONFIG.to_dict(), "attention": attention})
    model = BertEncoder(config, seed=0, dtype=f"mixed_{dtype}")
    mask = np.zeros((B, 16), np.int32)
    mask[0, 0] = 1
    inputs = {
        "input_ids": tf.ones((B, 16), tf.int32),
        "input_mask": tf.constant(mask),
        "segment_ids": tf.zeros((B, 16), tf.int32),
    }
    variables = [v.value for v in variables_by_name(model).values()]
    with tf.GradientTape() as tape:
        outputs = model(inputs, training=True)
        loss = tf.reduce_sum(tf.cast(outputs["pooled_output"], tf.float32))
    for value in (*tf.nest.flatten(outputs), *tape.gradient(loss, variables)):
        assert np.isfinite(np.asarray(tf.convert_to_tensor(value), np.float32)).all()
