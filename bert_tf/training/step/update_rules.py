"""The update rules of the optimizers: the mathematics of an update, without state.

An update rule is a function that changes one weight and its slots (optimizer state): it
assigns to the variables in its arguments. The optimizer of the training engine calls
the rule for each variable on each device.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from bert_tf.training.step.objective import Tensors
from bert_tf.training.training_config import ADAM_EPSILON, TrainingConfig


class Update(NamedTuple):
    """The input of an update rule, and the slots that it changes with the weight.

    Attributes:
        slots: Maps each slot name to a float32 variable of the weight's shape.
        gradient: float32 tensor of the weight's shape.
        learning_rate: float32 scalar.
        count: The number of earlier updates plus 1, float32 scalar; None if the rule
            does not use it.
    """

    slots: Tensors
    gradient: Any
    learning_rate: Any
    weight_decay: float
    count: Any = None
    beta_1: float = TrainingConfig.adam_beta_1
    beta_2: float = TrainingConfig.adam_beta_2
    epsilon: float = ADAM_EPSILON


@dataclasses.dataclass(frozen=True)
class UpdateRule:
    """An update rule, and the names of the slots that each weight needs for this rule.

    `update` changes a weight, a float32 variable, and its slots in an `Update`, which
    start at 0. `uses_count` says whether the rule uses `Update.count`.
    """

    update: Callable[[Any, Update], None]
    slots: tuple[str, ...] = ("adam_m", "adam_v")
    uses_count: bool = True


def adam_weight_decay(weight: Any, update: Update) -> None:
    """Applies Adam without bias correction, with decoupled weight decay.

    `weight -= learning_rate * (m / (sqrt(v) + epsilon) + weight_decay * weight)`, where
    m and v are the moments.

    Source: google-research/bert `optimization.AdamWeightDecayOptimizer`.
    """
    # If both powers of beta are 0, TensorFlow's fused Adam kernel applies no bias
    # correction, and computes the update of google-research/bert in a single operation.
    _decay_weight(weight, update)
    _apply_fused_adam(weight, update, (0.0, 0.0), update.epsilon)


def adamw(weight: Any, update: Update) -> None:
    """Applies Adam with bias correction and decoupled weight decay.

    `weight -= learning_rate * (m' / (sqrt(v') + epsilon) + weight_decay * weight)`,
    where m' and v' are the bias-corrected moments.

    Source: Loshchilov and Hutter, Decoupled Weight Decay Regularization, algorithm 2.
    """
    powers = tf.pow(update.beta_1, update.count), tf.pow(update.beta_2, update.count)
    _decay_weight(weight, update)
    # AdamW adds epsilon after the bias correction of v, but the kernel adds epsilon
    # before the correction. Scaling epsilon gives the same result.
    epsilon = update.epsilon * tf.sqrt(1.0 - powers[1])
    _apply_fused_adam(weight, update, powers, epsilon)


def lamb(weight: Any, update: Update) -> None:
    """Applies AdamW, but scales the change of each variable to the variable's norm.

    As in the authors' code, the change of a variable without weight decay (LayerNorm,
    biases) is not scaled. The change is also not scaled if the norm of the variable or
    of the change is 0.

    Source: You et al., Large Batch Optimization for Deep Learning, algorithm 2, where
        phi is the identity.
    """
    m, v = update.slots["adam_m"], update.slots["adam_v"]
    beta_1, beta_2, gradient = update.beta_1, update.beta_2, update.gradient
    m.assign(beta_1 * m + (1.0 - beta_1) * gradient)
    v.assign(beta_2 * v + (1.0 - beta_2) * tf.square(gradient))

    corrected_m = m / (1.0 - tf.pow(beta_1, update.count))
    corrected_v = v / (1.0 - tf.pow(beta_2, update.count))
    change = corrected_m / (tf.sqrt(corrected_v) + update.epsilon)

    if update.weight_decay:
        change += update.weight_decay * weight
        norm, change_norm = tf.norm(weight), tf.norm(change)
        both_positive = tf.logical_and(norm > 0, change_norm > 0)
        change *= tf.where(both_positive, tf.math.divide_no_nan(norm, change_norm), 1.0)
    weight.assign_sub(update.learning_rate * change)


UPDATE_RULES = {
    "adam_weight_decay": UpdateRule(adam_weight_decay, uses_count=False),
    "adamw": UpdateRule(adamw),
    "lamb": UpdateRule(lamb),
}


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
