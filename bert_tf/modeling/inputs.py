"""Checks and completes the inputs of a model.

`check_inputs` runs in `__call__` of a model, before Keras converts the inputs, because
Keras adds several lines to the message of each error that is raised in `call`.
`complete_inputs` runs in `call`.
"""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_tf.config import BertConfig
from bert_tf.errors import InputError

INPUT_NAMES = ("input_ids", "input_mask", "segment_ids")
POSITIONS = "masked_lm_positions"

_NOTES = {
    "input_mask": " (1 = token, 0 = padding; default: 1 where input_ids is not 0)",
    "segment_ids": " (default: 0)",
    POSITIONS: " (default: all positions)",
}
# The names of the same inputs in Hugging Face transformers, the Model Garden and
# keras-hub.
_OTHER_NAMES = {
    "attention_mask": "input_mask",
    "padding_mask": "input_mask",
    "token_type_ids": "segment_ids",
    "input_type_ids": "segment_ids",
}
# The largest n for which the dtype represents all integers from 0 to n exactly.
_LARGEST_EXACT = {"float16": 2048, "bfloat16": 256}
# The field of the config that is greater than all values of the input.
_LIMITS = {
    "input_ids": "vocab_size",
    "segment_ids": "type_vocab_size",
    POSITIONS: "max_position_embeddings",
}


def check_inputs(
    inputs: Any,
    config: BertConfig,
    axes: tuple[str, ...],
    names: tuple[str, ...],
    model: str,
) -> dict[str, Any]:
    """Checks the inputs of a model, and returns the inputs that it uses, unchanged.

    The values are checked only if they are known: if the model is called eagerly.

    Args:
        axes: The shape letter of each axis of the ids: ("B", "S"), or ("B", "C", "S")
            for a multiple-choice model with C choices.

    Raises:
        InputError: The inputs are not a dict with `input_ids`, or an input has a wrong
            dtype, a wrong shape, too many tokens or a known value out of range.
    """
    if problem := _find_problem(inputs, config, axes, names):
        shapes = {
            n: f"int32 [{', '.join(_axes_of(n, axes))}]{_NOTES.get(n, '')}"
            for n in names
        }
        source = ", as BertTokenizer.encode returns it" if len(axes) == 2 else ""
        raise InputError(
            f"The inputs of {model} are invalid: {problem}. Received: "
            f"{_describe(inputs)}. Expected: a dict {_format(shapes)} of NumPy arrays "
            f"or tensors{source}."
        )

    # Types and shapes are right. Check lengths, and values where they are known.
    used = {name: inputs[name] for name in names if inputs.get(name) is not None}
    length = _sizes(used["input_ids"])[-1]
    if length is not None and length > config.max_position_embeddings:
        raise InputError(
            f"The sequences have {length} tokens, but this model accepts at most "
            f"{config.max_position_embeddings} (max_position_embeddings). Truncate "
            "them, or use a model with more positions."
        )
    if length == 0:
        raise InputError("The sequences have 0 tokens. Give at least one token.")

    for name, value in used.items():
        _check_values(name, value, config, length)
    return used


def complete_inputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `input_ids`, `input_mask` and `segment_ids` as int32 of the same shape.

    Without `input_mask`, the tokens whose id is 0 ([PAD] in released vocabularies) are
    padding. Without `segment_ids`, all tokens belong to segment 0.
    """
    ids = to_int32(inputs["input_ids"])
    mask, segments = inputs.get("input_mask"), inputs.get("segment_ids")
    return {
        "input_ids": ids,
        "input_mask": to_int32(ops.not_equal(ids, 0) if mask is None else mask),
        "segment_ids": ops.zeros_like(ids) if segments is None else to_int32(segments),
    }


def to_int32(x: Any) -> Any:
    """Casts a tensor to int32; returns the same tensor if it is int32.

    Keras builds models symbolically with float32 inputs, for example under a strategy.
    """
    return (
        x
        if keras.backend.standardize_dtype(x.dtype) == "int32"
        else ops.cast(x, "int32")
    )


def _find_problem(
    inputs: Any, config: BertConfig, axes: tuple[str, ...], names: tuple[str, ...]
) -> str:
    """Describes the first wrong type, name, dtype or shape; returns "" if there is none."""
    if not isinstance(inputs, Mapping):
        return "they are not a dict"
    if inputs.get("input_ids") is None:
        return "input_ids is missing"
    for other, name in _OTHER_NAMES.items():
        if other in inputs and inputs.get(name) is None:
            return f"the name of {other} is {name} in bert-tf"

    # The size of each axis, from the first input that has the axis.
    expected: dict[str, Any] = {}
    for name in names:
        if inputs.get(name) is None:
            continue
        dtype = _dtype(inputs[name])
        if "int" not in dtype and "float" not in dtype and dtype != "bool":
            return f"{name} is not a dense array or tensor of numbers"

        limit = getattr(config, _LIMITS[name]) if name in _LIMITS else 2
        if limit - 1 > _LARGEST_EXACT.get(dtype, np.inf):
            return (
                f"{name} is {dtype}, which does not represent each value below "
                f"{limit} exactly"
            )

        sizes = _sizes(inputs[name])
        own_axes = _axes_of(name, axes)
        if sizes is None or len(sizes) != len(own_axes):
            rank = "unknown" if sizes is None else len(sizes)
            return f"the rank of {name} is {rank} instead of {len(own_axes)}"
        for axis, size in zip(own_axes, sizes, strict=True):
            if size is not None and expected.setdefault(axis, size) != size:
                return f"the shape of {name} differs from the shape of input_ids"
    return ""


def _axes_of(name: str, axes: tuple[str, ...]) -> tuple[str, ...]:
    return ("B", "P") if name == POSITIONS else axes


def _check_values(
    name: str, value: Any, config: BertConfig, length: int | None
) -> None:
    """Raises `InputError` if the values of an input are known, and one is out of range."""
    # The values must be below the limit.
    if name == POSITIONS:
        limit, remedy = length, "Use positions in input_ids."
    elif name == "input_mask":
        limit, remedy = 2, "Use 1 for tokens and 0 for padding."
    else:
        field = _LIMITS[name]
        limit = getattr(config, field)
        remedy = f"Use the tokenizer of the model's checkpoint ({field} is {limit})."

    try:
        values = np.asarray(value)
    except (NotImplementedError, TypeError, ValueError):  # The tensor is symbolic.
        return
    if limit is None or not values.size:
        return

    low, high = float(values.min()), float(values.max())
    if not (low >= 0 and high < limit):
        bad = high if low >= 0 else low
        raise InputError(
            f"{name} contains {bad:.16g}, but its values must be from 0 to "
            f"{limit - 1}. {remedy}"
        )


def _dtype(x: Any) -> str:
    """Returns the dtype of a dense array or tensor, and "" for any other object."""
    # Of the tensor types, only sparse and ragged tensors have one of the first three
    # attributes.
    sparse = any(hasattr(x, name) for name in ("row_splits", "dense_shape", "todense"))
    if sparse or getattr(x, "sparse", False) or getattr(x, "ragged", False):
        return ""
    if not hasattr(x, "dtype") or not hasattr(x, "shape"):
        return ""

    try:
        return keras.backend.standardize_dtype(x.dtype)
    except ValueError:
        return str(x.dtype)


def _sizes(x: Any) -> Any:
    """Returns the shape, with None for unknown sizes, or None if the rank is unknown."""
    try:
        return tuple(x.shape)
    except ValueError:
        return None


def _describe(x: Any) -> str:
    """Describes an input or a dict of inputs by types and shapes."""
    if isinstance(x, Mapping):
        return _format({str(name): _describe(value) for name, value in x.items()})
    dtype = _dtype(x)
    if not dtype:
        count = f" of {len(x)} items" if isinstance(x, (list, tuple)) else ""
        return f"{type(x).__name__}{count}"
    sizes = _sizes(x)
    return f"{dtype} {'?' if sizes is None else list(sizes)}"


def _format(items: dict[str, str]) -> str:
    return "{" + ", ".join(f"{name}: {item}" for name, item in items.items()) + "}"
