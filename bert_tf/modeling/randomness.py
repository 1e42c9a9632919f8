"""Where a model's random numbers come from: initial weights and dropout.

Imports keras only.
"""

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_tf.modeling import fused

# Odd constants of the 32-bit golden ratio and of murmur3: neighbouring dropout layers and
# neighbouring steps must not meet.
_STRIDES = np.array([0x9E3779B1, 0x85EBCA6B], np.uint64)


class InitialWeights:
    """Initializers of a model: a truncated normal, cut at two standard deviations.

    Args:
        stddev: Standard deviation before the cut, `initializer_range`.
        seed: An integer that fixes every value, or None to draw it from Python's `random`, which
            `keras.utils.set_random_seed` seeds.

    Source: google-research/bert `modeling.create_initializer`.
    """

    def __init__(self, stddev: float, seed: int | None = None) -> None:
        self._stddev = stddev
        self._seeds = random.Random(random.randrange(2**31) if seed is None else seed)

    def next(self) -> keras.initializers.Initializer:
        """An initializer for one variable, with a seed of its own."""
        return keras.initializers.TruncatedNormal(
            stddev=self._stddev, seed=self._seeds.randrange(2**31)
        )


@keras.saving.register_keras_serializable("bert_tf")
class DropoutSeeds(keras.random.SeedGenerator):
    """The seeds of all dropout layers of one model.

    Inside `use`, each layer's mask is a pure function of the given seed and the layer's index, so
    that recomputing the layer repeats its mask, and a training step decides what differs between
    steps and replicas. Outside `use` this is an ordinary `keras.random.SeedGenerator`: every
    request moves its state.

    Example:
        with model.dropout_seeds.use(ops.convert_to_tensor([step, replica], "int32")):
            outputs = model(batch, training=True)
    """

    def __init__(self, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(seed, **kwargs)
        self._given: Any = None
        self._layers = 0

    @contextlib.contextmanager
    def use(self, seed: Any) -> Iterator[None]:
        """Derives all masks from `seed` until the block ends.

        Args:
            seed: int32 or uint32 tensor [2], another one for each step and replica.
        """
        before, self._given = self._given, ops.cast(seed, "int32")
        try:
            yield
        finally:
            self._given = before

    def new_index(self) -> int:
        """The index of a dropout layer; layers get theirs in the order they are made."""
        self._layers += 1
        return self._layers - 1

    def next(self, ordered: bool = True) -> Any:
        """The seed given to `use`, or else the next state; integer tensor [2]."""
        return super().next(ordered) if self._given is None else self._given

    def of_layer(self, index: int) -> keras.random.SeedGenerator:
        """The source of one dropout layer's next mask, for the functions of `keras.random`.

        Args:
            index: The layer's `new_index`.
        """
        if self._given is None:
            return self
        offset = (_STRIDES * np.uint64(index + 1)).astype(np.uint32).view(np.int32)
        return _Given(self._given + ops.convert_to_tensor(offset, "int32"))


class _Given(keras.random.SeedGenerator):
    """One seed, without state: `keras.random` takes no tensors, only generators."""

    def __init__(self, seed: Any) -> None:
        self._seed = seed

    def next(self, ordered: bool = True) -> Any:
        """The seed."""
        return self._seed


@keras.saving.register_keras_serializable("bert_tf")
class Dropout(keras.layers.Layer):
    """Sets a share of the elements to 0 and scales the others up, while training.

    Args:
        rate: Probability of an element to be dropped, in [0, 1). 0 does nothing at all.
        dropout_seeds: The model's `DropoutSeeds`; a layer alone gets its own.

    Call arguments:
        inputs: Float tensor of any shape.
        training: Whether to drop.
    """

    def __init__(
        self, rate: float, dropout_seeds: DropoutSeeds | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.rate = rate
        self.dropout_seeds = dropout_seeds or DropoutSeeds()
        self._index = self.dropout_seeds.new_index()
        self.built = True

    def call(self, inputs: Any, training: bool = False) -> Any:
        if not training or self.rate == 0:
            return inputs
        seed = self.dropout_seeds.of_layer(self._index)
        return fused.dropout(inputs, self.rate, seed)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "rate": self.rate}
