"""`WordPiece`: splits normalized text into tokens; words of over 200 characters are [UNK]."""

import functools
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text
from tensorflow_text.core.pybinds import (
    pywrap_fast_wordpiece_tokenizer_model_builder as builder,
)

from bert_tf.tokenization import unicode_tables

MAX_CHARACTERS = 200  # `max_input_chars_per_word` of the released WordpieceTokenizer
_MAX_BYTES = 4 * MAX_CHARACTERS
# Text cleaning removes this character from every text, so no word contains this
# character.
_NEVER_IN_WORDS = "\ufffd"


class WordPiece(tf.Module):
    """Splits the words of normalized text into tokens, the longest match first.

    The released code limits the number of characters of a word. The operation of
    tensorflow_text limits the number of bytes of a word. The operation runs with a
    limit of 200 bytes, and returns [UNK] for words with more bytes. No word of up to
    200 ASCII characters exceeds this limit. If a batch has words of more than 200
    bytes, a branch of the graph tokenizes those words again with a higher limit.
    """

    def __init__(self, tokens: Sequence[str], unk_id: int) -> None:
        super().__init__()
        self._unk_id = unk_id

        buffer = _built_model(tuple(tokens), tokens[unk_id])

        # The graph holds the model once, with a limit of 200 bytes; the model with
        # another limit is computed from it.
        self._limit_position = _limit_position(buffer)
        with tf.init_scope(), tf.device("cpu:0"):
            self._model = tf.constant(np.frombuffer(buffer, np.uint8))

    def __call__(self, texts: Any) -> tuple[Any, Any, Any]:
        """Splits normalized texts, string [N], into tokens.

        Returns:
            Ids (int32), starts and exclusive ends (int64, in bytes of the normalized
            texts): three ragged tensors [N, None].
        """
        ids, starts, ends = _tokenize(texts, self._model)  # ragged [N, tokens]
        tokens = (ids.values, starts.values, ends.values, ids.row_splits)

        # Only a word that became one [UNK] can be a token of more than 200 bytes.
        too_long = tf.reduce_max(ends.values - starts.values) > MAX_CHARACTERS
        *values, splits = tf.cond(
            too_long,
            lambda: _retokenize(
                self._model_with_byte_limit(), texts, *tokens, self._unk_id
            ),
            lambda: tokens,
        )

        ids, starts, ends = (
            tf.RaggedTensor.from_row_splits(tensor, splits, validate=False)
            for tensor in values
        )
        return ids, starts, ends

    def with_byte_limit(self, texts: Any) -> Any:
        """Returns ids, ragged int32 [N, None]; words of over 800 bytes become [UNK].

        The limit of 800 bytes accepts every word of up to 200 characters, and some
        longer words.
        """
        with tf.init_scope(), tf.device("cpu:0"):
            model = self._model_with_byte_limit()
        ids, _, _ = _tokenize(texts, model)
        return ids

    def _model_with_byte_limit(self) -> Any:
        """Returns the model with a limit of 800 bytes, by replacing the four bytes of its limit."""
        indices = tf.range(self._limit_position, self._limit_position + 4)[:, None]
        limit = tf.constant(np.frombuffer(struct.pack("<i", _MAX_BYTES), np.uint8))
        return tf.tensor_scatter_nd_update(self._model, indices, limit)


# A run, its checkpoints and its export have tokenizers of the same vocabulary.
@functools.lru_cache(maxsize=4)
def _built_model(tokens: tuple[str, ...], unk_token: str) -> bytes:
    """Returns the WordPiece model of a vocabulary; it takes about 0.1 seconds."""
    return builder.build_fast_wordpiece_model(
        _with_placeholders(tokens), MAX_CHARACTERS, "##", unk_token, False, False
    )


def _tokenize(texts: Any, model: Any) -> tuple[Any, Any, Any]:
    tokenizer = tf_text.FastWordpieceTokenizer(
        model_buffer=model, token_out_type=tf.int32
    )
    return tokenizer.tokenize_with_offsets(texts)


# Tracing takes long, so all graphs of a process call one graph of this function. Its
# operations run on the device of the call.
@tf.function(
    input_signature=[
        tf.TensorSpec([None], dtype)
        for dtype in (tf.uint8, tf.string, tf.int32, tf.int64, tf.int64, tf.int64)
    ]
    + [tf.TensorSpec([], tf.int32)],
    autograph=False,
)
def _retokenize(
    model: Any, texts: Any, ids: Any, starts: Any, ends: Any, splits: Any, unk_id: Any
) -> Any:
    """Tokenizes again the words of more than 200 bytes and at most 200 characters.

    `model` is the WordPiece model with a limit of 800 bytes. `ids`, `starts` and `ends`
    of shape [T], and the row splits, `splits`, of shape [N + 1], describe the T tokens
    of N texts. Words to tokenize again have the id of [UNK]. The result is these four
    arguments with the new tokens in place of [UNK].
    """
    # The words of more than 200 bytes: the index of their [UNK], their start in
    # bytes and their text, each [words].
    rows = tf.ragged.row_splits_to_segment_ids(splits)  # [T]
    long = tf.where((ids == unk_id) & (ends - starts > MAX_CHARACTERS))[:, 0]
    start = tf.gather(starts, long)
    length = tf.gather(ends, long) - start
    words = tf.strings.substr(tf.gather(texts, tf.gather(rows, long)), start, length)

    # Of these, the L words of at most 200 characters.
    characters = tf.strings.length(words, "UTF8_CHAR")
    allowed = tf.where(characters <= MAX_CHARACTERS)[:, 0]  # [L]
    long, start, words = (tf.gather(values, allowed) for values in (long, start, words))

    # Their tokens, [M], with starts and ends in bytes of the texts.
    pieces = _tokenize(words, model)
    shift = tf.gather(start, pieces[0].value_rowids())
    new = (pieces[0].values, pieces[1].values + shift, pieces[2].values + shift)

    # [T]: the number of tokens that take the place of each token, and whether they
    # are new ones. Operations of ragged tensors would double the size of the
    # tokenizer's graph.
    positions = long[:, None]
    counts = tf.tensor_scatter_nd_update(
        tf.ones_like(starts), positions, pieces[0].row_lengths()
    )
    is_replaced = tf.tensor_scatter_nd_update(
        tf.zeros_like(ids, tf.bool), positions, tf.ones_like(long, tf.bool)
    )

    # Repeat the old tokens, and write the new ones over the copies of [UNK].
    source = tf.repeat(tf.range(tf.size(ids)), counts)  # [T - L + M]
    new_positions = tf.where(tf.gather(is_replaced, source))  # [M, 1]
    merged = [
        tf.tensor_scatter_nd_update(tf.gather(old, source), new_positions, values)
        for old, values in zip((ids, starts, ends), new, strict=True)
    ]
    return (*merged, tf.gather(tf.pad(tf.cumsum(counts), [[1, 0]]), splits))


def _with_placeholders(tokens: Sequence[str]) -> list[str]:
    """Replaces `LATER_PUNCTUATION` in tokens with placeholders, as the normalizer does.

    By the released rules, some tokens never match a word. Each of them is replaced by a
    unique string that no word contains. They are: a token that contains a placeholder
    character, which would match a replaced character in a text; an empty token; all but
    the last of equal tokens; and a token that contains a space, which the WordPiece
    operation would match across two words.
    """
    placeholders = unicode_tables.PLACEHOLDERS
    replacements = dict(
        zip(unicode_tables.LATER_PUNCTUATION, placeholders, strict=True)
    )
    unmatched = {*map(chr, placeholders), _NEVER_IN_WORDS, " "}
    ids = {token: index for index, token in enumerate(tokens) if token}
    return [
        token.translate(replacements)
        if ids.get(token) == index and unmatched.isdisjoint(token)
        else f"{_NEVER_IN_WORDS}{index}"
        for index, token in enumerate(tokens)
    ]


def _limit_position(buffer: bytes) -> int:
    """Returns the position in a WordPiece model, a flatbuffer, of its limit of bytes.

    The limit of bytes per token is the fifth field, `max_bytes_per_token`.

    Source: tensorflow_text `fast_wordpiece_tokenizer_model.fbs`. In the flatbuffers
    encoding, a table refers to a list of the positions of its fields.
    """
    (root,) = struct.unpack_from("<I", buffer, 0)
    (back,) = struct.unpack_from("<i", buffer, root)
    (field,) = struct.unpack_from("<H", buffer, root - back + 4 + 2 * 4)
    position = root + field
    if not field or struct.unpack_from("<i", buffer, position) != (MAX_CHARACTERS,):
        raise RuntimeError(
            "tensorflow_text's WordPiece model has another layout than expected."
        )
    return position
