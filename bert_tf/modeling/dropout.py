"""The `Dropout` layer, and `DropoutSeeds`: the seeds of all dropout layers of one model.

Imports keras and `fused`.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_tf.modeling import fused

# Odd constants of the 32-bit golden ratio and of murmur3. Multiplied by the layer's index, they
# keep the seeds of neighboring layers and of neighboring steps apart.
_STRIDES = np.array([0x9E3779B1, 0x85EBCA6B], np.uint64)


@keras.saving.register_keras_serializable("bert_tf")
class DropoutSeeds(keras.random.SeedGenerator):
    """The seeds of all dropout layers of one model.

    Inside `use`, each layer's mask is a pure function of the given seed and the layer's index.
    Recomputing the layer therefore repeats its mask, and the training step decides which steps and
    replicas get different masks. Outside `use` this is an ordinary `keras.random.SeedGenerator`:
    every request advances its state.

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
            seed: int32 or uint32 tensor [2]; each step and replica must pass a different one.
        """
        outer_seed, self._given_seed = self._given_seed, ops.cast(seed, "int32")
        try:
            yield
        finally:
            self._given_seed = outer_seed

    def new_index(self) -> int:
        """Returns the index of a new dropout layer; indices follow the order of creation."""
        self._layer_count += 1
        return self._layer_count - 1

    def next(self, ordered: bool = True) -> Any:
        """Returns the seed given to `use`, outside `use` the next state; integer tensor [2]."""
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
    """A generator that always returns one seed: `keras.random` takes generators, not tensors."""

    def __init__(self, seed: Any) -> None:
        self._seed = seed

    def next(self, ordered: bool = True) -> Any:
        """Returns the seed."""
        return self._seed


@keras.saving.register_keras_serializable("bert_tf")
class Dropout(keras.layers.Layer):
    """In training, sets a share of the elements to 0 and scales up the others.

    Args:
        rate: Probability that an element is dropped, in [0, 1). With 0 the layer does nothing.
        dropout_seeds: The `DropoutSeeds` of the model. Without it the layer creates its own.

    Call arguments:
        inputs: Float tensor of any shape.
        training: Whether to drop elements.
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
