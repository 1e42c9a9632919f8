"""The loss of a student with respect to the logits of its teacher."""

from typing import Any

import tensorflow as tf


def divergence(teacher: Any, student: Any, temperature: float) -> Any:
    """Returns the KL divergence of two softened softmaxes, times `temperature**2`.

    Both logits have the shape [..., C] (C classes), and the result has the shape [...].
    The divergence is the cross entropy minus the entropy of the teacher, which has no
    gradient; it is 0 for equal logits. The factor keeps the size of the gradient
    independent of the temperature.

    Source: Hinton et al. 2015 (arXiv:1503.02531), section 2.
    """
    targets = tf.nn.softmax(teacher / temperature)
    entropy = tf.nn.softmax_cross_entropy_with_logits(targets, teacher / temperature)
    losses = tf.nn.softmax_cross_entropy_with_logits(targets, student / temperature)
    return temperature**2 * (losses - entropy)
