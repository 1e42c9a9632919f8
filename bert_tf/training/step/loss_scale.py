"""The rules of the loss scale, a factor of the loss in float16 training.

Without it, small gradients would be rounded to 0. The loss scale starts at
`INITIAL_SCALE`, is halved after each step whose gradient is not finite, and doubled
after 2,000 consecutive steps with finite gradients.
"""

from typing import Any

from keras import ops

INITIAL_SCALE = 2.0**15
MINIMUM_SCALE = 1.0
STEPS_TO_DOUBLE = 2000.0


def after_finite_step(scale: Any, steps_at_scale: Any) -> tuple[Any, Any]:
    """Counts a step with finite gradients, after which the scale may double.

    The scale doubles after `STEPS_TO_DOUBLE` such steps in a row. Arguments and results
    are the scale and the number of steps since its last change, float32 scalars.
    """
    steps_at_scale = steps_at_scale + 1.0
    due = steps_at_scale >= STEPS_TO_DOUBLE
    return ops.where(due, scale * 2.0, scale), ops.where(due, 0.0, steps_at_scale)


def after_skipped_step(scale: Any, steps_at_scale: Any) -> tuple[Any, Any]:
    """Halves the scale, but not below `MINIMUM_SCALE`, and counts its steps from 0."""
    return ops.maximum(scale / 2.0, MINIMUM_SCALE), ops.zeros_like(steps_at_scale)
