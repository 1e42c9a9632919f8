"""Checks the values of weights that were read: dtypes, NaN and infinite values."""

import numpy as np
import tensorflow as tf

from bert_tf.conversion.checkpoint_contents import CheckpointContents, shorten
from bert_tf.errors import InputError


def to_float32(array: np.ndarray) -> np.ndarray:
    """Returns floating-point numbers as float32, and other values unchanged.

    A number that is too large for float32 becomes infinite, and `check_weights` refuses
    it.
    """
    if not tf.as_dtype(array.dtype).is_floating:
        return array
    with np.errstate(over="ignore"):
        return array.astype(np.float32, copy=False)


def check_weights(contents: CheckpointContents) -> None:
    """Checks the weights and slots of a checkpoint.

    Raises:
        InputError: A tensor does not consist of floating-point numbers, or contains NaN
            or infinite values. The message names it.
    """
    arrays = {**contents.arrays, **contents.classifier, **contents.slots}
    for name, array in arrays.items():
        if array.dtype != np.float32:
            raise InputError(
                f"{contents.source}: {name} has the dtype {array.dtype}, but weights "
                "are floating-point numbers. Save the checkpoint again as float32."
            )
    invalid = [name for name, array in arrays.items() if not np.isfinite(array).all()]
    if invalid:
        raise InputError(
            f"{contents.source} has NaN or infinite values in {shorten(invalid, 3)}. "
            "The training has diverged, or the file is damaged. Use an earlier "
            "checkpoint."
        )
