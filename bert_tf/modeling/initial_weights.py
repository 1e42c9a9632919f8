"""`InitialWeights`: the initializers of a model's variables.

Imports keras only.
"""

import random

import keras


class InitialWeights:
    """Initializers of a model: a truncated normal distribution, cut at two standard deviations.

    Args:
        stddev: Standard deviation before the cut (`initializer_range` of the config).
        seed: An integer that determines every value. With None the seed is drawn from Python's
            `random`, which `keras.utils.set_random_seed` seeds.

    Source: google-research/bert `modeling.create_initializer`.
    """

    def __init__(self, stddev: float, seed: int | None = None) -> None:
        self._stddev = stddev
        self._seeds = random.Random(random.randrange(2**31) if seed is None else seed)

    def next(self) -> keras.initializers.Initializer:
        """Returns the initializer of the next variable; each has its own seed."""
        return keras.initializers.TruncatedNormal(
            stddev=self._stddev, seed=self._seeds.randrange(2**31)
        )
