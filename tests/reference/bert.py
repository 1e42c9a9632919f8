"""An independent transcription of google-research/bert's SQuAD training in float64.

This module imports no other module of the project and has no dropout. Weights and
moments are dicts of tensors, keyed by their names in google-research/bert checkpoints.
"""

import math
import re

import tensorflow as tf

INPUTS = ("input_ids", "input_mask", "segment_ids")
_ENDS = ("start", "end")


def layer_norm(x, weights, name):
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    normal = (x - mean) / tf.sqrt(variance + 1e-12)
    return normal * weights[f"{name}/gamma"] + weights[f"{name}/beta"]


def dense(x, weights, name):
    return x @ weights[f"{name}/kernel"] + weights[f"{name}/bias"]


def gelu(x):
    return x * 0.5 * (1 + tf.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def sequence_output(weights, config, batch):
    """Returns the encoder's output, float [B, S, H] in the dtype of the weights."""
    ids, mask, segments = (batch[name] for name in INPUTS)
    words = tf.gather(weights["bert/embeddings/word_embeddings"], ids)
    # A product with one-hot rows replaces the lookup, so that the gradient is dense.
    table = weights["bert/embeddings/token_type_embeddings"]
    segment_embeddings = tf.one_hot(segments, table.shape[0], dtype=table.dtype) @ table
    positions = weights["bert/embeddings/position_embeddings"][: ids.shape[1]]
    x = layer_norm(
        words + segment_embeddings + positions, weights, "bert/embeddings/LayerNorm"
    )
    bias = (1 - tf.cast(mask, x.dtype))[:, None, None, :] * -10000
    heads = config["num_attention_heads"]
    size = config["hidden_size"] // heads

    def split(y):
        return tf.transpose(tf.reshape(y, [*y.shape[:2], heads, size]), [0, 2, 1, 3])

    for layer in range(config["num_hidden_layers"]):
        prefix = f"bert/encoder/layer_{layer}"
        query, key, value = (
            split(dense(x, weights, f"{prefix}/attention/self/{part}"))
            for part in ("query", "key", "value")
        )
        scores = tf.matmul(query, key, transpose_b=True) / math.sqrt(size) + bias
        context = tf.transpose(tf.nn.softmax(scores) @ value, [0, 2, 1, 3])
        attended = dense(
            tf.reshape(context, x.shape), weights, f"{prefix}/attention/output/dense"
        )
        x = layer_norm(attended + x, weights, f"{prefix}/attention/output/LayerNorm")
        wide = gelu(dense(x, weights, f"{prefix}/intermediate/dense"))
        output = dense(wide, weights, f"{prefix}/output/dense")
        x = layer_norm(output + x, weights, f"{prefix}/output/LayerNorm")
    return x


def span_loss(weights, config, batch):
    hidden = sequence_output(weights, config, batch)
    products = tf.einsum("bsh,kh->kbs", hidden, weights["cls/squad/output_weights"])
    logits = products + weights["cls/squad/output_bias"][:, None, None]
    losses = [
        tf.nn.sparse_softmax_cross_entropy_with_logits(
            batch[f"{end}_positions"], logits[i]
        )
        for i, end in enumerate(_ENDS)
    ]
    return tf.reduce_mean(losses)


def learning_rate(step, peak, steps, warmup):
    return peak * step / warmup if step < warmup else peak * (1 - step / steps)


@tf.function
def _gradients(weights, batch, config):
    with tf.GradientTape() as tape:
        tape.watch(weights)
        loss = span_loss(weights, dict(config), batch)
    gradients = tape.gradient(loss, weights)
    gradients = {
        name: gradient for name, gradient in gradients.items() if gradient is not None
    }
    # The gradient of the word embeddings has one row per position. As in the released
    # code, the norm is computed before the rows of equal ids are summed.
    norm = tf.linalg.global_norm(list(gradients.values()))
    return (
        loss,
        norm,
        {name: tf.convert_to_tensor(value) for name, value in gradients.items()},
    )


def step(weights, moments, config, batch, rate):
    """Computes one update.

    Returns:
        The loss before the update, and the new weights and moments (`<name>/adam_m`,
        `<name>/adam_v`).
    """
    loss, norm, gradients = _gradients(weights, batch, tuple(sorted(config.items())))
    weights, moments = dict(weights), dict(moments)
    for name, gradient in gradients.items():
        gradient = gradient / max(norm, 1.0)
        m = 0.9 * moments.get(f"{name}/adam_m", 0.0) + 0.1 * gradient
        v = 0.999 * moments.get(f"{name}/adam_v", 0.0) + 0.001 * gradient**2
        moments[f"{name}/adam_m"], moments[f"{name}/adam_v"] = m, v
        update = m / (tf.sqrt(v) + 1e-6)
        if not re.search("LayerNorm|layer_norm|bias", name):
            update += 0.01 * weights[name]
        weights[name] = weights[name] - rate * update
    return loss, weights, moments
