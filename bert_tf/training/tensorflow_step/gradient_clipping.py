"""Sums gradients over replicas, and clips them by their global norm."""

from typing import Any

import tensorflow as tf

from bert_tf.training.step.objective import Tensors
from bert_tf.training.step.step_result import clip_factor


def squares_of_rows(gradients: Tensors) -> Tensors:
    """Returns the squared norm of each sparse gradient by name, a float32 scalar.

    The gradient of an embedding table is sparse, with one row for each look-up. For
    clipping, google-research/bert takes the norm of all these rows, and does not first
    add the rows of the same word. If a table is also used elsewhere, such as for the
    output weights of the masked-LM head, the gradient is dense.
    """
    return {
        name: tf.reduce_sum(gradient.values**2)
        for name, gradient in gradients.items()
        if isinstance(gradient, tf.IndexedSlices)
    }


def to_dense(gradients: Tensors) -> Tensors:
    """Returns all gradients as dense tensors; rows of the same index are added."""
    return {
        name: tf.convert_to_tensor(gradient) for name, gradient in gradients.items()
    }


def sum_over_replicas(gradients: Tensors, squares: Tensors) -> tuple[Tensors, Tensors]:
    """Sums gradients and results of `squares_of_rows` over all replicas.

    Must be called in a replica context. The gradients of a single replica stay sparse.
    """
    context = tf.distribute.get_replica_context()
    if context.num_replicas_in_sync == 1:
        return gradients, squares
    dense = to_dense(gradients)
    summed = iter(context.all_reduce("SUM", [*dense.values(), *squares.values()]))
    return {name: next(summed) for name in dense}, {
        name: next(summed) for name in squares
    }


def clip_gradients(
    gradients: Tensors,
    squares: Tensors,
    clip_norm: float | None,
    loss_scale: Any,
) -> tuple[Tensors, Any]:
    """Divides gradients by the loss scale, and limits their global norm.

    Args:
        gradients: Dense or sparse gradients, by the names of their variables.
        squares: The results of `squares_of_rows`. For these variables, `squares`
            replaces the squared norms of `gradients`.
        clip_norm: The largest global norm; None does not limit the norm.
        loss_scale: The factor by which the loss was multiplied.

    Returns:
        The clipped gradients, dense, and the global norm before clipping, divided by
        the loss scale. The norm is not finite if a gradient is not finite.

    Source: google-research/bert `optimization.py`, `tf.clip_by_global_norm`.
    """
    dense = [gradient for name, gradient in gradients.items() if name not in squares]
    norm = tf.linalg.global_norm([*dense, *map(tf.sqrt, squares.values())]) / loss_scale
    factor = clip_factor(norm, clip_norm, loss_scale)

    # A sparse gradient has fewer rows than the table: it is scaled before it is dense.
    scaled = {
        name: tf.IndexedSlices(grad.values * factor, grad.indices, grad.dense_shape)
        if isinstance(grad, tf.IndexedSlices)
        else grad * factor
        for name, grad in gradients.items()
    }
    return to_dense(scaled), norm
