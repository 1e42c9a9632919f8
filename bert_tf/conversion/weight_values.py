"""Checks the values of weights that were read: dtypes, shapes of heads, NaN and infinite values."""

import numpy as np

from bert_tf.conversion.checkpoint_contents import CheckpointContents
from bert_tf.errors import InputError

_SHOWN_NAMES = 3
_BIASES = {"output_bias": "output_weights", "classifier.bias": "classifier.weight"}


def to_float32(array: np.ndarray) -> np.ndarray:
    """Returns floating-point numbers as float32, and other values unchanged.

    A number that is too large for float32 becomes infinite, and `check_weights` refuses it.
    """
    if array.dtype.kind != "f":
        return array
    with np.errstate(over="ignore"):
        return array.astype(np.float32, copy=False)


def check_weights(contents: CheckpointContents) -> None:
    """Checks the weights and slots of a checkpoint.

    Raises:
        InputError: A tensor does not consist of floating-point numbers, contains NaN or infinite
            values, or is the output layer of a head and not a matrix or, for its bias, not a
            vector with one value for each output. The message names it.
    """
    arrays = {**contents.arrays, **contents.classifier, **contents.slots}
    for name, array in arrays.items():
        if array.dtype != np.float32:
            raise InputError(
                f"{contents.source}: {name} has the dtype {array.dtype}, but weights are "
                "floating-point numbers. Save the checkpoint again as float32."
            )
        if name.endswith(("output_weights", "classifier.weight")) and array.ndim != 2:
            raise InputError(
                f"{contents.source}: {name} must be a matrix. Received: the shape "
                f"{list(array.shape)}. Save the checkpoint again."
            )
    for name, array in arrays.items():
        for bias, weights in _BIASES.items():
            outputs = arrays.get(name.removesuffix(bias) + weights) if name.endswith(bias) else None
            if outputs is not None and array.shape != outputs.shape[:1]:
                raise InputError(
                    f"{contents.source}: {name} must have the shape {list(outputs.shape[:1])}, one "
                    f"value for each output. Received: the shape {list(array.shape)}. Save the "
                    "checkpoint again."
                )
    invalid = [name for name, array in arrays.items() if not np.isfinite(array).all()]
    if invalid:
        shown = ", ".join(invalid[:_SHOWN_NAMES])
        more = f" and {len(invalid) - _SHOWN_NAMES} more" if len(invalid) > _SHOWN_NAMES else ""
        raise InputError(
            f"{contents.source} has NaN or infinite values in {shown}{more}. The training has "
            "diverged, or the file is damaged. Use an earlier checkpoint."
        )
