"""Normalized text to WordPiece ids, with the released limit of 200 characters a word.

Imports `tables`; TensorFlow and tensorflow_text.
"""

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text
from tensorflow_text.core.pybinds import pywrap_fast_wordpiece_tokenizer_model_builder as builder

from bert_tf.errors import InputError
from bert_tf.tokenization import tables

MAX_CHARACTERS = 200  # `max_input_chars_per_word` of the released WordpieceTokenizer
_MAX_BYTES = 4 * MAX_CHARACTERS
# Dropped by the rules from every text, so that no word holds it.
_NEVER_IN_WORDS = "\ufffd"


class WordPiece(tf.Module):
    """Greedy longest match first over the words of normalized text.

    The operation of tensorflow_text counts bytes where the released code counts characters. It
    runs with a limit of 200 bytes, which no word of up to 200 ASCII characters exceeds; the rare
    longer words come out unknown and are looked at again, in a branch of the graph.

    Args:
        tokens: The vocabulary, in the order of the ids.
        unk_id: Id of [UNK].
    """

    def __init__(self, tokens: Sequence[str], unk_id: int) -> None:
        super().__init__()
        try:
            buffer = builder.build_fast_wordpiece_model(
                _with_stand_ins(tokens), MAX_CHARACTERS, "##", tokens[unk_id], False, False
            )
        except RuntimeError as error:
            raise InputError(f"The vocabulary cannot be used: {error}") from error
        self._unk_id = unk_id
        self._limit_at = _limit_position(buffer)
        with tf.init_scope(), tf.device("cpu:0"):
            self._model = tf.constant(np.frombuffer(buffer, np.uint8))

    def __call__(self, texts: Any) -> tuple[Any, Any, Any]:
        """Ids, starts and ends in bytes of the normalized texts.

        Args:
            texts: string [N], normalized.

        Returns:
            Three ragged tensors [N, None]: ids int32, starts and ends int64.
        """
        ids, starts, ends = self._run(texts, self._model)
        flat = (ids.values, starts.values, ends.values, ids.row_splits)
        too_long = tf.reduce_max(ends.values - starts.values) > MAX_CHARACTERS
        *values, splits = tf.cond(too_long, lambda: self._look_again(texts, *flat), lambda: flat)
        ids, starts, ends = (
            tf.RaggedTensor.from_row_splits(each, splits, validate=False) for each in values
        )
        return ids, starts, ends

    def with_byte_limit(self, texts: Any) -> Any:
        """Ids only, int32 [N, None], with one limit of 800 bytes a word, whatever its characters.

        The limit lets through every word of 200 characters.
        """
        with tf.init_scope(), tf.device("cpu:0"):
            model = self._with_limit(_MAX_BYTES)
        ids, _, _ = self._run(texts, model)
        return ids

    def _run(self, texts: Any, model: Any) -> tuple[Any, Any, Any]:
        tokenizer = tf_text.FastWordpieceTokenizer(model_buffer=model, token_out_type=tf.int32)
        return tokenizer.tokenize_with_offsets(texts)

    def _look_again(self, texts: Any, ids: Any, starts: Any, ends: Any, splits: Any) -> Any:
        """Tokenizes the words over 200 bytes that have no more than 200 characters."""
        rows = tf.ragged.row_splits_to_segment_ids(splits)
        over = tf.where((ids == self._unk_id) & (ends - starts > MAX_CHARACTERS))[:, 0]
        start = tf.gather(starts, over)
        length = tf.gather(ends, over) - start
        words = tf.strings.substr(tf.gather(texts, tf.gather(rows, over)), start, length)
        short = tf.where(tf.strings.length(words, "UTF8_CHAR") <= MAX_CHARACTERS)[:, 0]
        over, start, words = (tf.gather(each, short) for each in (over, start, words))
        pieces = self._run(words, self._with_limit(_MAX_BYTES))
        pieces = (pieces[0], pieces[1] + start[:, None], pieces[2] + start[:, None])
        order = tf.tensor_scatter_nd_update(
            tf.range(tf.size(ids, tf.int64)),
            over[:, None],
            tf.size(ids, tf.int64) + tf.range(tf.size(over, tf.int64)),
        )
        merged = [
            tf.gather(tf.concat([tf.RaggedTensor.from_tensor(old[:, None]), new], 0), order)
            for old, new in zip((ids, starts, ends), pieces, strict=True)
        ]
        return (*(each.values for each in merged), tf.gather(merged[0].row_splits, splits))

    def _with_limit(self, limit_bytes: int) -> Any:
        """The model with another limit: the four bytes that hold it are replaced."""
        at = tf.range(self._limit_at, self._limit_at + 4)[:, None]
        limit = tf.constant(np.frombuffer(struct.pack("<i", limit_bytes), np.uint8))
        return tf.tensor_scatter_nd_update(self._model, at, limit)


def _with_stand_ins(tokens: Sequence[str]) -> list[str]:
    """The entries as the normalizer writes words.

    Those that hold a stand-in as a character of their own would be found in later punctuation.
    By the rules no word matches them: they get a name that none matches, each another.
    """
    stand_ins = dict(zip(tables.LATER_PUNCTUATION, tables.STAND_INS, strict=True))
    unmatched = {*map(chr, tables.STAND_INS), _NEVER_IN_WORDS}
    return [
        token.translate(stand_ins) if unmatched.isdisjoint(token) else f"{_NEVER_IN_WORDS}{index}"
        for index, token in enumerate(tokens)
    ]


def _limit_position(buffer: bytes) -> int:
    """Where a model buffer holds its limit: the field `max_bytes_per_token`, the fifth.

    Source: tensorflow_text `fast_wordpiece_tokenizer_model.fbs`; the flatbuffers encoding, where
    a table points back to the list of its fields' places.
    """
    (root,) = struct.unpack_from("<I", buffer, 0)
    (back,) = struct.unpack_from("<i", buffer, root)
    (field,) = struct.unpack_from("<H", buffer, root - back + 4 + 2 * 4)
    position = root + field
    if not field or struct.unpack_from("<i", buffer, position) != (MAX_CHARACTERS,):
        raise RuntimeError("tensorflow_text's WordPiece model has another layout than expected.")
    return position
