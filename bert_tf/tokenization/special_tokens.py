"""`SpecialTokenFinder`: finds `[MASK]` and the other special tokens in texts.

A special token separates words as a space does: the text before the token and the text
after it are tokenized independently. During tokenization the token is replaced by a
placeholder between spaces. The placeholders are private-use characters that the
vocabulary does not contain.
"""

import re
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS

# Each of these characters has 3 bytes in UTF-8, so that a placeholder between two
# spaces has the 5 bytes of "[PAD]".
_PRIVATE_USE = range(0xE000, 0xF900)


class SpecialTokenFinder:
    """Replaces special tokens in texts with placeholders.

    If a text already contains a character that serves as a placeholder, another
    private-use character, the substitute, replaces it. The tokenizer's rules treat both
    characters alike, and the vocabulary contains neither. The dict `placeholders` maps
    each special token, in the order of `SPECIAL_TOKENS`, to its placeholder.
    """

    def __init__(self, tokens: Iterable[str]) -> None:
        used = set().union(*tokens)
        free = [chr(code) for code in _PRIVATE_USE if chr(code) not in used]
        *placeholders, substitute = free[: len(SPECIAL_TOKENS) + 1]
        self.placeholders = dict(zip(SPECIAL_TOKENS, placeholders, strict=True))
        self._substitute = substitute
        # The characters that `replace_reversibly` writes as the substitute and a digit.
        self._numbered = list(enumerate([substitute, *placeholders]))

    def replace(self, texts: Any) -> Any:
        """Replaces each special token with a space, its placeholder and spaces.

        Each text of `texts`, string [N], keeps its length in bytes.
        """
        pattern = f"[{''.join(self.placeholders.values())}]"
        return self._insert_placeholders(
            tf.strings.regex_replace(texts, pattern, self._substitute)
        )

    def replace_reversibly(self, texts: Any) -> Any:
        """Replaces special tokens so that `restore` can restore the text, but not its length."""
        for index, character in self._numbered:
            texts = tf.strings.regex_replace(
                texts, character, f"{self._substitute}{index}"
            )
        return self._insert_placeholders(texts)

    def restore(self, words: Any) -> Any:
        """Reverses `replace_reversibly` in words, string [W], of the texts that it returned."""
        for token, placeholder in self.placeholders.items():
            words = tf.strings.regex_replace(words, placeholder, token)

        # In the opposite order, so that each step sees the result of its own step.
        for index, character in reversed(self._numbered):
            words = tf.strings.regex_replace(
                words, f"{self._substitute}{index}", character
            )
        return words

    def widen_spans(self, pieces: Any, starts: Any, ends: Any) -> tuple[Any, Any]:
        """Widens the span of each placeholder to the span of its special token.

        `pieces`, string [T], is the normalized text of each token. `starts` and the
        exclusive `ends` of their spans are int64 [T], in bytes of the text.
        """
        # The length of the special token of each placeholder; 0 for other tokens.
        lengths = tf.zeros_like(starts)  # [T]
        for token, placeholder in self.placeholders.items():
            lengths += tf.where(
                pieces == placeholder, tf.constant(len(token), tf.int64), 0
            )

        starts -= tf.cast(lengths > 0, tf.int64)  # the space before the placeholder
        return starts, tf.where(lengths > 0, starts + lengths, ends)

    def _insert_placeholders(self, texts: Any) -> Any:
        for token, placeholder in self.placeholders.items():
            spaces = " " * (len(token) - len(f" {placeholder}".encode()))
            texts = tf.strings.regex_replace(
                texts, re.escape(token), f" {placeholder}{spaces}"
            )
        return texts
