"""Converts tensors to the bytes of a safetensors file, and back."""

from collections.abc import Mapping

import numpy as np
import safetensors
import safetensors.numpy

from bert_tf.errors import InputError

# The names of dtypes in safetensors and in NumPy. No safetensors file has "F8".
_DTYPES = {
    f"{kind}{8 * size}": f"<{kind.lower()}{size}"
    for kind in "FIU"
    for size in (1, 2, 4, 8)
}
_DTYPES["BOOL"] = "?"


def to_safetensors(
    arrays: Mapping[str, np.ndarray], metadata: dict[str, str] | None = None
) -> bytes:
    """Returns the bytes of a safetensors file, with `metadata` as its `__metadata__`."""
    # `np.ascontiguousarray` would give a scalar the shape (1,).
    contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    return safetensors.numpy.save(contiguous, metadata)


def from_safetensors(content: bytes, path: str) -> dict[str, np.ndarray]:
    """Returns the tensors of a safetensors file, with bfloat16 tensors as float32.

    Raises:
        InputError: The file is damaged, or NumPy does not have the dtype of a tensor.
    """
    try:
        tensors = safetensors.deserialize(content)
        return {
            name: _array(entry["dtype"], entry["data"], f"{path}: {name}").reshape(
                entry["shape"]
            )
            for name, entry in tensors
        }
    except InputError:
        raise
    # numpy refuses some shapes of empty tensors that safetensors accepts.
    except (safetensors.SafetensorError, ValueError, OverflowError) as error:
        raise InputError(
            f"{path} is not a valid safetensors file: {error}. Copy it again from its "
            "source."
        ) from error


def _array(dtype: str, data: bytes, name: str) -> np.ndarray:
    if dtype == "BF16":
        # numpy has no bfloat16. The bits of a bfloat16 are the upper half of a float32.
        return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
    if dtype not in _DTYPES:
        raise InputError(
            f"{name} has the dtype {dtype}, which is not supported. Save the model as "
            "float32."
        )
    return np.frombuffer(data, _DTYPES[dtype])
