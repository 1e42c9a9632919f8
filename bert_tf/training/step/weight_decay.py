"""The variables to which weight decay applies.

Written without TensorFlow, so that `decays` also works on other backends of Keras.
"""

import re
from collections.abc import Sequence

# Biases, and the variables of normalization layers. The expressions match the names of
# google-research/bert as well as the paths of Keras variables. They look at the last
# part of the name only, because users choose the other parts, such as the name of a
# model.
NO_DECAY = (r"bias$", r"(^|/)(gamma|beta|scale)$")


def decays(name: str, exclude_from_weight_decay: Sequence[str] = NO_DECAY) -> bool:
    """Returns whether weight decay applies to a variable.

    `name` is the name in google-research/bert or the Keras path. The variable does not
    decay if the name contains a match of one of the regular expressions.

    Source: google-research/bert `optimization.AdamWeightDecayOptimizer`.
    """
    return not any(re.search(pattern, name) for pattern in exclude_from_weight_decay)
