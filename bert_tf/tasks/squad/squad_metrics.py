"""The official metrics of SQuAD 1.1 and 2.0: exact match (EM) and F1.

F1 by characters, for languages without blanks between words, is that of KorQuAD 1.0.
"""

import collections
import re
import string
from collections.abc import Sequence

import numpy as np

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_KOREAN_PUNCTUATION = str.maketrans("", "", string.punctuation + "《》〈〉‘’")


def normalize(text: str) -> str:
    """Lower-cases a text, and removes punctuation, articles and repeated white space.

    Source: `normalize_answer` of the official evaluation scripts.
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(prediction: str, answer: str) -> float:
    """Returns 1.0 if both texts are equal after normalization, else 0.0."""
    return float(normalize(prediction) == normalize(answer))


def _words(text: str) -> Sequence[str]:
    return normalize(text).split()


def _characters(text: str) -> Sequence[str]:
    """Returns the characters in lower case, without punctuation and white space.

    Source: `normalize_answer` and `f1_score` of the official script of KorQuAD 1.0.
    """
    return "".join(text.lower().translate(_KOREAN_PUNCTUATION).split())


# Functions that split a text into the units that F1 compares.
UNITS = {"words": _words, "characters": _characters}


def f1(prediction: str, answer: str, by: str = "words") -> float:
    """Returns the F1 of a prediction, in [0, 1]; 0.0 if it has no unit of the answer.

    `by` is a key of `UNITS`.

    Source: `f1_score` of the official script for version 1.1.
    """
    predicted, expected = UNITS[by](prediction), UNITS[by](answer)
    common = (collections.Counter(predicted) & collections.Counter(expected)).total()
    if not common:
        return 0.0
    precision, recall = common / len(predicted), common / len(expected)
    return 2 * precision * recall / (precision + recall)


def f1_with_negative(prediction: str, answer: str, by: str = "words") -> float:
    """Returns `f1`, but 1.0 if neither text has a unit, because they are then equal.

    Source: `compute_f1` of the official script for version 2.0.
    """
    # The blank separates the last word of one text from the first word of the other.
    return f1(prediction, answer, by) or float(not UNITS[by](f"{prediction} {answer}"))


def correct_answers(answers: Sequence[str]) -> list[str]:
    """Returns the answers that are not empty after `normalize`; [""] if there are none."""
    return [answer for answer in answers if normalize(answer)] or [""]


def best_threshold(
    scores: np.ndarray,
    null_diffs: np.ndarray,
    has_answer: np.ndarray,
    has_text: np.ndarray,
) -> tuple[float, float]:
    """Returns the best mean score, in percent, and the threshold that gives it.

    The prediction is the best answer other than "" if `null_diffs` is at most the
    threshold, else "". As in the official script, the threshold is 0.0 if "" is the
    best prediction for all questions.

    Args:
        scores: float [N], the EM or F1 of the best answer other than "".
        null_diffs: float [N], `BestAnswers.null_score_diff`.
        has_answer: bool [N], whether the question has an answer.
        has_text: bool [N], whether there is an answer other than "".

    Source: `find_best_thresh` of the official script for version 2.0.
    """
    order = np.argsort(null_diffs, kind="stable")
    gains = np.where(has_answer, scores, np.where(has_text, -1.0, 0.0))[order]
    nothing_answered = float(np.count_nonzero(~has_answer))
    totals = np.cumsum(np.concatenate([[nothing_answered], gains]))
    best = int(totals.argmax())
    threshold = float(null_diffs[order[best - 1]]) if best else 0.0
    return 100.0 * float(totals[best]) / len(scores), threshold
