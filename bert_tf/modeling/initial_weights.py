"""`InitialWeights`: the initializers of a model's variables."""

import random

import keras


class InitialWeights:
    """Creates initializers for normal distributions truncated at two standard deviations.

    Args:
        stddev: Standard deviation before the truncation (`initializer_range` of the
            config).
        seed: Integer that determines all initial values. If None, the seed is drawn
            from Python's `random`; `keras.utils.set_random_seed` seeds `random`.

    Source: google-research/bert `modeling.create_initializer`.
    """

    def __init__(self, stddev: float, seed: int | None = None) -> None:
        self._stddev = stddev
        self._seeds = random.Random(random.randrange(2**31) if seed is None else seed)

    def next(self) -> keras.initializers.Initializer:
        """Returns an initializer for the next variable; each call draws a new seed."""
        return keras.initializers.TruncatedNormal(
            stddev=self._stddev, seed=self.next_seed()
        )

    def next_seed(self) -> int:
        """Returns a new seed, for a variable with another distribution."""
        return self._seeds.randrange(2**31)
