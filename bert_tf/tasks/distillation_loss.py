"""The loss of a student with respect to the logits of its teacher."""

from typing import Any

import tensorflow as tf


def divergence(teacher: Any, student: Any, temperature: float) -> Any:
    """Returns `temperature**2` times the KL divergence KL(teacher || student).

    Both arguments are logits [..., C] (C classes). They are divided by the temperature
    before the softmax. The result has the shape [...], and is 0 for equal logits. The
    factor `temperature**2` keeps the size of the gradient independent of the
    temperature.

    Source: Hinton et al. 2015 (arXiv:1503.02531), section 2.
    """
    targets = tf.nn.softmax(teacher / temperature)
    entropy = tf.nn.softmax_cross_entropy_with_logits(targets, teacher / temperature)
    losses = tf.nn.softmax_cross_entropy_with_logits(targets, student / temperature)
    return temperature**2 * (losses - entropy)
