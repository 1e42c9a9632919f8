"""What users give, texts and ids, as tensors.

Imports `errors`; TensorFlow.
"""

import re
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.errors import InputError

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_TEXTS = "Texts are a str, a list of str, a numpy array of them or a string tensor, of rank 1 or 0"
_IDS = "Ids are integers: of one text [None], or of a batch [N, None], ragged or not"


def as_batch(texts: Any) -> tuple[Any, bool]:
    """Texts as string [N], and whether it was a single text.

    Args:
        texts: A str, a list of str, a numpy array or a string tensor, of rank 1 or 0; bytes are
            taken for UTF-8.

    Raises:
        InputError: It is something else.
    """
    texts = _strings(texts)
    rank = texts.shape.rank
    if rank == 0:
        return texts[None], True
    if rank is not None and rank > 1:
        raise InputError(
            f"{_TEXTS}. Received: shape {texts.shape}. Put them in one row, as "
            f"tf.reshape(texts, [-1]) does."
        )
    return (texts if rank else tf.ensure_shape(texts, [None])), False


def _strings(texts: Any) -> Any:
    try:
        return tf.convert_to_tensor(texts, tf.string)
    except (TypeError, ValueError) as error:  # also TensorFlow's word for half a surrogate pair
        if tf.is_tensor(texts):
            raise InputError(
                f"{_TEXTS}. Received: {_described(texts)}; a ragged tensor's texts are its .values."
            ) from error
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
            raise InputError(f"{_TEXTS}. Received: {_described(text)} at index {index}.")


def _without_surrogates(texts: Any) -> Any:
    """Half a surrogate pair, not part of UTF-8, becomes another character that has no meaning."""
    if isinstance(texts, str):
        return _LONE_SURROGATE.sub("\uffff", texts)
    return texts if isinstance(texts, bytes) else [_without_surrogates(text) for text in texts]


def as_ragged(ids: Any, dtype: Any = tf.int32) -> tuple[Any, bool]:
    """Ids as ragged [N, None], and whether they were of a single text.

    Args:
        ids: Integers [None] or [N, None]: a tensor, ragged or dense, a numpy array, a list or a
            list of lists. `[]` is one text without tokens, `[[]]` a batch of such a text.
        dtype: Of the result.

    Raises:
        InputError: It is something else.
    """
    if not tf.is_tensor(ids):
        ids = _tensor(ids)
    if not ids.dtype.is_integer or ids.shape.rank not in (None, 1, 2):
        raise InputError(f"{_IDS}. Received: {_described(ids)}.")
    single = ids.shape.rank == 1
    if not isinstance(ids, tf.RaggedTensor):
        ids = tf.convert_to_tensor(ids)
        ids = tf.RaggedTensor.from_tensor(ids[None] if single else tf.ensure_shape(ids, [None] * 2))
    return tf.cast(ids, dtype), single


def _tensor(ids: Any) -> Any:
    """Lists and arrays as a tensor; ragged, where they hold rows."""
    if isinstance(ids, np.ndarray) and ids.dtype.kind == "O":
        ids = ids.tolist()
    listed = ids if isinstance(ids, (list, tuple)) else ()
    if any(map(tf.is_tensor, listed)):
        return tf.ragged.stack(ids)
    if not any(isinstance(row, (list, tuple, np.ndarray)) for row in listed):
        return tf.constant(_integers(ids))
    rows = [_integers(row) for row in ids]
    for index, row in enumerate(rows):
        if row.ndim != 1:
            raise InputError(f"{_IDS}. Received: {_described(ids[index])} at index {index}.")
    return tf.RaggedTensor.from_row_lengths(np.concatenate(rows), [len(row) for row in rows])


def _integers(ids: Any) -> Any:
    try:
        ids = np.asarray(ids)
    except ValueError as error:  # numpy's word for rows of unequal lengths
        raise InputError(f"{_IDS}. Received: {_described(ids)}.") from error
    if ids.size and ids.dtype.kind not in "iu":
        raise InputError(f"{_IDS}. Received: {_described(ids.ravel().tolist()[0])}.")
    return ids.astype(np.int64)


def _described(value: Any) -> str:
    """Kind and, of what is short, value."""
    if tf.is_tensor(value):
        kind = "tensor" if isinstance(value, tf.Tensor) else type(value).__name__
        return f"a {kind} of {value.dtype.name} and shape {value.shape}"
    text = repr(value)
    kind = f"a value of type {type(value).__name__}"
    return f"{text}, {kind}" if len(text) < 40 and "\n" not in text else kind
