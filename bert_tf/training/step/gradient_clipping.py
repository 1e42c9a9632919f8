"""Sums gradients over the replicas, and clips them by their global norm."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf


def to_dense(gradients: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns dense gradients, and the squared norms of the gradients that were sparse.

    The gradient of an embedding table is sparse, with one row for each look-up. For
    clipping, google-research/bert takes the norm of all these rows, and does not first
    add the rows of the same word. If a table is also used elsewhere, such as for the
    output weights of the masked-LM head, the gradient is dense and has no entry in the
    squared norms.

    Args:
        gradients: Tensors or `tf.IndexedSlices` by variable name.

    Returns:
        Two dicts by variable name: a tensor for each gradient, of the same shape, and a
        float32 scalar for each sparse gradient.
    """
    squares = {
        name: tf.reduce_sum(gradient.values**2)
        for name, gradient in gradients.items()
        if isinstance(gradient, tf.IndexedSlices)
    }
    dense = {
        name: tf.convert_to_tensor(gradient) for name, gradient in gradients.items()
    }
    return dense, squares


def sum_over_replicas(
    gradients: Mapping[str, Any], squares: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Sums both results of `to_dense` over all replicas.

    Must be called in a replica context.
    """
    context = tf.distribute.get_replica_context()
    summed = iter(context.all_reduce("SUM", [*gradients.values(), *squares.values()]))
    return {name: next(summed) for name in gradients}, {
        name: next(summed) for name in squares
    }


def clip_gradients(
    gradients: Mapping[str, Any],
    squares: Mapping[str, Any],
    clip_norm: float | None,
    loss_scale: Any,
) -> tuple[dict[str, Any], Any]:
    """Divides gradients by the loss scale, and limits their global norm.

    Args:
        gradients: Dense gradients, by the names of their variables.
        squares: Squared norms of the gradients that were sparse; see `to_dense`. For
            these variables, `squares` replaces the squared norms of `gradients`.
        clip_norm: The largest global norm; None does not limit the norm.
        loss_scale: The factor by which the loss was multiplied.

    Returns:
        The clipped gradients, and the global norm before clipping, divided by the loss
        scale. The norm is not finite if a gradient is not finite.

    Source: google-research/bert `optimization.py`, `tf.clip_by_global_norm`.
    """
    dense = [gradient for name, gradient in gradients.items() if name not in squares]
    norm = tf.linalg.global_norm([*dense, *map(tf.sqrt, squares.values())]) / loss_scale
    clipping = 1.0 if clip_norm is None else clip_norm / tf.maximum(norm, clip_norm)
    factor = clipping / loss_scale
    return {name: value * factor for name, value in gradients.items()}, norm
