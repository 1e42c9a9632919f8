"""Checks the texts and ids that a caller passes, and converts them to tensors."""

import re
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.errors import InputError

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_TEXTS = (
    "Texts must be a str, or a list, numpy array or tensor of strings, of rank 0 or 1"
)
_IDS = "Ids must be integers of shape [None] for one text, or [N, None] for N texts"


def texts_as_batch(texts: Any) -> tuple[Any, bool]:
    """Converts texts to a batch.

    Args:
        texts: A str, a list of str, a numpy array of str or a string tensor, of rank 0
            or 1. Bytes are interpreted as UTF-8.

    Returns:
        string [N], and whether `texts` is a single text.

    Raises:
        InputError: `texts` has another type or rank.
    """
    texts = _strings(texts)
    rank = texts.shape.rank
    if rank == 0:
        return texts[None], True

    if rank is not None and rank > 1:
        raise InputError(
            f"{_TEXTS}. Received: shape {texts.shape}. Flatten them with "
            "tf.reshape(texts, [-1])."
        )
    return (texts if rank else tf.ensure_shape(texts, [None])), False


def _strings(texts: Any) -> Any:
    try:
        return tf.convert_to_tensor(texts, tf.string)
    except (TypeError, ValueError) as error:  # lone surrogates also cause these errors
        if tf.is_tensor(texts):
            raise InputError(
                f"{_TEXTS}. Received: {_described(texts)}. Of a ragged tensor, give "
                "its .values."
            ) from error

        # Convert again in Python, which names the first value that is not a text.
        if isinstance(texts, np.ndarray):
            texts = texts.tolist()
        _check_strings(texts)
        return tf.constant(_without_surrogates(texts), tf.string)


def _check_strings(texts: Any) -> None:
    if isinstance(texts, (str, bytes)):
        return
    if not isinstance(texts, (list, tuple)):
        raise InputError(f"{_TEXTS}. Received: {_described(texts)}.")
    for index, text in enumerate(texts):
        if not isinstance(text, (str, bytes)):
            raise InputError(
                f"{_TEXTS}. Received: {_described(text)} at index {index}."
            )


def _without_surrogates(texts: Any) -> Any:
    """Replaces lone surrogates, which UTF-8 cannot encode, with U+FFFF."""
    if isinstance(texts, str):
        return _LONE_SURROGATE.sub("\uffff", texts)
    return (
        texts
        if isinstance(texts, bytes)
        else [_without_surrogates(text) for text in texts]
    )


def ids_as_ragged(ids: Any, dtype: Any = tf.int32) -> tuple[Any, bool]:
    """Converts ids to a ragged batch.

    Args:
        ids: Integers [None] or [N, None]: a tensor, ragged or dense, a numpy array, a
            list or a list of lists. `[]` is one text without tokens, and `[[]]` is a
            batch of one text without tokens.
        dtype: The dtype of the result.

    Returns:
        Ragged integers [N, None], and whether `ids` are the ids of a single text.

    Raises:
        InputError: `ids` has another type or rank.
    """
    if not tf.is_tensor(ids):
        ids = _integer_tensor(ids)
    if not ids.dtype.is_integer or ids.shape.rank not in (None, 1, 2):
        raise InputError(f"{_IDS}. Received: {_described(ids)}.")

    single = ids.shape.rank == 1
    if not isinstance(ids, tf.RaggedTensor):
        ids = tf.convert_to_tensor(ids)
        rows = ids[None] if single else tf.ensure_shape(ids, [None] * 2)
        ids = tf.RaggedTensor.from_tensor(rows)
    return tf.cast(ids, dtype), single


def _integer_tensor(ids: Any) -> Any:
    """Converts a list or an array to a tensor.

    A list of rows becomes a ragged tensor.
    """
    if isinstance(ids, np.ndarray) and ids.dtype.kind == "O":
        ids = ids.tolist()
    items = ids if isinstance(ids, (list, tuple)) else ()
    if any(map(tf.is_tensor, items)):
        return tf.ragged.stack(ids)
    if not any(isinstance(row, (list, tuple, np.ndarray)) for row in items):
        return tf.constant(_integers(ids))

    rows = [_integers(row) for row in ids]
    for index, row in enumerate(rows):
        if row.ndim != 1:
            raise InputError(
                f"{_IDS}. Received: {_described(ids[index])} at index {index}."
            )
    return tf.RaggedTensor.from_row_lengths(
        np.concatenate(rows), [len(row) for row in rows]
    )


def _integers(ids: Any) -> Any:
    try:
        ids = np.asarray(ids)
    except ValueError as error:  # the rows have different lengths
        raise InputError(f"{_IDS}. Received: {_described(ids)}.") from error
    if ids.size and ids.dtype.kind not in "iu":
        raise InputError(f"{_IDS}. Received: {_described(ids.ravel().tolist()[0])}.")
    return ids.astype(np.int64)


def _described(value: Any) -> str:
    """Describes a value for an error message by its type and, if short, itself."""
    if tf.is_tensor(value):
        kind = "tensor" if isinstance(value, tf.Tensor) else type(value).__name__
        return f"a {kind} of {value.dtype.name} and shape {value.shape}"
    text = repr(value)
    kind = f"a value of type {type(value).__name__}"
    return f"{text}, {kind}" if len(text) < 40 and "\n" not in text else kind
