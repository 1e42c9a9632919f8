"""`BasicTokenizer`: text to words, in the graph: cleaned, lower-cased, split at punctuation.

Imports `offsets`, `rare`, `special_tokens`, `tables`; TensorFlow and tensorflow_text.
"""

from typing import Any

import tensorflow as tf
import tensorflow_text as tf_text

from bert_tf.tokenization import offsets, rare, tables
from bert_tf.tokenization.special_tokens import SpecialTokensInText

# ASCII punctuation and CJK: the normalizer leaves it to the WordPiece operation to isolate them.
_ISOLATED = r"([!-/:-@\[-`{-~" + "".join(f"\\x{{{a:X}}}-\\x{{{b:X}}}" for a, b in tables.CJK) + "])"


class BasicTokenizer(tf.Module):
    """Splits texts into words by the released rules.

    Args:
        do_lower_case: Whether to lower-case and drop accents.
        special_tokens: Finds `[MASK]` and its like, which are then words of their own; None leaves
            them ordinary text.

    Source: google-research/bert `tokenization.BasicTokenizer`.
    """

    def __init__(
        self, do_lower_case: bool = True, special_tokens: SpecialTokensInText | None = None
    ) -> None:
        super().__init__(name="basic_tokenizer")
        self.do_lower_case = do_lower_case
        self.special_tokens = special_tokens
        self._ordinary = rare.ordinary_text(do_lower_case)
        model = tables.load()["uncased" if do_lower_case else "cased"]
        with tf.init_scope(), tf.device("cpu:0"):
            self._normalizer = tf_text.FastBertNormalizer(model_buffer=tf.constant(model))

    def words(self, texts: Any) -> Any:
        """The words.

        Args:
            texts: string [N].

        Returns:
            Ragged string [N, None].
        """
        special = self.special_tokens
        normalized = self._normalize(special.marked_for_words(texts) if special else texts)
        texts = tf.strings.regex_replace(normalized, _ISOLATED, r" \1 ")
        found = tf.strings.regex_full_match(texts, f"(?s).*{rare.stand_ins()}.*")
        texts = tf.cond(tf.reduce_any(found), lambda: rare.without_stand_ins(texts), lambda: texts)
        words = tf.strings.split(texts)
        return words.with_values(special.restored(words.values)) if special else words

    def normalize(self, texts: Any) -> Any:
        """The words with blanks between them, but for ASCII punctuation and CJK.

        Args:
            texts: string [N].

        Returns:
            string [N], what `WordPiece` takes.
        """
        return self._normalize(self.special_tokens.marked(texts) if self.special_tokens else texts)

    def _normalize(self, texts: Any) -> Any:
        found = self._has_rare_cases(texts)

        def rewritten() -> Any:
            rare_rows = tf.where(found)
            prepared = rare.prepare(tf.gather_nd(texts, rare_rows), self.do_lower_case)
            return tf.tensor_scatter_nd_update(texts, rare_rows, prepared)

        texts = tf.cond(tf.reduce_any(found), rewritten, lambda: texts)
        return self.normalize_characters(texts)

    def normalize_with_offsets(self, texts: Any) -> tuple[Any, Any]:
        """As `normalize`, and where each byte comes from.

        Args:
            texts: string [N].

        Returns:
            The normalized texts, string [N], and their origins in the texts, as in
            `offsets.in_original`, ragged int64 [N, bytes + 1].
        """
        if self.special_tokens:
            texts = self.special_tokens.marked(texts)

        def rewritten() -> tuple[Any, Any]:
            prepared, inner = rare.prepare_with_offsets(texts, self.do_lower_case)
            normalized, outer = self._normalizer.normalize_with_offsets(prepared)
            return normalized, offsets.composed(outer, inner)

        return tf.cond(
            tf.reduce_any(self._has_rare_cases(texts)),
            rewritten,
            lambda: self._normalizer.normalize_with_offsets(texts),
        )

    def normalize_characters(self, texts: Any) -> Any:
        """As `normalize`, without the rules that look at more than one character."""
        return self._normalizer.normalize(texts)

    def _has_rare_cases(self, texts: Any) -> Any:
        return ~tf.strings.regex_full_match(texts, self._ordinary)
