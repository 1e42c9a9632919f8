"""`word_effects`: the change of a classifier's answer when a word is left out."""

import re
import string
from collections.abc import Sequence
from typing import Any, NamedTuple

from bert_tf.errors import InputError
from bert_tf.export.predictor import Predictor
from bert_tf.tokenization.unicode_tables import CJK

_MAX_PARTS = 200  # parts of a text that are left out, one after the other
_CHINESE = "".join(f"{chr(first)}-{chr(last)}" for first, last in CJK)
_MARKS = re.escape(
    f"{string.punctuation}“”„‘’«»‹›…–—¿¡·、。，！？；：（）「」『』《》【】।،؟؛"
)
_LETTERS = rf"[^\s{_CHINESE}{_MARKS}]+"
_WORD = re.compile(rf"[{_CHINESE}]|{_LETTERS}(?:['’.-]{_LETTERS})*")
# Begins with a word, so that each word is in a sentence.
_SENTENCE = re.compile(
    rf"[^\s{_MARKS}].*?(?:[.!?]+[\"'”’)]*(?=\s)|[。！？]|$)", re.MULTILINE
)
# The index of a text, and the first character and the end of a part of it.
_Part = tuple[int, int, int]


class WordEffect(NamedTuple):
    """A word of a text, and the effect of the word on the answer of a model.

    Attributes:
        name: The name of the text in `Predictor.names`, such as "text".
        word: The word, without punctuation around it; or several words of a long text.
        start, end: The word is `text[start:end]`, in characters.
        effect: The probability of the answer to the texts, or the score, minus the
            probability of the same answer, or the score, without the word. A positive
            value means that the word supports the answer.
    """

    name: str
    word: str
    start: int
    end: int
    effect: float


def word_effects(predictor: Predictor, *texts: str) -> list[WordEffect]:
    """Returns how much each word changes the answer of a classifier.

    Each word is left out once, and the model predicts the rest of the text. The words
    are separated by white space and punctuation; each Chinese character is a word. The
    answer is the most probable label of the texts, also of a multi-label classifier.

    The numbers describe this model and this text: a change of the answer, not a cause.
    Two words with the same meaning can both have the effect 0, and a text without a
    word can be unlike all texts of the training.

    If a text has more than 200 words, first each sentence is left out, and then each
    word of the sentence with the largest effect. If there are more than 200 sentences,
    or more than 200 words in this sentence, several successive ones are left out
    together. If the model truncates a text, words behind its limit have no effect, and
    without a word before it, the model reads one more word at the end.

    Source: Li, Monroe and Jurafsky (2016), "Understanding Neural Networks through
    Representation Erasure", arXiv:1612.08220.

    Args:
        predictor: A classifier or a regression model, in any format.
        *texts: The value of each name in `predictor.names`, a text or a pair.

    Returns:
        The words in the order of the texts; [] if there are none.

    Raises:
        InputError: The model is for another task, or `Predictor` raises it.
    """
    answer = predictor(*texts)
    values = _values(answer)
    label = next(iter(values))

    def effects(parts: Sequence[_Part]) -> list[WordEffect]:
        columns = [
            [
                text[:start] + text[end:] if row == index else text
                for row, start, end in parts
            ]
            for index, text in enumerate(texts)
        ]
        return [
            WordEffect(
                predictor.names[row],
                texts[row][start:end],
                start,
                end,
                values[label] - _values(other)[label],
            )
            for (row, start, end), other in zip(parts, predictor(*columns), strict=True)
        ]

    if max(len(_WORD.findall(text)) for text in texts) <= _MAX_PARTS:
        return effects(_parts(_WORD, texts))

    # The strongest sentence is replaced by its words.
    sentences = _parts(_SENTENCE, texts)
    found = effects(sentences)
    strongest = max(range(len(found)), key=lambda number: abs(found[number].effect))
    row, start, end = sentences[strongest]
    without_rest = ["" if n != row else text[:end] for n, text in enumerate(texts)]
    found[strongest : strongest + 1] = effects(_parts(_WORD, without_rest, start))
    return found


def _parts(
    pattern: re.Pattern[str], texts: Sequence[str], start: int = 0
) -> list[_Part]:
    """Finds a pattern in each text, from the character `start`.

    If there are more than `_MAX_PARTS` places in a text, as many successive places as
    necessary are put together.
    """
    parts = []
    for row, text in enumerate(texts):
        places = [match.span() for match in pattern.finditer(text, start)]
        size = -(-len(places) // _MAX_PARTS) or 1
        for first in range(0, len(places), size):
            group = places[first : first + size]
            parts.append((row, group[0][0], group[-1][1]))
    return parts


def _values(prediction: Any) -> Any:
    """Returns the probabilities of the labels, best first, or the score of regression."""
    if isinstance(prediction, dict):
        if prediction.keys() <= {"score", "truncated"}:
            return prediction
        probabilities = prediction.get("probabilities")
        if isinstance(probabilities, dict):
            return probabilities
    raise InputError(
        "word_effects takes one text, or one pair, for a model of classification or "
        f"regression. This model returned {prediction!r:.60}. Give one text, or another model."
    )
