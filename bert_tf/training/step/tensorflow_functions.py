"""Functions of `losses` on TensorFlow: cross entropy, and a graph that blocks share."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def cross_entropy(logits: Any, labels: Any) -> Any:
    """Returns the negative log probability of each label: float32 [...].

    The result equals `tf.nn.sparse_softmax_cross_entropy_with_logits`. TensorFlow's
    kernel reads the logits more often: for 8,000 classes, that kernel takes several
    times as long on a CPU.

    Args:
        logits: float32 [..., V], where V is the number of classes.
        labels: int32 [...], in [0, V).
    """
    rows = tf.reshape(logits, [-1, logits.shape[-1]])
    return tf.reshape(
        _cross_entropy_of_rows(rows, tf.reshape(labels, [-1])), tf.shape(labels)
    )


@tf.custom_gradient
def _cross_entropy_of_rows(
    logits: Any, labels: Any
) -> tuple[Any, Callable[[Any], tuple[Any, None]]]:
    """Computes `cross_entropy` for logits [N, V] and labels [N]."""
    maxima = tf.reduce_max(logits, axis=-1)
    powers = tf.exp(logits - maxima[:, None])
    sums = tf.reduce_sum(powers, axis=-1)

    def gradient(upstream: Any) -> tuple[Any, None]:
        # `powers` is kept from the forward pass, because `tf.exp` is the most expensive
        # operation.
        softmax = powers * (upstream / sums)[:, None]
        rows = tf.range(tf.shape(labels)[0])
        indices = tf.stack([rows, tf.cast(labels, rows.dtype)], axis=1)
        return tf.tensor_scatter_nd_sub(softmax, indices, upstream), None

    return tf.math.log(sums) + maxima - label_logits(logits, labels), gradient


def label_logits(logits: Any, labels: Any) -> Any:
    """Returns the logit of each label: [..., V] and int32 [...] -> [...]."""
    return tf.gather(logits, labels, batch_dims=labels.shape.rank)


def share_graph(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """Returns the function with a graph of its own, for `DropoutSeeds.use`.

    TensorFlow traces, differentiates and optimizes this graph once, instead of once for
    each block, which would take most of the time before the first step. For the same
    reason, TensorFlow must not inline the calls. Returns None in eager execution, which
    has no graph, and on several replicas, each of which traces on its own device.
    """
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    if not tf.inside_function() or replicas > 1:
        return None
    attributes = {"_noinline": True}
    return tf.function(function, autograph=False, experimental_attributes=attributes)
