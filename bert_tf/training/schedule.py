"""The learning rate of each step."""

from typing import Any

import tensorflow as tf


def released(step: Any, learning_rate: float, num_train_steps: int, num_warmup_steps: int) -> Any:
    """Linear warmup from 0, and linear decay to 0 that is counted from step 0.

    The two do not meet: after warmup the rate drops from just below the peak to the peak times
    `1 - num_warmup_steps / num_train_steps`. This is what the released code does.

    Args:
        step: Integer scalar tensor, updates done before this one.
        learning_rate: The peak.
        num_train_steps: Steps at which the rate reaches 0, where it stays.
        num_warmup_steps: Steps of warmup; 0 for none.

    Returns:
        float32 scalar.

    Source: google-research/bert `optimization.create_optimizer`.
    """
    step = tf.cast(step, tf.float32)
    decayed = learning_rate * (1.0 - tf.minimum(step, num_train_steps) / num_train_steps)
    warming = learning_rate * step / max(num_warmup_steps, 1)
    return tf.where(step < num_warmup_steps, warming, decayed)
