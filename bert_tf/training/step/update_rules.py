"""Update rules: how one optimizer step changes a weight and its slots (optimizer state).

A rule is a function without state that assigns to the variables in its arguments. The
optimizer of the training engine calls the rule for each variable on each device.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

EPSILON = 1e-6
Betas = tuple[float, float]


@dataclasses.dataclass(frozen=True)
class UpdateRule:
    """An update rule, and the names of the slots that each weight needs for this rule.

    Attributes:
        update: Called as `update(weight, slots, gradient, learning_rate, weight_decay,
            betas, count)`: `weight` is a float32 variable, `slots` maps each slot name
            to a variable of the weight's shape, `gradient` is a float32 tensor of the
            weight's shape, `learning_rate` and `count` are float32 scalars, and
            `weight_decay` is a number. `betas` are two numbers: the decay of the first
            and of the second moment. `count` is the number of earlier updates plus 1.
        slots: Names of the slots, which start at 0.
        uses_count: Whether the rule reads `count`. If False, `count` is None.
    """

    update: Callable[[Any, Mapping[str, Any], Any, Any, float, Betas, Any], None]
    slots: tuple[str, ...] = ("adam_m", "adam_v")
    uses_count: bool = True


def adam_weight_decay(
    weight: Any,
    slots: Mapping[str, Any],
    gradient: Any,
    learning_rate: Any,
    weight_decay: float,
    betas: Betas,
    count: Any = None,
    epsilon: float = EPSILON,
) -> None:
    """Applies Adam without bias correction, with decoupled weight decay.

    `weight -= learning_rate * (m / (sqrt(v) + epsilon) + weight_decay * weight)`, where
    m and v are the moments.

    Source: google-research/bert `optimization.AdamWeightDecayOptimizer`.
    """
    # If both powers of beta are 0, TensorFlow's fused Adam kernel applies no bias
    # correction, and computes the update of google-research/bert in a single operation.
    _decay_weight(weight, learning_rate, weight_decay)
    _apply_fused_adam(
        weight, slots, gradient, learning_rate, betas, (0.0, 0.0), epsilon
    )


def adamw(
    weight: Any,
    slots: Mapping[str, Any],
    gradient: Any,
    learning_rate: Any,
    weight_decay: float,
    betas: Betas,
    count: Any,
) -> None:
    """Applies Adam with bias correction and decoupled weight decay.

    `weight -= learning_rate * (m' / (sqrt(v') + 1e-6) + weight_decay * weight)`, where
    m' and v' are the bias-corrected moments.

    Source: Loshchilov and Hutter, Decoupled Weight Decay Regularization, algorithm 2.
    """
    powers = tf.pow(betas[0], count), tf.pow(betas[1], count)
    _decay_weight(weight, learning_rate, weight_decay)
    # AdamW adds epsilon after the bias correction of v, but the kernel adds epsilon
    # before the correction. Scaling epsilon gives the same result.
    epsilon = EPSILON * tf.sqrt(1.0 - powers[1])
    _apply_fused_adam(weight, slots, gradient, learning_rate, betas, powers, epsilon)


def lamb(
    weight: Any,
    slots: Mapping[str, Any],
    gradient: Any,
    learning_rate: Any,
    weight_decay: float,
    betas: Betas,
    count: Any,
) -> None:
    """Applies AdamW, but scales the change of each variable to the norm of the variable.

    As in the authors' code, the change of a variable without weight decay (LayerNorm,
    biases) is not scaled. The change is also not scaled if the norm of the variable or
    of the change is 0.

    Source: You et al., Large Batch Optimization for Deep Learning, algorithm 2, where
        phi is the identity.
    """
    m, v = slots["adam_m"], slots["adam_v"]
    beta_1, beta_2 = betas
    m.assign(beta_1 * m + (1.0 - beta_1) * gradient)
    v.assign(beta_2 * v + (1.0 - beta_2) * tf.square(gradient))
    corrected_m = m / (1.0 - tf.pow(beta_1, count))
    corrected_v = v / (1.0 - tf.pow(beta_2, count))
    change = corrected_m / (tf.sqrt(corrected_v) + EPSILON)
    if weight_decay:
        change += weight_decay * weight
        norm, change_norm = tf.norm(weight), tf.norm(change)
        both_positive = tf.logical_and(norm > 0, change_norm > 0)
        change *= tf.where(both_positive, tf.math.divide_no_nan(norm, change_norm), 1.0)
    weight.assign_sub(learning_rate * change)


UPDATE_RULES = {
    "adam_weight_decay": UpdateRule(adam_weight_decay, uses_count=False),
    "adamw": UpdateRule(adamw),
    "lamb": UpdateRule(lamb),
}


def _decay_weight(weight: Any, learning_rate: Any, weight_decay: float) -> None:
    if weight_decay:
        weight.assign(weight * (1.0 - learning_rate * weight_decay))


def _apply_fused_adam(
    weight: Any,
    slots: Mapping[str, Any],
    gradient: Any,
    learning_rate: Any,
    betas: Betas,
    beta_powers: tuple[Any, Any],
    epsilon: Any,
) -> None:
    tf.raw_ops.ResourceApplyAdam(
        var=weight.handle,
        m=slots["adam_m"].handle,
        v=slots["adam_v"].handle,
        beta1_power=beta_powers[0],
        beta2_power=beta_powers[1],
        lr=learning_rate,
        beta1=betas[0],
        beta2=betas[1],
        epsilon=epsilon,
        grad=gradient,
    )
