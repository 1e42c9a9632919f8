"""The rules of the loss scale, a factor of the loss in float16 training.

Without it, small gradients would be rounded to 0. The loss scale starts at
`INITIAL_SCALE`, is halved after each step whose gradient is not finite, and doubled
after 2,000 consecutive steps with finite gradients.
"""

from typing import Any

import tensorflow as tf

INITIAL_SCALE = 2.0**15
MINIMUM_SCALE = 1.0
STEPS_TO_DOUBLE = 2000.0


def after_finite_step(scale: Any, steps_at_scale: Any) -> None:
    """Counts a step with finite gradients, after which the scale may double.

    The scale doubles after `STEPS_TO_DOUBLE` such steps in a row. Both arguments are
    float32 scalar variables; `steps_at_scale` counts the steps since the last change.
    """
    steps_at_scale.assign_add(1.0)
    due = steps_at_scale >= STEPS_TO_DOUBLE
    scale.assign(tf.where(due, scale * 2.0, scale))
    steps_at_scale.assign(tf.where(due, 0.0, steps_at_scale))


def after_skipped_step(scale: Any, steps_at_scale: Any) -> None:
    """Halves the scale, but not below `MINIMUM_SCALE`."""
    scale.assign(tf.maximum(scale / 2.0, MINIMUM_SCALE))
    steps_at_scale.assign(0.0)
