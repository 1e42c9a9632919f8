"""The update rules of the optimizers: the mathematics of an update, without state.

An update rule is a function that returns a weight and its slots (optimizer state) after
an update. It is written with `keras.ops`. TensorFlow has fused kernels for two rules
(`tensorflow_step.update_rules`).
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from keras import ops

from bert_tf.training.step.objective import Tensors
from bert_tf.training.training_config import ADAM_EPSILON, TrainingConfig


class Update(NamedTuple):
    """The input of an update rule, except for the weight.

    Attributes:
        slots: Maps each slot name to a float32 tensor of the weight's shape.
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


# The weight and the slots after an update.
Updated = tuple[Any, Tensors]


@dataclasses.dataclass(frozen=True)
class UpdateRule:
    """An update rule, and the names of the slots that each weight needs for this rule.

    `update` returns the weight, float32, and its slots, which start at 0, after an
    `Update`. `uses_count` says whether the rule uses `Update.count`.
    """

    update: Callable[[Any, Update], Updated]
    slots: tuple[str, ...] = ("adam_m", "adam_v")
    uses_count: bool = True


def adam_weight_decay(weight: Any, update: Update) -> Updated:
    """Applies Adam without bias correction, with decoupled weight decay.

    `weight -= learning_rate * (m / (sqrt(v) + epsilon) + weight_decay * weight)`, where
    m and v are the moments.

    Source: google-research/bert `optimization.AdamWeightDecayOptimizer`.
    """
    m, v = _moments(update)
    change = m / (ops.sqrt(v) + update.epsilon)
    return _changed(weight, change, update), {"adam_m": m, "adam_v": v}


def adamw(weight: Any, update: Update) -> Updated:
    """Applies Adam with bias correction and decoupled weight decay.

    `weight -= learning_rate * (m' / (sqrt(v') + epsilon) + weight_decay * weight)`,
    where m' and v' are the bias-corrected moments.

    Source: Loshchilov and Hutter, Decoupled Weight Decay Regularization, algorithm 2.
    """
    m, v = _moments(update)
    change = _corrected_change(m, v, update)
    return _changed(weight, change, update), {"adam_m": m, "adam_v": v}


def lamb(weight: Any, update: Update) -> Updated:
    """Applies AdamW, but scales the change of each variable to the variable's norm.

    As in the authors' code, the change of a variable without weight decay (LayerNorm,
    biases) is not scaled. The change is also not scaled if the norm of the variable or
    of the change is 0.

    Source: You et al., Large Batch Optimization for Deep Learning, algorithm 2, where
        phi is the identity.
    """
    m, v = _moments(update)
    change = _corrected_change(m, v, update)

    if update.weight_decay:
        change += update.weight_decay * weight
        norm, change_norm = (ops.sqrt(ops.sum(x * x)) for x in (weight, change))
        both_positive = ops.logical_and(norm > 0, change_norm > 0)
        ratio = norm / ops.where(both_positive, change_norm, 1.0)
        change *= ops.where(both_positive, ratio, 1.0)
    return weight - update.learning_rate * change, {"adam_m": m, "adam_v": v}


UPDATE_RULES = {
    "adam_weight_decay": UpdateRule(adam_weight_decay, uses_count=False),
    "adamw": UpdateRule(adamw),
    "lamb": UpdateRule(lamb),
}


def _moments(update: Update) -> tuple[Any, Any]:
    m, v = update.slots["adam_m"], update.slots["adam_v"]
    beta_1, beta_2, gradient = update.beta_1, update.beta_2, update.gradient
    return (
        beta_1 * m + (1.0 - beta_1) * gradient,
        beta_2 * v + (1.0 - beta_2) * ops.square(gradient),
    )


def _corrected_change(m: Any, v: Any, update: Update) -> Any:
    """Returns the change by the bias-corrected moments, without weight decay."""
    corrected_m = m / (1.0 - ops.power(update.beta_1, update.count))
    corrected_v = v / (1.0 - ops.power(update.beta_2, update.count))
    return corrected_m / (ops.sqrt(corrected_v) + update.epsilon)


def _changed(weight: Any, change: Any, update: Update) -> Any:
    if update.weight_decay:
        change = change + update.weight_decay * weight
    return weight - update.learning_rate * change
