"""The update of `AdamWeightDecay`, on any number of replicas.

It calls functions of the training engine, in a replica context.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from bert_tf.errors import InputError
from bert_tf.training.step.update_rules import Update
from bert_tf.training.tensorflow_step.gradient_clipping import (
    clip_gradients,
    squares_of_rows,
    sum_over_replicas,
)
from bert_tf.training.tensorflow_step.optimizer import update_on_each_device
from bert_tf.training.tensorflow_step.update_rules import assign_adam_weight_decay


def check_build() -> None:
    """Raises `InputError` if `build` is called inside `strategy.run` on several replicas."""
    context = tf.distribute.get_replica_context()
    if context is not None and context.num_replicas_in_sync > 1:
        raise InputError(
            "AdamWeightDecay must be built before strategy.run. Call "
            "optimizer.build(model.trainable_variables) in the scope of the strategy."
        )


def update_weights(
    variables: Sequence[Any],
    gradients: Sequence[Any],
    learning_rate: Any,
    slots: Sequence[tuple[Any, Any]],
    weight_decay: Sequence[float],
    clip_norm: float | None,
    **options: float,
) -> None:
    """Sums the gradients over the replicas, clips them and updates the variables.

    Args:
        variables: Keras variables.
        gradients: A tensor or `tf.IndexedSlices` for each variable, of one replica.
        slots: Both moments of each variable, Keras variables.
        clip_norm: The largest global norm of the sums; None does not limit the norm.
        **options: `beta_1`, `beta_2` and `epsilon` of `Update`.

    Raises:
        InputError: XLA compiles the step of several replicas.
    """
    context = tf.distribute.get_replica_context()
    replicas = context.num_replicas_in_sync
    if replicas > 1 and tf.__internal__.distribute.strategy_supports_no_merge_call():
        raise InputError(
            f"jit_compile=True with {replicas} replicas is not supported, because "
            "one XLA program cannot update the weights of several replicas. Give "
            "jit_compile=False."
        )

    # The sum over the replicas is clipped, and not the gradients of each.
    by_number = {str(number): grad for number, grad in enumerate(gradients)}
    summed, squares = sum_over_replicas(by_number, squares_of_rows(by_number))
    clipped, _ = clip_gradients(summed, squares, clip_norm, loss_scale=1.0)

    def update(_: Any, gradients: Sequence[Any], rate: Any) -> None:
        for variable, gradient, (m, v), decay in zip(
            variables, gradients, slots, weight_decay, strict=True
        ):
            moments = {"adam_m": m.value, "adam_v": v.value}
            change = Update(moments, gradient, rate, decay, **options)
            update_on_each_device(variable.value, assign_adam_weight_decay, change)

    rate = tf.cast(tf.convert_to_tensor(learning_rate), tf.float32)
    context.merge_call(update, args=(list(clipped.values()), rate))
