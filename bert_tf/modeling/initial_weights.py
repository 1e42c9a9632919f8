"""`InitialWeights` draws the random weights of a model; `drawn_late` skips unused ones.

Drawing the weights of a model takes longer than reading them from a checkpoint. Models
that are created inside `with drawn_late()` have no random weights at first. When the
block ends, only the weights that still have no values are drawn. They get the values
that they would have without `drawn_late`.
"""

import contextlib
import contextvars
import math
import random
from collections.abc import Iterator
from typing import Any

import keras

# The value of a weight that waits for its random values. No trained weight has it.
_NOT_SET = -math.inf
# The weights that wait, with their initializers. None outside of `drawn_late`.
_Waiting = list[tuple[keras.Variable, keras.initializers.Initializer]]
_WAITING: contextvars.ContextVar[_Waiting | None] = contextvars.ContextVar(
    "waiting", default=None
)


class InitialWeights:
    """Creates weights with random values from a truncated normal distribution.

    Args:
        stddev: Standard deviation before the truncation at two standard deviations
            (`initializer_range` of the config).
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
        """Returns a new seed, for a weight that another initializer draws."""
        return self._seeds.randrange(2**31)


@contextlib.contextmanager
def drawn_late() -> Iterator[_Waiting]:
    """Delays drawing the weights of models that are created inside the `with` block.

    When the block ends, the weights that the block has not set are drawn, unless the
    block raises an error. Yields a list of the weights that may be drawn; the block can
    remove weights from the list, which are then not drawn.

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
