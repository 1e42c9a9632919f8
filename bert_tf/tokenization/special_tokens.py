"""`[MASK]` and its like in a text as the special tokens themselves, where that is asked for.

A special token parts a text as a blank does: what stands before it and behind it is tokenized as
if each were a text of its own. For the time of the work a mark with blanks around it stands in for
the token: a character of private use that the vocabulary does not hold.
Imports `vocabulary`; TensorFlow.
"""

import re
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from bert_tf.errors import InputError
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS

# Each takes 3 bytes, so that a blank, a mark and a blank are no longer than the shortest token.
_PRIVATE_USE = range(0xE000, 0xF900)


class SpecialTokensInText:
    """Finds the special tokens in texts.

    A text may hold the marks' characters itself: one more character, which the vocabulary does
    not hold either and which the rules treat alike, stands in for them.

    Args:
        tokens: The vocabulary.

    Attributes:
        marks: What stands for the special tokens, in their order: characters that no entry of the
            vocabulary holds.

    Raises:
        InputError: The vocabulary holds nearly all 6,400 characters of private use.
    """

    def __init__(self, tokens: Iterable[str] = ()) -> None:
        held = set().union(*tokens)
        free = [chr(code) for code in _PRIVATE_USE if chr(code) not in held]
        if len(free) <= len(SPECIAL_TOKENS):
            raise InputError(
                f"special_tokens_in_text needs {len(SPECIAL_TOKENS) + 1} characters of U+E000 to "
                f"U+F8FF that the vocabulary does not hold. It leaves {len(free)}. Remove some."
            )
        self.marks = free[: len(SPECIAL_TOKENS)]
        self._other = free[len(SPECIAL_TOKENS)]

    def marked(self, texts: Any) -> Any:
        """Puts a blank, the mark and blanks for each special token.

        Args:
            texts: string [N].

        Returns:
            string [N], of the same lengths in bytes.
        """
        texts = tf.strings.regex_replace(texts, f"[{''.join(self.marks)}]", self._other)
        return self._with_marks(texts)

    def marked_for_words(self, texts: Any) -> Any:
        """As `marked`, with lengths that change, and nothing lost: see `restored`.

        Args:
            texts: string [N].

        Returns:
            string [N].
        """
        for index, character in enumerate([self._other, *self.marks]):
            texts = tf.strings.regex_replace(texts, character, f"{self._other}{index}")
        return self._with_marks(texts)

    def restored(self, words: Any) -> Any:
        """What stood in the text where `marked_for_words` put something else.

        Args:
            words: string [W].

        Returns:
            string [W].
        """
        for token, mark in zip(SPECIAL_TOKENS, self.marks, strict=True):
            words = tf.strings.regex_replace(words, mark, token)
        for index, character in reversed([*enumerate([self._other, *self.marks])]):
            words = tf.strings.regex_replace(words, f"{self._other}{index}", character)
        return words

    def spans(self, pieces: Any, starts: Any, ends: Any) -> tuple[Any, Any]:
        """Widens the span of each mark to that of the token for which it stands.

        Args:
            pieces: string [T], the normalized text of each token.
            starts: int64 [T], in bytes of the text.
            ends: int64 [T].

        Returns:
            Starts and ends, int64 [T].
        """
        lengths = tf.zeros_like(starts)
        for token, mark in zip(SPECIAL_TOKENS, self.marks, strict=True):
            lengths += tf.where(pieces == mark, tf.constant(len(token), tf.int64), 0)
        starts -= tf.cast(lengths > 0, tf.int64)  # the blank before the mark
        return starts, tf.where(lengths > 0, starts + lengths, ends)

    def _with_marks(self, texts: Any) -> Any:
        for token, mark in zip(SPECIAL_TOKENS, self.marks, strict=True):
            blanks = " " * (len(token) - len(f" {mark}".encode()))
            texts = tf.strings.regex_replace(texts, re.escape(token), f" {mark}{blanks}")
        return texts
