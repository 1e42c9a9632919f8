"""`FileForward`: the base class of what runs a TFLite or ONNX file."""

import abc
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.modeling.inputs import POSITIONS

IDS = "input_ids"


class FileForward(abc.ABC):
    """The outputs of a file for a batch. Several threads can call it at the same time.

    Args:
        inputs: The names of the inputs of the file.
        outputs: The shape of each output, by name; -1 for a size that is not fixed.
        outputs_of_tokens: Whether the outputs have one value for each token.

    Call arguments:
        inputs: Tensors [B, ...] of inputs of the file, by name.

    Returns:
        The outputs of the file, float32 [B, ...], by name.
    """

    def __init__(
        self,
        inputs: Sequence[str],
        outputs: Mapping[str, Sequence[int]],
        outputs_of_tokens: bool,
    ) -> None:
        self._inputs, self._outputs = tuple(inputs), dict(outputs)
        self._outputs_of_tokens = outputs_of_tokens

    def __call__(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the outputs for a batch; see the docstring of the class."""
        names = [name for name in self._inputs if name in inputs]
        values = tf.numpy_function(
            lambda *arrays: self.run(dict(zip(names, arrays, strict=True))),
            [inputs[name] for name in names],
            [tf.float32] * len(self._outputs),
        )
        values = tf.nest.flatten(
            values
        )  # a single output may be a tensor instead of a list
        for value, shape in zip(values, self._outputs.values(), strict=True):
            value.set_shape([None] * len(shape))
        return dict(zip(self._outputs, values, strict=True))

    def run(self, batch: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Returns the outputs of all rows, in the order of `outputs`."""
        rows = len(next(iter(batch.values())))
        if not rows:
            return [
                np.zeros(self._empty_shape(s, batch), np.float32)
                for s in self._outputs.values()
            ]
        if POSITIONS in self._inputs and POSITIONS not in batch:  # all positions
            positions = np.arange(batch[IDS].shape[1], dtype=np.int32)
            batch = {**batch, POSITIONS: np.tile(positions, (rows, 1))}
        if POSITIONS not in batch or batch[POSITIONS].shape[1]:
            found = self._run_rows(batch)
            return [found[name] for name in self._outputs]
        # Files cannot compute outputs for no position.
        found = self._run_rows({**batch, POSITIONS: np.zeros([rows, 1], np.int32)})
        return [
            found[n][:, :0] if len(s) == 3 else found[n]
            for n, s in self._outputs.items()
        ]

    @abc.abstractmethod
    def _run_rows(self, batch: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Returns the outputs of at least one row, for at least one position if it has any."""

    def _empty_shape(
        self, shape: Sequence[int], batch: Mapping[str, np.ndarray]
    ) -> list[int]:
        """Returns the shape of an output for a batch without rows."""
        rest = [abs(size) for size in shape[1:]]
        if self._outputs_of_tokens:
            rest[0] = batch[IDS].shape[1]
        return [0, *rest]


def num_cores() -> int:
    """Returns the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
