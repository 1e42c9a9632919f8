"""`InitialWeights` draws the random weights of a model; `drawn_late` skips unused ones.

Drawing the weights of a model takes longer than reading them from a checkpoint. Models
that are created inside `drawn_late` have no random weights at first. At its end, only
the weights that nothing else has set are drawn, with the values that they would have
without `drawn_late`.
"""

import contextlib
import contextvars
import math
import random
from collections.abc import Iterator
from typing import Any

import keras

# The value of a weight that waits for its random values. No model has such a weight.
_NOT_SET = -math.inf
# The weights that wait, with their initializers. None outside of `drawn_late`.
_Waiting = list[tuple[keras.Variable, keras.initializers.Initializer]]
_WAITING: contextvars.ContextVar[_Waiting | None] = contextvars.ContextVar(
    "waiting", default=None
)


class InitialWeights:
    """Creates weights: normal distributions truncated at two standard deviations.

    Args:
        stddev: Standard deviation before the truncation (`initializer_range` of the
            config).
        seed: Determines all initial values. If None, the seed is drawn from Python's
            `random`, which `keras.utils.set_random_seed` seeds.

    Source: google-research/bert `modeling.create_initializer`.
    """

    def __init__(self, stddev: float, seed: int | None = None) -> None:
        self._stddev = stddev
        self._seeds = random.Random(random.randrange(2**31) if seed is None else seed)

    def add_weight(
        self, layer: keras.layers.Layer, shape: tuple[int, ...], **arguments: Any
    ) -> keras.Variable:
        """Adds a weight to a layer, with a new seed in each call; no axis may have the length 0."""
        initializer = keras.initializers.TruncatedNormal(
            stddev=self._stddev, seed=self.next_seed()
        )
        waiting = _WAITING.get()
        if waiting is None:
            return layer.add_weight(shape, initializer, **arguments)

        not_set = keras.initializers.Constant(_NOT_SET)
        weight = layer.add_weight(shape, not_set, **arguments)
        waiting.append((weight, initializer))
        return weight

    def next_seed(self) -> int:
        """Returns a new seed, for a variable with another distribution."""
        return self._seeds.randrange(2**31)


@contextlib.contextmanager
def drawn_late() -> Iterator[_Waiting]:
    """Draws the unset weights of models created in the block when the block ends.

    Yields the list of the weights that wait. Those that the block removes from it are
    not drawn, and if the block raises an error, none is.

    Example:
        with drawn_late():
            model = BertClassifier(config, num_labels=2, seed=1)
            assign(model, checkpoint)  # without a head
    """
    waiting: _Waiting = []
    token = _WAITING.set(waiting)
    try:
        yield waiting
    finally:
        _WAITING.reset(token)

    for weight, initializer in waiting:
        if float(weight[(0,) * len(weight.shape)]) == _NOT_SET:
            weight.assign(initializer(weight.shape, weight.dtype))
