"""The updates of variables on TensorFlow, with fused kernels where they exist.

A function here changes one weight and its slots: it assigns to the variables in its
arguments. The optimizer calls it for each variable on each device.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from bert_tf.training.step.update_rules import UPDATE_RULES, Update


def assign_adam_weight_decay(weight: Any, update: Update) -> None:
    """Applies `update_rules.adam_weight_decay` in place."""
    # If both powers of beta are 0, TensorFlow's fused Adam kernel applies no bias
    # correction, and computes the update of google-research/bert in a single operation.
    _decay_weight(weight, update)
    _apply_fused_adam(weight, update, (0.0, 0.0), update.epsilon)


def assign_adamw(weight: Any, update: Update) -> None:
    """Applies `update_rules.adamw` in place."""
    powers = tf.pow(update.beta_1, update.count), tf.pow(update.beta_2, update.count)
    _decay_weight(weight, update)
    # AdamW adds epsilon after the bias correction of v, but the kernel adds epsilon
    # before the correction. Scaling epsilon gives the same result.
    epsilon = update.epsilon * tf.sqrt(1.0 - powers[1])
    _apply_fused_adam(weight, update, powers, epsilon)


_FUSED = {"adam_weight_decay": assign_adam_weight_decay, "adamw": assign_adamw}


def in_place(name: str) -> Callable[[Any, Update], None]:
    """Returns the update rule of this name as a function that assigns to variables."""

    def assign(weight: Any, update: Update) -> None:
        value, slots = UPDATE_RULES[name].update(weight, update)
        for slot, variable in update.slots.items():
            variable.assign(slots[slot])
        weight.assign(value)

    return _FUSED.get(name, assign)


def _decay_weight(weight: Any, update: Update) -> None:
    if update.weight_decay:
        weight.assign(weight * (1.0 - update.learning_rate * update.weight_decay))


def _apply_fused_adam(
    weight: Any, update: Update, beta_powers: tuple[Any, Any], epsilon: Any
) -> None:
    tf.raw_ops.ResourceApplyAdam(
        var=weight.handle,
        m=update.slots["adam_m"].handle,
        v=update.slots["adam_v"].handle,
        beta1_power=beta_powers[0],
        beta2_power=beta_powers[1],
        lr=update.learning_rate,
        beta1=update.beta_1,
        beta2=update.beta_2,
        epsilon=epsilon,
        grad=update.gradient,
    )
