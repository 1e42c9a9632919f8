"""The loss scale of float16 training: a factor of the loss.

Without the factor, small gradients would be rounded to 0 in float16.

The scale starts at `INITIAL`. It is halved after each step whose gradient is not
finite, and doubled after 2,000 consecutive steps with finite gradients.
"""

from typing import Any

import tensorflow as tf

INITIAL, MINIMUM, STEPS_TO_DOUBLE = 2.0**15, 1.0, 2000.0


def after_finite_step(scale: Any, steps_at_scale: Any) -> None:
    """Counts the step, and doubles the scale after `STEPS_TO_DOUBLE` finite steps in a row.

    Args:
        scale: float32 scalar variable.
        steps_at_scale: float32 scalar variable: the number of steps since the scale
            last changed.
    """
    steps_at_scale.assign_add(1.0)
    due = steps_at_scale >= STEPS_TO_DOUBLE
    scale.assign(tf.where(due, scale * 2.0, scale))
    steps_at_scale.assign(tf.where(due, 0.0, steps_at_scale))


def after_skipped_step(scale: Any, steps_at_scale: Any) -> None:
    """Halves the scale, but not below `MINIMUM`."""
    scale.assign(tf.maximum(scale / 2.0, MINIMUM))
    steps_at_scale.assign(0.0)
