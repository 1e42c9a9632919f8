"""Reads the JSON files of SQuAD."""

import bisect
import dataclasses
import gzip
import re
from collections.abc import Iterator, Mapping
from typing import Any

from bert_tf.errors import InputError
from bert_tf.storage import files, json_files
from bert_tf.tasks.splits import RowCounts

# The white space of google-research/bert's run_squad; U+202F is a narrow no-break
# space.
_WORD = re.compile("[^ \t\r\n\u202f]+")
SKIPPED = "questions skipped, because their answers are not in the context"
# Files of other programs have numbers instead of texts as ids and answers, and texts
# instead of numbers and truth values.
_TEXT = json_files.Rule("a text or a number", (str, float))
_LIST = json_files.Rule("a list", (list,))
_POSITION = json_files.Rule("a whole number", (int,))
_TRUTHS = {"true": True, "1": True, "false": False, "0": False, "none": False}
_FORM = (
    'Give one JSON object in the format of SQuAD, {"data": [{"paragraphs": [{"context": '
    '"...", "qas": [{"id": "...", "question": "...", "answers": [{"text": "...", '
    '"answer_start": 0}]}]}]}]}; not JSON lines or arrays with a question each. CMRC 2018 '
    "has its data in this format too (squad-style-data)."
)


@dataclasses.dataclass(frozen=True)
class SquadExample:
    """A question about a context.

    Attributes:
        words: The context, split at white space.
        answers: The correct answers; () if the question has no answer, and None if they
            are unknown.
        answer_words: Indices of the first and last word of the answer, for training
            examples with an answer. As in google-research/bert, an index of -1 is
            possible.
        before_answer: The part of the first of these words that precedes the answer.
        after_answer: The part of the last of these words that follows the answer.
    """

    id: str
    question: str
    words: tuple[str, ...]
    context: str
    answers: tuple[str, ...] | None
    answer_words: tuple[int, int] | None = None
    before_answer: str = ""
    after_answer: str = ""
    is_impossible: bool = False


def read_examples(
    path: str, training: bool, version_2_with_negative: bool, counts: RowCounts
) -> Iterator[SquadExample]:
    """Yields the examples of a JSON file of SQuAD, which may be compressed (`.gz`).

    A training example has one answer or, with `version_2_with_negative`, is marked as
    impossible. If its answer is not in the context at the stated position, the example
    is skipped and counted in `counts`.

    Raises:
        InputError: The file is malformed, two questions have the same id, or a training
            example does not have exactly one answer.

    Source: google-research/bert `run_squad.read_squad_examples`.
    """
    ids: set[str] = set()
    for where, paragraph in _paragraphs(path):
        context = str(_get(paragraph, "context", where, _TEXT))
        matches = list(_WORD.finditer(context))
        words = tuple(match.group() for match in matches)
        starts = [match.start() for match in matches]

        for number, item in enumerate(_get(paragraph, "qas", where, _LIST)):
            question = _Question(
                f"{where}.qas[{number}]", item, version_2_with_negative
            )
            if question.id in ids:
                raise InputError(
                    f"{question.where} has the id {question.id!r}, which an earlier "
                    "question has too. Give each question its own id."
                )
            ids.add(question.id)
            example = SquadExample(
                question.id,
                question.text,
                words=words,
                context=context,
                answers=question.answers(),
            )

            # Only training needs the place of the answer.
            if not training:
                yield example
            elif question.is_impossible:
                yield dataclasses.replace(example, is_impossible=True)
            elif span := _answer_words(
                answer := question.only_answer(), context, words, starts
            ):
                first, last = span
                text, offset = answer
                after = slice(offset + len(text), starts[last] + len(words[last]))
                yield dataclasses.replace(
                    example,
                    answer_words=span,
                    before_answer=context[starts[first] : offset],
                    after_answer=context[after],
                )
            else:
                row = f"{question.where}: the answer {answer!r:.80}"
                counts.add(SKIPPED, row, is_skipped=True)


def _paragraphs(path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields the position of each paragraph in the file, for messages, and the paragraph."""
    contents = json_files.parse(_read(path), path, _FORM)
    for number, article in enumerate(_get(contents, "data", path, _LIST)):
        where = f"{path}: data[{number}]"
        for index, paragraph in enumerate(_get(article, "paragraphs", where, _LIST)):
            yield f"{where}.paragraphs[{index}]", paragraph


def _read(path: str) -> str:
    """Returns the text of a file, which may be compressed."""
    if not str(path).lower().endswith(".gz"):
        return files.read_text(path)
    with files.explain_read_errors(path, " as gzip"):
        return gzip.decompress(files.read_bytes(path)).decode("utf-8-sig")


def _get(item: Any, key: str, where: str, rule: json_files.Rule) -> Any:
    """Returns the value of a key; raises InputError if it is missing or does not match `rule`."""
    if not isinstance(item, dict) or key not in item:
        raise InputError(
            f"{where} has no key {key!r}. Received: "
            f"{json_files.shorten([*item] if isinstance(item, dict) else item)}. {_FORM}"
        )
    return json_files.check(item, {key: rule}, where, required=True)[key]


class _Question:
    """One question of a file, with its place in the file for messages."""

    def __init__(self, where: str, item: Any, version_2_with_negative: bool) -> None:
        self.where = where
        self._item = item
        self._version_2 = version_2_with_negative
        self.id = str(_get(item, "id", where, _TEXT))
        self.text = str(_get(item, "question", where, _TEXT))

    @property
    def is_impossible(self) -> bool:
        """Whether the question has no answer; always False in version 1.1."""
        key = "is_impossible"
        value = self._item.get(key) if self._version_2 else None
        truth = _TRUTHS.get(str(value).lower(), value)
        return bool(_get({key: truth}, key, self.where, json_files.TRUTH))

    def answers(self) -> tuple[str, ...] | None:
        """Returns the correct answers; () if the question has no answer, None if not known."""
        is_stated = self._item.get("answers") is not None
        answers = _get(self._item, "answers", self.where, _LIST) if is_stated else ()
        texts = tuple(
            str(_get(answer, "text", f"{self.where}.answers[{number}]", _TEXT))
            for number, answer in enumerate(answers)
        )
        is_known = self._version_2 and (self.is_impossible or is_stated)
        return texts if texts or is_known else None

    def only_answer(self) -> tuple[str, int]:
        """Returns the text and position of the one answer; raises InputError for another number."""
        answers = _get(self._item, "answers", self.where, _LIST)
        if len(answers) != 1:
            remedy = "Give a train file in which each question has one answer."
            if not answers and not self._version_2:
                remedy = (
                    "Files with unanswerable questions, such as SQuAD 2.0, need "
                    "version_2_with_negative=True."
                )
            raise InputError(
                f"{self.where}: question {self.id!r} has {len(answers)} answers, and "
                f"training needs exactly one. {remedy}"
            )

        where = f"{self.where}.answers[0]"
        key = "answer_start"
        text = str(_get(answers[0], "text", where, _TEXT))
        value = _get(answers[0], key, where, _TEXT)
        number = str(value).removesuffix(".0")
        start = int(number) if re.fullmatch("-?[0-9]+", number) else value
        return text, _get({key: start}, key, where, _POSITION)


def _answer_words(
    answer: tuple[str, int], context: str, words: tuple[str, ...], starts: list[int]
) -> tuple[int, int] | None:
    """Returns the first and last word of an answer; None if it is not at its position.

    `answer` is the text and its position in the context, and `starts` contains the
    position of each word; positions are in characters.
    """
    text, offset = answer
    if not words or not text or offset < 0 or offset + len(text) > len(context):
        return None
    first, last = (
        bisect.bisect(starts, at) - 1 for at in (offset, offset + len(text) - 1)
    )
    # The released program splits only the answer at all white space, such as U+00A0.
    answer_text, passage = " ".join(text.split()), " ".join(words[first : last + 1])
    is_present = answer_text in passage or answer_text in " ".join(passage.split())
    return (first, last) if is_present else None
