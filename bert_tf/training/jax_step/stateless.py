"""Functions of an objective as functions of its weights, which JAX can compile."""

import contextlib
import logging
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import jax
import keras
import numpy as np

from bert_tf.errors import InputError
from bert_tf.training.step.objective import Tensors

_LOGGER = logging.getLogger(__name__)
_TENSORFLOW = "/tensorflow/python/"


def with_weights(function: Callable[..., Any], variables: Tensors) -> Any:
    """Returns `function` with the values of the Keras variables as its first argument."""

    def call(weights: Tensors, *arguments: Any) -> Any:
        pairs = [(variables[name], value) for name, value in weights.items()]
        with keras.StatelessScope(state_mapping=pairs):
            return function(*arguments)

    return call


@contextlib.contextmanager
def tracing(objective: Any, batch: Tensors, what: str) -> Iterator[None]:
    """Logs that `what` is compiled for a batch, which happens for each of its shapes.

    Raises:
        InputError: The block calls TensorFlow, in a method of `objective`.
    """
    largest = max(batch.values(), key=lambda values: values.size)
    _LOGGER.info("compiling %s for batches of %s", what, list(largest.shape))
    try:
        yield
    except Exception as error:
        if not _is_of_tensorflow(error):
            raise
        raise InputError(
            f"{type(objective).__name__} calls TensorFlow, which cannot compute with "
            "arrays of JAX. Use keras.ops in place of tf in this class, or give "
            "backend=tensorflow."
        ) from error


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

    def traced(weights: Tensors, batch: Tensors) -> Any:
        with tracing(getattr(function, "__self__", function), batch, "predictions"):
            return with_weights(function, variables)(weights, batch)

    compute = jax.jit(traced)

    def forward(batch: Tensors) -> Any:
        return jax.device_get(compute(values_of(variables), to_arrays(batch)))

    return forward
