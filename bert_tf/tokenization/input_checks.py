"""Converts texts and ids, in the forms that users may pass, to tensors."""

import re
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.errors import InputError

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def texts_as_batch(texts: Any) -> tuple[Any, bool]:
    """Converts texts to a batch.

    Args:
        texts: A str, a list of str, a numpy array of str or a string tensor, of rank 0
            or 1. Bytes are interpreted as UTF-8.

    Returns:
        A tensor string [N], and whether `texts` is a single text.

    Raises:
        InputError, TypeError, ValueError: `texts` are not texts. If only the rank
            differs, the error is tf.errors.InvalidArgumentError.
    """
    try:
        texts = tf.convert_to_tensor(texts, tf.string)
    except (TypeError, ValueError):  # lone surrogates cause these errors too
        texts = _without_surrogates(texts)
        for text in texts if isinstance(texts, list) else ():
            if not isinstance(text, (str, bytes)):  # such as an empty cell of a table
                raise InputError(
                    f"Texts must be strings. Received: {text!r}, a value of type "
                    f"{type(text).__name__}."
                ) from None
        texts = tf.constant(texts, tf.string)

    rank = texts.shape.rank
    if rank == 0:
        return texts[None], True
    return (texts if rank == 1 else tf.ensure_shape(texts, [None])), False


def _without_surrogates(texts: Any) -> Any:
    """Replaces lone surrogates, which UTF-8 cannot encode, with U+FFFF."""
    if isinstance(texts, str):
        return _LONE_SURROGATE.sub("\uffff", texts)
    if isinstance(texts, np.ndarray):
        return _without_surrogates(texts.tolist())
    if isinstance(texts, (list, tuple)):
        return [_without_surrogates(text) for text in texts]
    return texts


def ids_as_ragged(ids: Any, dtype: Any = tf.int32) -> tuple[Any, bool]:
    """Converts ids to a ragged batch.

    Args:
        ids: Integers [None] or [N, None]: a tensor, ragged or dense, a numpy array, a
            list or a list of lists. `[]` is one text without tokens, `[[]]` a batch of
            one such text.

    Returns:
        A ragged tensor [N, None] of the given dtype, and whether `ids` are the ids of a
        single text.

    Raises:
        InputError, TypeError, ValueError: `ids` are not integers, or have another rank.
    """
    if not tf.is_tensor(ids):
        if isinstance(ids, np.ndarray) and ids.dtype == object:
            ids = ids.tolist()
        if isinstance(ids, np.ndarray):
            ids = tf.convert_to_tensor(ids if ids.size else ids.astype(np.int64))
        elif isinstance(ids, (list, tuple)) and any(map(tf.is_tensor, ids)):
            ids = tf.ragged.stack(ids)
        else:
            ids = tf.ragged.constant(ids, tf.int64)

    rank = ids.shape.rank
    if not ids.dtype.is_integer or rank not in (None, 1, 2):
        raise InputError(
            "Ids must be integers of shape [None] for one text, or [N, None] for N "
            f"texts. Received: {ids.dtype.name} of shape {ids.shape}."
        )

    if not isinstance(ids, tf.RaggedTensor):
        ids = tf.convert_to_tensor(ids)  # of a variable, its value
        rows = ids[None] if rank == 1 else tf.ensure_shape(ids, [None] * 2)
        ids = tf.RaggedTensor.from_tensor(rows)
    return tf.cast(ids, dtype), rank == 1
