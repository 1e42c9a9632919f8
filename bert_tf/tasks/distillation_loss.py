"""The loss of a student with respect to the logits of its teacher."""

from typing import Any

from keras import ops


def divergence(teacher: Any, student: Any, temperature: float) -> Any:
    """Returns `temperature**2` times the KL divergence KL(teacher || student).

    Both arguments are logits [..., C] (C classes). They are divided by the temperature
    before the softmax. The result has the shape [...], and is 0 for equal logits. The
    factor `temperature**2` keeps the size of the gradient independent of the
    temperature.

    Source: Hinton et al. 2015 (arXiv:1503.02531), section 2.
    """
    targets = ops.softmax(teacher / temperature)
    entropy, losses = (
        ops.categorical_crossentropy(targets, logits / temperature, from_logits=True)
        for logits in (teacher, student)
    )
    return temperature**2 * (losses - entropy)
