"""The loss of an objective that compares the examples of all parts of a global batch."""

from typing import Any

import tensorflow as tf

from bert_tf.training.step.objective import ComparingObjective, Tensors


def share_of_loss(
    objective: ComparingObjective,
    values: Tensors,
    counts: Tensors,
    loss_scale: Any,
    context: Any,
) -> tuple[Tensors, Tensors]:
    """Computes the loss of a global batch on a replica, from the values of all replicas.

    Args:
        values: This replica's results of `compared_values`, [B, ...] each.
        counts: The denominators of the global batch.
        context: The replica context.

    Returns:
        This replica's share of the sums, float32 scalars; and the gradients of the
        loss, times `loss_scale`, with respect to its values of float types.
    """
    values = {name: tf.convert_to_tensor(value) for name, value in values.items()}
    everywhere = dict(values)
    if context.num_replicas_in_sync > 1:
        everywhere = {name: context.all_gather(values[name], axis=0) for name in values}

    # All replicas compute the same loss.
    floats = {
        name: value for name, value in everywhere.items() if value.dtype.is_floating
    }
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(floats)
        rows = objective.row_sums({**everywhere, **floats})
        totals = {name: tf.reduce_sum(value) for name, value in rows.items()}
        loss = objective.loss(totals, counts) * loss_scale
    zero = tf.UnconnectedGradients.ZERO
    gradients = tape.gradient(loss, floats, unconnected_gradients=zero)

    # The rows of this replica.
    size = tf.shape(next(iter(values.values())))[0]
    start = context.replica_id_in_sync_group * size

    def own(rows: Any) -> Any:
        return rows[start : start + size]

    sums = {name: tf.reduce_sum(own(value)) for name, value in rows.items()}
    return sums, {
        name: tf.ensure_shape(own(gradient), values[name].shape)
        for name, gradient in gradients.items()
    }
