"""From places in normalized text back to places in the text as it was given.

Imports TensorFlow.
"""

from typing import Any

import numpy as np
import tensorflow as tf

# Bytes of a UTF-8 character by its first byte; 1 for a byte that continues one, so that the end
# of a character follows from its first byte and from its last alike.
_LENGTHS = np.array([1] * 0xC0 + [2] * 0x20 + [3] * 0x10 + [4] * 0x10, np.int64)


def in_original(texts: Any, origins: Any, starts: Any, ends: Any) -> tuple[Any, Any]:
    """Maps spans of normalized text to the original.

    A span reaches from its first character to the next one that is left after normalization: what
    is dropped behind a character, such as its accents, belongs to it.

    Args:
        texts: string [N], the original.
        origins: Ragged int64 [N, bytes + 1]: for each byte of the normalized texts, the byte or
            the start of the character that it comes from, and at the end the original's length.
        starts: Ragged int64 [N, None], in bytes of the normalized text.
        ends: The same for the ends, exclusive; no span is empty.

    Returns:
        Starts and ends in bytes of the original, ragged int64 [N, None].
    """
    rows = starts.value_rowids()
    first_origin = tf.gather(origins.row_splits, rows)
    first_byte = tf.gather(_starts(texts), rows)
    start = tf.gather(origins.values, first_origin + starts.values)
    last = tf.gather(origins.values, first_origin + ends.values - 1)
    following = tf.gather(origins.values, first_origin + ends.values)
    last_length = tf.gather(_LENGTHS, tf.gather(_bytes(texts), first_byte + last))
    end = tf.maximum(following, last + last_length)
    return starts.with_values(start), ends.with_values(end)


def composed(outer: Any, inner: Any) -> Any:
    """The origins of a text that was rewritten twice.

    Args:
        outer: Origins of the second rewriting in the first, ragged int64 [N, bytes + 1].
        inner: Origins of the first in the original, ragged int64 [N, bytes + 1].

    Returns:
        Ragged int64 [N, bytes + 1].
    """
    first = tf.gather(inner.row_splits, outer.value_rowids())
    return outer.with_values(tf.gather(inner.values, first + outer.values))


def in_characters(texts: Any, offsets: Any) -> Any:
    """Offsets in bytes as offsets in characters (code points), as Python counts them.

    Args:
        texts: string [N], UTF-8.
        offsets: Ragged int [N, None], each at the start of a character or at the end.

    Returns:
        Ragged int64 [N, None].
    """
    begins = tf.cast((_bytes(texts) & 0xC0) != 0x80, tf.int64)
    before = tf.concat([[0], tf.cumsum(begins)], 0)
    first = tf.gather(_starts(texts), offsets.value_rowids())
    index = first + tf.cast(offsets.values, tf.int64)
    return offsets.with_values(tf.gather(before, index) - tf.gather(before, first))


def _bytes(texts: Any) -> Any:
    """All bytes of a batch in one row: int32 [bytes]."""
    return tf.cast(tf.io.decode_raw(tf.strings.reduce_join(texts), tf.uint8), tf.int32)


def _starts(texts: Any) -> Any:
    return tf.cumsum(tf.cast(tf.strings.length(texts), tf.int64), exclusive=True)
