"""Maps offsets in normalized text to the original text, and offsets in bytes to characters.

A span is the start and the exclusive end of a token in a text.
"""

from typing import Any

import numpy as np
import tensorflow as tf

# For each value of the first byte of a UTF-8 character, the length of the character in
# bytes; for continuation bytes 1. So `offset + length` is the end of the character,
# whether `offset` is that of the first byte or of the last byte of the character.
_LENGTHS = np.array([1] * 0xC0 + [2] * 0x20 + [3] * 0x10 + [4] * 0x10, np.int64)


def in_original(texts: Any, origins: Any, starts: Any, ends: Any) -> tuple[Any, Any]:
    """Maps spans of normalized texts to the original texts.

    The end of a span is the start of the next character that normalization keeps, so
    that the span also covers removed characters such as accents.

    Args:
        texts: string [N], the original texts.
        origins: Ragged int64 [N, bytes + 1]. For each byte of a normalized text, an
            offset in the original text: the offset of the byte or of the character from
            which the byte comes. The last value of a row is the length of the original
            text.
        starts: Starts of the spans in bytes of the normalized text, ragged int64 [N,
            None].
        ends: Exclusive ends of the spans, ragged int64 [N, None], each greater than its
            start.

    Returns:
        Starts and ends in bytes of the original text, ragged int64 [N, None].
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


def compose(outer: Any, inner: Any) -> Any:
    """Composes the byte offsets of two consecutive rewriting steps of a text.

    Args:
        outer: Ragged int64 [N, bytes + 1], offsets in the intermediate text for each
            byte of the result.
        inner: Ragged int64 [N, bytes + 1], offsets in the original text for each byte
            of the intermediate text.

    Returns:
        Ragged int64 [N, bytes + 1], offsets in the original text for each byte of the
        result.
    """
    first = tf.gather(inner.row_splits, outer.value_rowids())
    return outer.with_values(tf.gather(inner.values, first + outer.values))


def in_characters(texts: Any, offsets: Any) -> Any:
    """Converts offsets in bytes to offsets in characters (code points), as Python counts them.

    Args:
        texts: string [N], UTF-8.
        offsets: Offsets in bytes, ragged int [N, None], each at the start of a
            character or at the end of the text.

    Returns:
        Offsets in characters, ragged int64 [N, None].
    """
    begins_character = tf.cast((_bytes(texts) & 0xC0) != 0x80, tf.int64)
    characters_before = tf.concat([[0], tf.cumsum(begins_character)], 0)
    first = tf.gather(_starts(texts), offsets.value_rowids())
    index = first + tf.cast(offsets.values, tf.int64)
    counts = tf.gather(characters_before, index) - tf.gather(characters_before, first)
    return offsets.with_values(counts)


def _bytes(texts: Any) -> Any:
    """Returns the bytes of all texts, concatenated: int32 [bytes]."""
    return tf.cast(tf.io.decode_raw(tf.strings.reduce_join(texts), tf.uint8), tf.int32)


def _starts(texts: Any) -> Any:
    """Returns the index of the first byte of each text in `_bytes`: int64 [N]."""
    return tf.cumsum(tf.cast(tf.strings.length(texts), tf.int64), exclusive=True)
