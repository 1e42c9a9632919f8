"""`BasicTokenizer`: text to words, in the graph: cleaned, lower-cased, split at punctuation.

Imports `offsets`, `rare`, `tables`; TensorFlow and tensorflow_text.
"""

import re
from typing import Any

import tensorflow as tf
import tensorflow_text as tf_text

from bert_tf.tokenization import offsets, rare, tables
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
# ASCII punctuation and CJK: the normalizer leaves it to the WordPiece operation to isolate them.
_ISOLATED = r"([!-/:-@\[-`{-~" + "".join(f"\\x{{{a:X}}}-\\x{{{b:X}}}" for a, b in tables.CJK) + "])"


class BasicTokenizer(tf.Module):
    """Splits texts into words by the released rules.

    Args:
        do_lower_case: Whether to lower-case and drop accents.
        special_tokens_in_text: Whether `[MASK]` and its like become the marks that stand for the
            special tokens (`tables.SPECIAL_TOKEN_MARKS`).

    Source: google-research/bert `tokenization.BasicTokenizer`.
    """

    def __init__(self, do_lower_case: bool = True, special_tokens_in_text: bool = False) -> None:
        super().__init__(name="basic_tokenizer")
        self.do_lower_case = do_lower_case
        self.special_tokens_in_text = special_tokens_in_text
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
        texts = tf.strings.regex_replace(self.normalize(texts), _ISOLATED, r" \1 ")
        found = tf.strings.regex_full_match(texts, f"(?s).*{rare.stand_ins()}.*")
        texts = tf.cond(tf.reduce_any(found), lambda: rare.without_stand_ins(texts), lambda: texts)
        return tf.strings.split(texts)

    def normalize(self, texts: Any) -> Any:
        """The words with blanks between them, but for ASCII punctuation and CJK.

        Args:
            texts: string [N].

        Returns:
            string [N], what `WordPiece` takes.
        """
        if self.special_tokens_in_text:
            texts = _mark_special_tokens(texts)
        rare_rows = tf.where(self._has_rare_cases(texts))

        def rewritten() -> Any:
            prepared = rare.prepare(tf.gather_nd(texts, rare_rows), self.do_lower_case)
            return tf.tensor_scatter_nd_update(texts, rare_rows, prepared)

        texts = tf.cond(tf.size(rare_rows) > 0, rewritten, lambda: texts)
        return self.normalize_characters(texts)

    def normalize_with_offsets(self, texts: Any) -> tuple[Any, Any]:
        """As `normalize`, and where each byte comes from.

        Args:
            texts: string [N].

        Returns:
            The normalized texts, string [N], and their origins in the texts, as in
            `offsets.in_original`, ragged int64 [N, bytes + 1].
        """
        if self.special_tokens_in_text:
            texts = _mark_special_tokens(texts)

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


def as_batch(texts: Any) -> tuple[Any, bool]:
    """What a user gives as texts: string [N], and whether it was a single text.

    Args:
        texts: A str, a list of str, a numpy array or a string tensor, of rank 1 or 0.
    """
    try:
        texts = tf.convert_to_tensor(texts, tf.string)
    except ValueError:  # TensorFlow's word for a str that is not valid Unicode
        texts = tf.constant(_without_surrogates(texts), tf.string)
    if texts.shape.rank == 0:
        return texts[None], True
    return tf.ensure_shape(texts, [None]), False


def _without_surrogates(texts: Any) -> Any:
    """Half a surrogate pair, not part of UTF-8, becomes another character that has no meaning."""
    if isinstance(texts, str):
        return _LONE_SURROGATE.sub("\uffff", texts)
    return texts if isinstance(texts, bytes) else [_without_surrogates(text) for text in texts]


def _mark_special_tokens(texts: Any) -> Any:
    """Puts a mark, which the vocabulary knows, and blanks for each special token.

    The length stays as it is, so that offsets do.
    """
    marks = "".join(map(chr, tables.SPECIAL_TOKEN_MARKS))
    texts = tf.strings.regex_replace(texts, f"[{marks}]", "\U0010ffff")
    for token, mark in zip(SPECIAL_TOKENS, marks, strict=True):
        blanks = " " * (len(token) - len(mark.encode()))
        texts = tf.strings.regex_replace(texts, re.escape(token), mark + blanks)
    return texts
