"""The `Dropout` layer, and `DropoutSeeds`: the seeds of all dropout layers of one model."""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_tf.errors import InputError
from bert_tf.modeling import fused

# Two odd 32-bit constants: a prime near 2**32 / golden ratio, and a multiplier of
# MurmurHash3. The two numbers of a layer's seed are the two numbers of the seed given
# to `DropoutSeeds.use`, plus (layer index + 1) times these constants. So two layers do
# not get the same seed in nearby steps.
_STRIDES = np.array([0x9E3779B1, 0x85EBCA6B], np.uint64)


@keras.saving.register_keras_serializable("bert_tf")
class DropoutSeeds(keras.random.SeedGenerator):
    """Generates the seeds of all dropout layers of one model.

    Inside `use`, each layer's mask is a pure function of the seed given to `use` and
    the layer's index. Recomputing a layer with the same seed therefore creates the same
    mask again. Different seeds for different steps and replicas give different masks.
    Outside `use`, this object is an ordinary `keras.random.SeedGenerator`, whose state
    advances with each call of `next`.

    Example:
        with model.dropout_seeds.use(ops.convert_to_tensor([step, replica], "int32")):
            outputs = model(batch, training=True)
    """

    def __init__(self, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(seed, **kwargs)
        self._given_seed: Any = None
        self._layer_count = 0

    @contextlib.contextmanager
    def use(self, seed: Any) -> Iterator[None]:
        """Derives all masks from `seed` inside the `with` block.

        Args:
            seed: int32 or uint32 tensor [2], different in each step and on each
                replica.
        """
        outer_seed, self._given_seed = self._given_seed, ops.cast(seed, "int32")
        try:
            yield
        finally:
            self._given_seed = outer_seed

    def new_index(self) -> int:
        """Returns the index of a new dropout layer; the first layer has the index 0."""
        self._layer_count += 1
        return self._layer_count - 1

    def next(self, ordered: bool = True) -> Any:
        """Returns an int tensor [2]: inside `use` the given seed, outside `use` the next state."""
        return super().next(ordered) if self._given_seed is None else self._given_seed

    def of_layer(self, index: int) -> keras.random.SeedGenerator:
        """Returns the seed generator for the next mask of one dropout layer.

        Args:
            index: The layer's index, from `new_index`.
        """
        if self._given_seed is None:
            return self
        offset = (_STRIDES * np.uint64(index + 1)).astype(np.uint32).view(np.int32)
        return _FixedSeed(self._given_seed + ops.convert_to_tensor(offset, "int32"))


class _FixedSeed(keras.random.SeedGenerator):
    """Makes a seed tensor usable in `keras.random`, which accepts no tensors as seeds."""

    def __init__(self, seed: Any) -> None:
        self._seed = seed

    def next(self, ordered: bool = True) -> Any:
        """Returns the fixed seed."""
        return self._seed


@keras.saving.register_keras_serializable("bert_tf")
class Dropout(keras.layers.Layer):
    """In training, sets random elements to 0 and scales up the other elements.

    Args:
        rate: Probability in [0, 1) that an element is set to 0. If 0, the layer returns
            its input.
        dropout_seeds: The `DropoutSeeds` of the model. If None, the layer creates new
            seeds.

    Call arguments:
        inputs: Float tensor of any shape.
        training: Whether to drop (set to 0) elements.

    Raises:
        InputError: `rate` is out of range.
    """

    def __init__(
        self, rate: float, dropout_seeds: DropoutSeeds | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if not 0 <= rate < 1:
            raise InputError(
                f"A dropout rate must be at least 0 and below 1. Received: {rate}."
            )
        self.rate = rate
        self.dropout_seeds = dropout_seeds or DropoutSeeds()
        self._index = self.dropout_seeds.new_index()
        self.built = True

    def call(self, inputs: Any, training: bool = False) -> Any:
        if not training or self.rate == 0:
            return inputs
        seed = self.dropout_seeds.of_layer(self._index)
        return fused.dropout(inputs, self.rate, seed)

    def mask(self, shape: tuple[Any, ...]) -> tuple[Any, float]:
        """Returns a mask of the elements to keep and their factor; (None, 1.0) without dropout."""
        if self.rate == 0:
            return None, 1.0
        return fused.dropout_mask(
            shape, self.rate, self.dropout_seeds.of_layer(self._index)
        )

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "rate": self.rate}
