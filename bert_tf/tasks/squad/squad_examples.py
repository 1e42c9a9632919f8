"""Reads the JSON files of SQuAD."""

import bisect
import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any

from bert_tf import files, json_files
from bert_tf.errors import InputError
from bert_tf.tasks.row_counts import RowCounts

# The white space of google-research/bert's run_squad; U+202F is a narrow no-break space.
_WORD = re.compile("[^ \t\r\n\u202f]+")
SKIPPED = "questions skipped, because their answers are not in the context"


@dataclasses.dataclass(frozen=True)
class SquadExample:
    """A question about a context.

    Attributes:
        id: Identifies the question.
        question: The question.
        words: The context, split at white space.
        context: The context.
        answers: The correct answers; () if the question has no answer. None if they are unknown.
        answer_words: Indices of the first and last word of the answer; known for training examples
            with an answer. As in google-research/bert, an index of -1 is possible.
        is_impossible: Whether the question has no answer.
    """

    id: str
    question: str
    words: tuple[str, ...]
    context: str
    answers: tuple[str, ...] | None
    answer_words: tuple[int, int] | None = None
    is_impossible: bool = False


def read_examples(
    path: str, training: bool, version_2_with_negative: bool, counts: RowCounts
) -> Iterator[SquadExample]:
    """Yields the examples of a file, in their order.

    Args:
        path: A file in the JSON format of SQuAD.
        training: Whether the examples are for training. Such an example has one answer or, with
            `version_2_with_negative`, is marked as impossible. A question is skipped if its answer
            is not in the context at the stated position.
        version_2_with_negative: Whether questions may have no answer, as in SQuAD 2.0.
        counts: Receives the number of skipped questions.

    Raises:
        InputError: The file is not valid JSON (see `json_files.parse`), a key is missing,
            two questions have the same id, or a training example does not have exactly one answer.

    Source: google-research/bert `run_squad.read_squad_examples`.
    """
    ids: set[str] = set()
    for where, paragraph in _paragraphs(path):
        context = _get(paragraph, "context", where)
        matches = list(_WORD.finditer(context))
        words = tuple(match.group() for match in matches)
        starts = [match.start() for match in matches]
        for number, item in enumerate(_get(paragraph, "qas", where)):
            question = _Question(f"{where}.qas[{number}]", item, version_2_with_negative)
            if question.id in ids:
                raise InputError(
                    f"{question.where} has the id {question.id!r}, which an earlier question has "
                    "too. Give each question its own id."
                )
            ids.add(question.id)
            example = SquadExample(question.id, question.text, words, context, question.answers())
            if not training:
                yield example
            elif question.is_impossible:
                yield dataclasses.replace(example, is_impossible=True)
            elif span := _answer_words(question.only_answer(), context, words, starts):
                yield dataclasses.replace(example, answer_words=span)
            else:
                row = f"{question.where}: the answer {question.only_answer()!r:.80}"
                counts.add(SKIPPED, row, is_skipped=True)


def _paragraphs(path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields the paragraphs of a file, with their place in it as text."""
    contents = json_files.parse(files.read_text(path), path)
    for number, article in enumerate(_get(contents, "data", path)):
        where = f"{path}: data[{number}]"
        for index, paragraph in enumerate(_get(article, "paragraphs", where)):
            yield f"{where}.paragraphs[{index}]", paragraph


def _get(item: Any, key: str, where: str) -> Any:
    """Returns the value of a key.

    Raises:
        InputError: The item has no such key.
    """
    if not isinstance(item, dict) or key not in item:
        raise InputError(f"{where} has no key {key!r}. Give a file in the format of SQuAD.")
    return item[key]


class _Question:
    """One question of a file, with its place in the file for messages."""

    def __init__(self, where: str, item: Any, version_2_with_negative: bool) -> None:
        self.where, self._item, self._version_2 = where, item, version_2_with_negative
        self.id: str = _get(item, "id", where)
        self.text: str = _get(item, "question", where)

    @property
    def is_impossible(self) -> bool:
        """Whether a training example has no answer; always False in version 1.1."""
        return bool(self._version_2 and _get(self._item, "is_impossible", self.where))

    def answers(self) -> tuple[str, ...] | None:
        """Returns the correct answers, () for an impossible question, None if not known."""
        texts = tuple(
            _get(each, "text", f"{self.where}.answers[{number}]")
            for number, each in enumerate(self._item.get("answers", ()))
        )
        is_stated = "answers" in self._item or self._item.get("is_impossible")
        return texts if texts or (self._version_2 and is_stated) else None

    def only_answer(self) -> tuple[str, int]:
        """Returns text and position of the answer of a training example.

        Raises:
            InputError: The example does not have exactly one answer.
        """
        answers = _get(self._item, "answers", self.where)
        if len(answers) != 1:
            remedy = "Give a train file in which each question has one answer."
            if not answers and not self._version_2:
                remedy = (
                    "Files with unanswerable questions, such as SQuAD 2.0, need "
                    "version_2_with_negative=True."
                )
            raise InputError(
                f"{self.where}: question {self.id!r} has {len(answers)} answers, and training "
                f"needs exactly one. {remedy}"
            )
        where = f"{self.where}.answers[0]"
        return _get(answers[0], "text", where), _get(answers[0], "answer_start", where)


def _answer_words(
    answer: tuple[str, int], context: str, words: tuple[str, ...], starts: list[int]
) -> tuple[int, int] | None:
    """Returns the first and last word of an answer, or None if it is not found there.

    Args:
        answer: The text, and its position in characters.
        context: The context.
        words: The words of the context.
        starts: The position of each word, in characters.
    """
    text, offset = answer
    if not words or not text or offset < 0 or offset + len(text) > len(context):
        return None
    first, last = (bisect.bisect(starts, at) - 1 for at in (offset, offset + len(text) - 1))
    found = " ".join(text.split()) in " ".join(words[first : last + 1])
    return (first, last) if found else None
