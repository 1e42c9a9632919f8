"""The learning rate of each step. A step's number is that of the updates done before it."""

import math
from typing import Any

import tensorflow as tf

from bert_tf.training.config import TrainingConfig


def learning_rate(step: Any, config: TrainingConfig) -> Any:
    """The rate of `config.schedule`, after a linear warmup from 0.

    released: linear decay to 0 that is counted from step 0. Warmup and decay do not meet: after
        warmup the rate drops from just below the peak to the peak times
        `1 - num_warmup_steps / num_train_steps`. This is what the released code does.
    linear: linear decay from the peak at the end of warmup to 0.
    cosine: half a cosine from the peak at the end of warmup to 0.
    constant: the peak.

    Args:
        step: Integer scalar tensor.
        config: Peak, schedule, steps in all and of warmup.

    Returns:
        float32 scalar; 0 from `num_train_steps` on, but for "constant".

    Source: google-research/bert `optimization.create_optimizer`.
    """
    total, warmup = config.num_train_steps, config.num_warmup_steps
    step = tf.cast(step, tf.float32)
    begin = 0 if config.schedule == "released" else warmup
    done = tf.clip_by_value((step - begin) / max(total - begin, 1), 0.0, 1.0)
    share = {
        "released": 1.0 - done,
        "linear": 1.0 - done,
        "cosine": 0.5 * (1.0 + tf.cos(math.pi * done)),
        "constant": tf.ones_like(done),
    }[config.schedule]
    warming = step / max(warmup, 1)
    return config.learning_rate * tf.where(step < warmup, warming, share)
