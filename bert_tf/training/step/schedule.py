"""The learning rate of each step. The first step of a run has the number 0."""

import math
from typing import Any

import tensorflow as tf

from bert_tf.training.config import TrainingConfig


def learning_rate(step: Any, config: TrainingConfig) -> Any:
    """Returns the learning rate of a step: a linear warm-up from 0, then `config.schedule`.

    released: the linear decay of google-research/bert, from the peak at step 0 to 0. The rate is
        discontinuous at the end of the warm-up: it drops from just below the peak to the peak times
        `1 - num_warmup_steps / num_train_steps`.
    linear: linear decay from the peak at the end of the warm-up to 0.
    cosine: half a cosine period, from the peak at the end of the warm-up to 0.
    constant: the peak.

    Args:
        step: Integer scalar tensor: the number of the step.
        config: Peak learning rate, schedule, number of training and warm-up steps.

    Returns:
        float32 scalar; 0 from `num_train_steps` on, except for "constant".

    Source: google-research/bert `optimization.create_optimizer`.
    """
    total, warmup = config.num_train_steps, config.num_warmup_steps
    step = tf.cast(step, tf.float32)
    decay_start = 0 if config.schedule == "released" else warmup
    progress = tf.clip_by_value((step - decay_start) / max(total - decay_start, 1), 0.0, 1.0)
    decayed = {
        "released": 1.0 - progress,
        "linear": 1.0 - progress,
        "cosine": 0.5 * (1.0 + tf.cos(math.pi * progress)),
        "constant": tf.ones_like(progress),
    }[config.schedule]
    return config.learning_rate * tf.where(step < warmup, step / max(warmup, 1), decayed)
