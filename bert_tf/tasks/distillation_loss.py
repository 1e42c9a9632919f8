"""The loss of a student with respect to the logits of its teacher."""

from typing import Any

import tensorflow as tf


def divergence(teacher: Any, student: Any, temperature: float) -> Any:
    """Returns the KL divergence of two softened softmaxes, times `temperature**2`.

    The divergence of the student's from the teacher's is their cross entropy, less the
    entropy of the teacher's, which has no gradient; it is 0 if both are equal. The
    factor keeps the size of the gradient independent of the temperature.

    Args:
        teacher: Logits, float32 [..., V], where V is the number of classes.
        student: Logits, float32 [..., V].
        temperature: The number by which both logits are divided.

    Returns:
        float32 [...].

    Source: Hinton et al. 2015 (arXiv:1503.02531), section 2.
    """
    targets = tf.nn.softmax(teacher / temperature)
    entropy = tf.nn.softmax_cross_entropy_with_logits(targets, teacher / temperature)
    losses = tf.nn.softmax_cross_entropy_with_logits(targets, student / temperature)
    return temperature**2 * (losses - entropy)
