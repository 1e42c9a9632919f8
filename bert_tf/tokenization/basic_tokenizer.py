"""`BasicTokenizer`: cleans and lower-cases text, and splits it into words.

The functions after it map offsets in normalized text to the original text, and offsets
in bytes to characters. A span is the start and the exclusive end of a token in a text.
"""

from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from bert_tf.tokenization import rare_characters, unicode_tables
from bert_tf.tokenization.special_tokens import SpecialTokenFinder

# The normalizer puts no spaces around ASCII punctuation and CJK characters, since the
# WordPiece operation itself splits at these characters.
_WORDPIECE_SPLITS = (
    r"([!-/:-@\[-`{-~"
    + "".join(f"\\x{{{first:X}}}-\\x{{{last:X}}}" for first, last in unicode_tables.CJK)
    + "])"
)
# For each value of the first byte of a UTF-8 character, the length of the character in
# bytes; for continuation bytes 1. So `offset + length` is the end of the character,
# whether `offset` is that of the first byte or of the last byte of the character.
_LENGTHS = np.array([1] * 0xC0 + [2] * 0x20 + [3] * 0x10 + [4] * 0x10, np.int64)


class BasicTokenizer(tf.Module):
    """Splits texts into words by the rules of the released tokenizer.

    Args:
        do_lower_case: Whether to lower-case and remove accents.
        special_tokens: If given, special tokens in texts, such as `[MASK]`, become
            words. If None, special tokens are ordinary text.

    Source: google-research/bert `tokenization.BasicTokenizer`.
    """

    def __init__(
        self,
        do_lower_case: bool = True,
        special_tokens: SpecialTokenFinder | None = None,
    ) -> None:
        super().__init__(name="basic_tokenizer")
        self.do_lower_case = do_lower_case
        self.special_tokens = special_tokens
        self._ordinary_text = rare_characters.ordinary_text_pattern(do_lower_case)
        model = unicode_tables.load()["uncased" if do_lower_case else "cased"]
        with tf.init_scope(), tf.device("cpu:0"):
            self._normalizer = tf_text.FastBertNormalizer(
                model_buffer=tf.constant(model)
            )

    def words(self, texts: Any) -> Any:
        """Splits texts into words.

        Args:
            texts: string [N].

        Returns:
            Ragged string [N, None].
        """
        special = self.special_tokens
        normalized = self._normalize(
            special.replace_reversibly(texts) if special else texts
        )
        texts = tf.strings.regex_replace(normalized, _WORDPIECE_SPLITS, r" \1 ")

        # Put back the characters that the normalizer replaced, which are rare.
        found = tf.strings.regex_full_match(
            texts, f"(?s).*{rare_characters.placeholder_pattern()}.*"
        )
        texts = tf.cond(
            tf.reduce_any(found),
            lambda: rare_characters.restore_later_punctuation(texts),
            lambda: texts,
        )

        words = tf.strings.split(texts)  # ragged [N, words]
        return words.with_values(special.restore(words.values)) if special else words

    def normalize(self, texts: Any) -> Any:
        """Cleans and lower-cases texts, and puts spaces around punctuation.

        No spaces are put around ASCII punctuation and CJK characters, since `WordPiece`
        splits at these characters.

        Args:
            texts: string [N].

        Returns:
            string [N], the input of `WordPiece`.
        """
        return self._normalize(
            self.special_tokens.replace(texts) if self.special_tokens else texts
        )

    def _normalize(self, texts: Any) -> Any:
        rare = self._has_rare_characters(texts)  # [N]

        def with_rewriting() -> Any:
            rows = tf.where(rare)  # [R, 1]
            rewritten = rare_characters.rewrite(
                tf.gather_nd(texts, rows), self.do_lower_case
            )
            return tf.tensor_scatter_nd_update(texts, rows, rewritten)

        texts = tf.cond(tf.reduce_any(rare), with_rewriting, lambda: texts)
        return self.normalize_characters(texts)

    def normalize_with_offsets(self, texts: Any) -> tuple[Any, Any]:
        """Normalizes texts as `normalize` does, and returns the origin of each byte.

        Args:
            texts: string [N].

        Returns:
            The normalized texts, string [N], and the origin of each of their bytes,
            ragged int64 [N, bytes + 1]. The argument `origins` of `offsets_in_original`
            defines an origin.
        """
        if self.special_tokens:
            texts = self.special_tokens.replace(texts)

        def with_rewriting() -> tuple[Any, Any]:
            rewritten, inner = rare_characters.rewrite_with_offsets(
                texts, self.do_lower_case
            )
            normalized, outer = self._normalizer.normalize_with_offsets(rewritten)
            return normalized, compose_offsets(outer, inner)

        return tf.cond(
            tf.reduce_any(self._has_rare_characters(texts)),
            with_rewriting,
            lambda: self._normalizer.normalize_with_offsets(texts),
        )

    def normalize_characters(self, texts: Any) -> Any:
        """Normalizes each character alone, without the rules of `rare_characters`."""
        return self._normalizer.normalize(texts)

    def _has_rare_characters(self, texts: Any) -> Any:
        return ~tf.strings.regex_full_match(texts, self._ordinary_text)


def offsets_in_original(
    texts: Any, origins: Any, starts: Any, ends: Any
) -> tuple[Any, Any]:
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
    # For each of the T tokens of all texts, [T]: where the row of its text begins in
    # the values of `origins`, and in the bytes of all texts.
    rows = starts.value_rowids()
    first_origin = tf.gather(origins.row_splits, rows)
    first_byte = tf.gather(_starts(texts), rows)

    # [T]: the origins of its first and last byte, and of the byte after it.
    start = tf.gather(origins.values, first_origin + starts.values)
    last = tf.gather(origins.values, first_origin + ends.values - 1)
    following = tf.gather(origins.values, first_origin + ends.values)

    # The token ends with the character of its last byte, or later.
    last_length = tf.gather(_LENGTHS, tf.gather(_bytes(texts), first_byte + last))
    end = tf.maximum(following, last + last_length)
    return starts.with_values(start), ends.with_values(end)


def compose_offsets(outer: Any, inner: Any) -> Any:
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


def offsets_in_characters(texts: Any, offsets: Any) -> Any:
    """Converts offsets in bytes to offsets in characters, as Python counts them.

    Args:
        texts: string [N], UTF-8.
        offsets: Offsets in bytes, ragged int [N, None], each at the start of a
            character or at the end of the text.

    Returns:
        Offsets in characters, ragged int64 [N, None].
    """
    # For each byte of all texts, the number of characters that begin before it. Bytes
    # 0b10xxxxxx continue a character.
    begins_character = tf.cast((_bytes(texts) & 0xC0) != 0x80, tf.int64)  # [bytes]
    characters_before = tf.concat([[0], tf.cumsum(begins_character)], 0)

    # For each of the T offsets: the first byte of its text, and its own byte.
    first = tf.gather(_starts(texts), offsets.value_rowids())  # [T]
    index = first + tf.cast(offsets.values, tf.int64)
    counts = tf.gather(characters_before, index) - tf.gather(characters_before, first)
    return offsets.with_values(counts)


def _bytes(texts: Any) -> Any:
    """Returns the bytes of all texts, concatenated: int32 [bytes]."""
    return tf.cast(tf.io.decode_raw(tf.strings.reduce_join(texts), tf.uint8), tf.int32)


def _starts(texts: Any) -> Any:
    """Returns the index of the first byte of each text in `_bytes`: int64 [N]."""
    return tf.cumsum(tf.cast(tf.strings.length(texts), tf.int64), exclusive=True)
