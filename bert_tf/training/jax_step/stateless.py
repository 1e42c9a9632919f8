"""Functions of an objective as functions of its weights, which JAX can compile."""

import traceback
from collections.abc import Callable
from typing import Any

import jax
import keras
import numpy as np

from bert_tf.errors import InputError
from bert_tf.training.step.objective import Tensors

_TENSORFLOW = "/tensorflow/python/"


def with_weights(function: Callable[..., Any], variables: Tensors) -> Any:
    """Returns `function` with the values of the Keras variables as its first argument.

    Raises:
        InputError: When it is called: `function` calls TensorFlow.
    """

    def call(weights: Tensors, *arguments: Any) -> Any:
        pairs = [(variables[name], value) for name, value in weights.items()]
        try:
            with keras.StatelessScope(state_mapping=pairs):
                return function(*arguments)
        except Exception as error:
            if not _is_of_tensorflow(error):
                raise
            owner = getattr(function, "__self__", function)
            raise InputError(
                f"{type(owner).__name__} calls TensorFlow, which cannot compute with "
                "arrays of JAX. Use keras.ops in place of tf in this class, or give "
                "backend=tensorflow."
            ) from error

    return call


def _is_of_tensorflow(error: BaseException | None) -> bool:
    """Returns whether TensorFlow raised an error, or one that led to it."""
    if error is None:
        return False
    frames = traceback.extract_tb(error.__traceback__)
    is_own = any(_TENSORFLOW in frame.filename for frame in frames)
    return is_own or _is_of_tensorflow(error.__context__)


def values_of(variables: Tensors) -> Tensors:
    """Returns the array of each variable."""
    return {name: variable.value for name, variable in variables.items()}


def to_arrays(batch: Tensors) -> dict[str, np.ndarray]:
    """Returns the features of a batch of `tf.data` as arrays."""
    return {name: np.asarray(value) for name, value in batch.items()}


def compiled_forward(function: Callable[[Any], Any], variables: Tensors) -> Any:
    """Returns a compiled form of a function of a batch that calls a model.

    The result takes a batch of tensors or arrays, and returns arrays. A program is
    compiled for each shape of a batch.
    """
    compute = jax.jit(with_weights(function, variables))

    def forward(batch: Tensors) -> Any:
        return jax.device_get(compute(values_of(variables), to_arrays(batch)))

    return forward
