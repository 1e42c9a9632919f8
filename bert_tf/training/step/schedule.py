"""The learning rate of a step, and its factor for each layer.

Written with `keras.ops`, so that it also works outside of TensorFlow.
"""

import math
from collections.abc import Mapping
from typing import Any

from keras import ops


def scheduled_rate(
    step: Any, peak: float, num_train_steps: int, num_warmup_steps: int, decay: str
) -> Any:
    """Returns the learning rate of a step: a linear warm-up from 0, then a decay.

    released: the linear decay of google-research/bert, from the peak at step 0 to 0.
        The rate is discontinuous at the end of the warm-up: it drops from just below
        the peak to the peak times `1 - num_warmup_steps / num_train_steps`.
    linear: linear decay from the peak at the end of the warm-up to 0.
    cosine: half a cosine period, from the peak at the end of the warm-up to 0.
    constant: the peak.

    Args:
        step: Integer or float32 scalar tensor: the number of the step. With a time
            budget, it is the share of the time that has passed, times
            `num_train_steps`.
        num_train_steps: The step at which the decay ends.

    Returns:
        float32 scalar; 0 from `num_train_steps` on, except for "constant".

    Source: google-research/bert `optimization.create_optimizer`.
    """
    step = ops.cast(step, "float32")

    # The released decay counts from step 0, the others from the end of the warm-up.
    decay_start = 0 if decay == "released" else num_warmup_steps
    if decay_start == num_train_steps:  # the rate rises in all steps, and is then 0
        decay_start -= 1
    progress = ops.clip(
        (step - decay_start) / (num_train_steps - decay_start), 0.0, 1.0
    )
    decayed = {
        "released": 1.0 - progress,
        "linear": 1.0 - progress,
        "cosine": 0.5 * (1.0 + ops.cos(math.pi * progress)),
        "constant": ops.ones_like(progress),
    }[decay]
    warmed_up = step / max(num_warmup_steps, 1)
    return peak * ops.where(step < num_warmup_steps, warmed_up, decayed)


def layer_rate_scales(
    depths: Mapping[str, int], layer_decay: float
) -> dict[str, float]:
    """Returns the factor of the learning rate for each variable.

    The factor is 1 for the variables at the top. Each lower layer has `layer_decay`
    times the factor of the layer above it. `depths` has the number of layers below each
    variable.
    """
    top = max(depths.values(), default=0)
    return {name: layer_decay ** (top - depth) for name, depth in depths.items()}
