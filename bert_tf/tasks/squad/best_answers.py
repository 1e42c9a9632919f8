"""Finds the n best answers to a question in the logits of its windows.

Shape letters: N possible answers, S sequence length.
"""

import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bert_tf.config_fields import documented, option
from bert_tf.errors import InputError, check_at_least, check_choices, store_plain_values
from bert_tf.tasks.results import Outputs
from bert_tf.tasks.squad.squad_examples import SquadExample
from bert_tf.tasks.squad.squad_metrics import UNITS
from bert_tf.tasks.windows import (
    group_and_place,
    has_max_context,
    tokenize_words,
    windows,
)

if TYPE_CHECKING:
    from bert_tf.tokenization import BertTokenizer

# As in google-research/bert, a larger score of "" counts as this one.
_NO_NULL_SCORE = 1000000.0


@documented
@dataclasses.dataclass(frozen=True)
class AnswerSettings:
    """The settings that determine how answers are found and scored.

    Raises:
        InputError: A value is out of range.
    """

    n_best_size: int = option(
        20,
        "Number of answers per question in nbest_predictions.json, and of start and "
        "end positions of each window from which the answers are built.",
    )
    max_answer_length: int = option(30, "Maximum number of tokens of an answer.")
    version_2_with_negative: bool = option(
        False, "Whether questions may have no answer, as in SQuAD 2.0."
    )
    null_score_diff_threshold: float = option(
        0.0,
        "The answer is empty if the score of no answer minus the score of the best "
        "answer is greater.",
    )
    padding_as_released: bool = option(
        False,
        "Whether padding takes part in the softmax of the loss and in the n best "
        "positions, as in google-research/bert. Slower: each sequence then has "
        "`max_seq_length` tokens.",
    )
    f1_by: str = option(
        "words",
        'Units of F1: "words" as in SQuAD, or "characters" as in KorQuAD, for '
        "languages without blanks between words, such as Japanese.",
        choices=tuple(UNITS),
    )

    def __post_init__(self) -> None:
        store_plain_values(self)
        check_at_least(1, self, "n_best_size", "max_answer_length")
        check_choices(self)
        if math.isnan(self.null_score_diff_threshold):
            raise InputError(
                "null_score_diff_threshold must be a number. Received: nan."
            )


@dataclasses.dataclass(frozen=True)
class Answer:
    """An answer in an n-best list, with the logits of its first and last token."""

    text: str
    start_logit: float
    end_logit: float

    @property
    def score(self) -> float:
        """The sum of both logits."""
        return self.start_logit + self.end_logit


@dataclasses.dataclass(frozen=True)
class BestAnswers:
    """The n-best list of a question.

    Attributes:
        answers: By descending score; the text "" means that there is no answer.
        probabilities: The softmax of the scores of `answers`.
        null_score_diff: With `version_2_with_negative`, the score of "" minus the score
            of the best other answer. It is 0.0 without `version_2_with_negative`, or if
            there is no other answer.
    """

    answers: tuple[Answer, ...]
    probabilities: tuple[float, ...]
    null_score_diff: float = 0.0

    @property
    def best_text(self) -> str:
        """The best answer other than ""; "" if there is none."""
        return next((answer.text for answer in self.answers if answer.text), "")

    def predicted(self, settings: AnswerSettings) -> str:
        """Returns the final answer, as in `predictions.json`; "" for no answer."""
        if not settings.version_2_with_negative:
            return self.answers[0].text
        is_null = self.null_score_diff > settings.null_score_diff_threshold
        return "" if is_null else self.best_text


class Context:
    """A context, split at white space into `words`, with its pieces and normalized words."""

    def __init__(self, words: tuple[str, ...], tokenizer: "BertTokenizer") -> None:
        self.words = words
        self._tokenizer = tokenizer
        (self.pieces,) = tokenize_words([words], tokenizer)
        word_of_piece, _ = group_and_place(np.diff(self.pieces.first))
        self._word_of_piece = word_of_piece.tolist()

    @functools.cached_property
    def _normalized(self) -> list[str]:
        rows = self._tokenizer.words(list(self.words)).to_list()
        return [b" ".join(row).decode() for row in rows]

    def text(self, first: int, last: int, vocabulary: Sequence[str]) -> str:
        """Returns the original text of the pieces from `first` to `last` (inclusive)."""
        begin, end = self._word_of_piece[first], self._word_of_piece[last] + 1
        tokens = [vocabulary[piece] for piece in self.pieces.ids[first : last + 1]]
        joined = " ".join(tokens).replace(" ##", "").replace("##", "")
        normalized = " ".join(filter(None, self._normalized[begin:end]))
        original = " ".join(self.words[begin:end])
        return final_text(" ".join(joined.split()), original, normalized)


@dataclasses.dataclass
class AnswerFinder:
    """Finds the n best answers to questions.

    `doc_stride` must be the value with which the records were created.

    Source: google-research/bert `run_squad.write_predictions`.
    """

    tokenizer: "BertTokenizer"
    settings: AnswerSettings
    doc_stride: int
    _last: Context | None = None

    @functools.cached_property
    def _vocabulary(self) -> list[str]:
        return self.tokenizer.vocabulary

    def find(self, example: SquadExample, outputs: Sequence[Outputs]) -> BestAnswers:
        """Returns the best answers to a question.

        `outputs` contains `input_mask`, `segment_ids`, `start_logits` and `end_logits`
        of each window, [S] each.
        """
        null, null_score = _null_answer(outputs)
        answers = _distinct(
            self._answers(example, null, outputs), self.settings.n_best_size
        )
        return _with_probabilities(answers, null, null_score, self.settings)

    def candidates(
        self, example: SquadExample, outputs: Sequence[Outputs]
    ) -> np.ndarray:
        """Returns all possible answers in the order of the windows: an array [N] of `_SPAN`."""
        context = self._context(example)
        all_spans: list[np.ndarray] = [np.zeros(0, _SPAN)]
        if outputs:
            segment_ids = outputs[0]["segment_ids"]
            offset = int(segment_ids.argmax())
            # Only the last window can be shorter than the first one.
            room = int(segment_ids.sum()) - 1
            starts, lengths = windows(len(context.pieces.ids), room, self.doc_stride)

        for number, output in enumerate(outputs):
            padded = self.settings.padding_as_released
            end = None if padded else int(output["input_mask"].sum())
            spans = _candidates(
                output["start_logits"][:end],
                output["end_logits"][:end],
                offset=offset,
                has_max_context=has_max_context(starts, lengths, number),
                settings=self.settings,
            )
            spans["first_piece"] += starts[number]
            spans["last_piece"] += starts[number]
            all_spans.append(spans)
        return np.concatenate(all_spans)

    def _context(self, example: SquadExample) -> Context:
        """Returns the context of an example; successive examples with the same words share it."""
        if self._last is None or self._last.words is not example.words:
            self._last = Context(example.words, self.tokenizer)
        return self._last

    def _answers(
        self, example: SquadExample, null: Answer, outputs: Sequence[Outputs]
    ) -> Iterator[Answer]:
        """Yields the answers by descending score; equal scores keep the order of `candidates`."""
        context = self._context(example)
        spans = self.candidates(example, outputs)
        scores = spans["start_logit"] + spans["end_logit"]
        order = np.argsort(-scores, kind="stable")
        has_null = self.settings.version_2_with_negative

        for first, last, start_logit, end_logit in spans[order].tolist():
            if has_null and null.score > start_logit + end_logit:
                yield null
                has_null = False
            yield Answer(
                context.text(first, last, self._vocabulary), start_logit, end_logit
            )
        if has_null:
            yield null


# A span of tokens: the indices of its first and last piece in the context, and the
# logits.
_SPAN = np.dtype(
    [
        ("first_piece", np.int64),
        ("last_piece", np.int64),
        ("start_logit", np.float64),
        ("end_logit", np.float64),
    ]
)


def _null_answer(outputs: Sequence[Outputs]) -> tuple[Answer, float]:
    """Returns the answer "" of the window with the lowest score at [CLS], and this score."""
    null, lowest = Answer("", 0.0, 0.0), _NO_NULL_SCORE
    for output in outputs:
        start_logit, end_logit = output["start_logits"][0], output["end_logits"][0]
        answer = Answer("", float(start_logit), float(end_logit))
        if answer.score < lowest:
            null, lowest = answer, answer.score
    return null, lowest


def _candidates(
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    offset: int,
    has_max_context: np.ndarray,
    settings: AnswerSettings,
) -> np.ndarray:
    """Returns the possible answers in a window, by descending start, then end logit.

    The piece indices in the result are counted from the start of the window.

    Args:
        offset: Position of the first piece of the context in the sequence.
        has_max_context: bool, for each piece in the window; see
            `windows.has_max_context`.
    """
    # All pairs of one of the best starts and one of the best ends.
    starts = _largest(start_logits, settings.n_best_size)
    ends = _largest(end_logits, settings.n_best_size)
    start: np.ndarray = np.repeat(starts, len(ends))
    end = np.tile(ends, len(starts))

    # Those in the context, in the right order, not too long, and with most context.
    piece: np.ndarray = start - offset
    length = len(has_max_context)
    inside = (piece >= 0) & (piece < length) & (end - offset < length)
    inside &= (start <= end) & (end - start < settings.max_answer_length)
    inside[inside] = has_max_context[piece[inside]]

    start, end = start[inside], end[inside]
    spans: np.ndarray = np.zeros(len(start), _SPAN)
    spans["first_piece"] = start - offset
    spans["last_piece"] = end - offset
    spans["start_logit"] = start_logits[start]
    spans["end_logit"] = end_logits[end]
    return spans


def _largest(values: np.ndarray, count: int) -> np.ndarray:
    """Returns the positions of the `count` largest values; equal values keep their order."""
    return np.argsort(-values, kind="stable")[:count]


def _distinct(answers: Iterator[Answer], count: int) -> list[Answer]:
    """Returns the first `count` answers with different texts."""
    chosen: dict[str, Answer] = {}
    for answer in answers:
        if len(chosen) >= count:
            break
        chosen.setdefault(answer.text, answer)
    return [*chosen.values()]


def _with_probabilities(
    answers: list[Answer], null: Answer, null_score: float, settings: AnswerSettings
) -> BestAnswers:
    """Builds the n-best list with probabilities; in version 2.0, adds a missing `null`."""
    difference = 0.0
    if settings.version_2_with_negative:
        if all(answer.text for answer in answers):
            answers.append(null)
        best = next((answer for answer in answers if answer.text), None)
        # google-research/bert fails if there is no answer other than "".
        difference = null_score - best.start_logit - best.end_logit if best else 0.0

    if not answers:
        answers.append(Answer("empty", 0.0, 0.0))
    probabilities = softmax([candidate.score for candidate in answers])
    return BestAnswers(tuple(answers), probabilities, difference)


def softmax(scores: Sequence[float]) -> tuple[float, ...]:
    """Returns the softmax of at least one number.

    Source: google-research/bert `run_squad._compute_softmax`; the result has the same
    bits.
    """
    largest = max(scores)
    exponentials = [math.exp(score - largest) for score in scores]
    total = 0.0
    for value in exponentials:
        total += value
    return tuple(value / total for value in exponentials)


def final_text(predicted: str, original: str, normalized: str) -> str:
    """Returns the part of the original text that a span of tokens comes from.

    For example, the tokens "steve smith" of the original text "Steve Smith's" give
    "Steve Smith". Characters are aligned without spaces. Returns the complete original
    text if `predicted` is not in `normalized`, or if `original` and `normalized` differ
    in their number of characters without spaces. `normalized` consists of the words of
    `original` after `BertTokenizer.words`, joined by spaces.

    Source: google-research/bert `run_squad.get_final_text`.
    """
    start = normalized.find(predicted)
    if start < 0 or not predicted:
        return original
    if len(original) - original.count(" ") != len(normalized) - normalized.count(" "):
        return original

    # Both texts have the same characters, apart from spaces.
    first = start - normalized.count(" ", 0, start)
    last = first + len(predicted) - predicted.count(" ") - 1
    begin, end = _position(original, first), _position(original, last)
    return original[begin : end + 1]


def _position(text: str, number: int) -> int:
    """Converts an index that does not count spaces to an index in the text, which has spaces."""
    start = 0
    for word in text.split(" "):
        if number < len(word):
            return start + number
        number -= len(word)
        start += len(word) + 1
    raise IndexError(number)
