"""`BasicTokenizer`: splits text into words in the graph (cleaning, lower-casing, punctuation)."""

from typing import Any

import tensorflow as tf
import tensorflow_text as tf_text

from bert_tf.tokenization import offsets, rare_characters, unicode_tables
from bert_tf.tokenization.special_tokens import SpecialTokenFinder

# The normalizer puts no spaces around ASCII punctuation and CJK characters, since the
# WordPiece operation itself splits at these characters.
_WORDPIECE_SPLITS = (
    r"([!-/:-@\[-`{-~"
    + "".join(f"\\x{{{first:X}}}-\\x{{{last:X}}}" for first, last in unicode_tables.CJK)
    + "])"
)


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
        found = tf.strings.regex_full_match(
            texts, f"(?s).*{rare_characters.placeholder_pattern()}.*"
        )
        texts = tf.cond(
            tf.reduce_any(found),
            lambda: rare_characters.restore_later_punctuation(texts),
            lambda: texts,
        )
        words = tf.strings.split(texts)
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
        rare = self._has_rare_characters(texts)

        def with_rewriting() -> Any:
            rows = tf.where(rare)
            rewritten = rare_characters.rewrite(
                tf.gather_nd(texts, rows), self.do_lower_case
            )
            return tf.tensor_scatter_nd_update(texts, rows, rewritten)

        texts = tf.cond(tf.reduce_any(rare), with_rewriting, lambda: texts)
        return self.normalize_characters(texts)

    def normalize_with_offsets(self, texts: Any) -> tuple[Any, Any]:
        """Normalizes texts as `normalize` does, and returns the origin of each byte of the result.

        Args:
            texts: string [N].

        Returns:
            The normalized texts, string [N], and the origin of each of their bytes,
            ragged int64 [N, bytes + 1]. The argument `origins` of `offsets.in_original`
            defines an origin.
        """
        if self.special_tokens:
            texts = self.special_tokens.replace(texts)

        def with_rewriting() -> tuple[Any, Any]:
            rewritten, inner = rare_characters.rewrite_with_offsets(
                texts, self.do_lower_case
            )
            normalized, outer = self._normalizer.normalize_with_offsets(rewritten)
            return normalized, offsets.compose(outer, inner)

        return tf.cond(
            tf.reduce_any(self._has_rare_characters(texts)),
            with_rewriting,
            lambda: self._normalizer.normalize_with_offsets(texts),
        )

    def normalize_characters(self, texts: Any) -> Any:
        """Normalizes each character by itself, without the rules of `rare_characters`."""
        return self._normalizer.normalize(texts)

    def _has_rare_characters(self, texts: Any) -> Any:
        return ~tf.strings.regex_full_match(texts, self._ordinary_text)
