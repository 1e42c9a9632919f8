"""Reads the CSV files of SWAG, and JSON lines with any number of choices."""

import dataclasses
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from bert_tf.errors import InputError
from bert_tf.tasks import tables

ENDINGS = (".csv", ".jsonl")
UNKNOWN_IN_TEST = "test rows with an unknown label"
# Each record has room for the choices of the example with the most choices.
_MAX_CHOICES = 1000
_CONTEXT, _START, _LABEL = "sent1", "sent2", "label"
_CHOICE = re.compile(r"ending([0-9]{1,3})")
# The positions of the columns in the released files of SWAG, from 0.
_RELEASED_CONTEXT, _RELEASED_START, _RELEASED_LABEL = 4, 5, 11
_RELEASED_CHOICES = range(7, 11)
_INDEX = re.compile(r"[0-9]{1,9}")


@dataclasses.dataclass(frozen=True, slots=True)
class ChoiceExample:
    """A context, and several texts of which one is correct.

    Attributes:
        context: The first text, A, of each sequence.
        choices: At least two texts: the second text, B, of each sequence.
        label: The index of the correct choice; None if it is not known.
    """

    context: str
    choices: tuple[str, ...]
    label: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class _Row:
    """The values of an example as they are in the file; None for a missing value."""

    place: str
    context: Any
    start: Any
    choices: Any
    label: Any


def read_examples(path: str, kind: str, counts: Counter[str]) -> Iterator[ChoiceExample]:
    """Yields the examples of a file, in their order.

    A `.csv` file has the columns of SWAG: `sent1` (the context), `sent2` (the common start of the
    choices), `ending0`, `ending1` and so on, and `label`. Without a line of column names, the
    columns have the positions of the released files. Empty endings at the end of a row are no
    choices. A `.jsonl` file has one JSON object per line: `context`, `choices` (a list of texts),
    `label` and, optionally, `sent2`.

    Args:
        path: The file.
        kind: "train", "dev" or "test". A label may be missing only in "test". There, a label that
            is not the index of a choice counts as missing.
        counts: Receives the number of test rows with such a label.

    Raises:
        InputError: The file is missing, or has another format, or a row is malformed.

    Source: the paper "BERT: Pre-training of Deep Bidirectional Transformers", section 4.4. The
    second text is `sent2`, a blank, and the ending.
    """
    ending = os.path.splitext(path)[1].lower()
    if ending not in ENDINGS:
        raise InputError(f"The name of {path} must end in one of {', '.join(ENDINGS)}.")
    rows = _json_rows(path) if ending == ".jsonl" else _csv_rows(path, kind != "test")
    for row in rows:
        context = _text(row.context, f"{row.place}: the context")
        choices = _choices(row)
        yield ChoiceExample(context, choices, _label(row, len(choices), kind, counts))


def _json_rows(path: str) -> Iterator[_Row]:
    names = ("context", "sent2", "choices", "label")
    for number, (context, start, choices, label) in tables.column_values(path, names, set(names)):
        start = "" if start is None else start
        yield _Row(f"{path}, line {number}", context, start, choices, label)


def _csv_rows(path: str, needs_label: bool) -> Iterator[_Row]:
    _, first = next(tables.comma_separated(path), (0, None))
    if first is None:
        raise InputError(f"{path} is empty. A file with the columns of SWAG is required.")
    if {_CONTEXT, _START, "ending0"} & set(first):
        return _named_rows(path, first, needs_label)
    return _released_rows(path, needs_label)


def _named_rows(path: str, header: Sequence[str], needs_label: bool) -> Iterator[_Row]:
    """Yields the rows of a file whose first line has the names of the columns."""
    numbers = [int(match[1]) for match in map(_CHOICE.fullmatch, header) if match]
    choices = [f"ending{number}" for number in range(max([1, *numbers]) + 1)]
    required = (_CONTEXT, _START, *choices, *([_LABEL] if needs_label else []))
    missing = next((name for name in required if name not in header), None)
    if missing is not None:
        raise InputError(
            f"{path} has no column {missing!r}. Its columns are: {', '.join(header)[:200]}. Name "
            f"the columns {_CONTEXT}, {_START}, ending0, ending1 and so on, and {_LABEL}."
        )
    rows = tables.column_values(path, (_CONTEXT, _START, _LABEL, *choices), {_LABEL})
    for number, (context, start, label, *endings) in rows:
        yield _Row(f"{path}, line {number}", context, start, _without_empty_end(endings), label)


def _released_rows(path: str, needs_label: bool) -> Iterator[_Row]:
    """Yields the rows of a file without a line of column names."""
    for number, fields in tables.comma_separated(path):
        place = f"{path}, line {number}"
        required = _RELEASED_LABEL + needs_label
        if not required <= len(fields) <= _RELEASED_LABEL + 1:
            expected = "12" if needs_label else "11, or 12 with the label"
            raise InputError(
                f"{place}: {len(fields)} fields, but a file of SWAG without a line of column names "
                f"has {expected}. Write such a line, with {_CONTEXT}, {_START}, ending0, ending1 "
                f"and so on, and {_LABEL}."
            )
        endings = [fields[position] for position in _RELEASED_CHOICES]
        label = fields[_RELEASED_LABEL] if len(fields) > _RELEASED_LABEL else None
        context, start = fields[_RELEASED_CONTEXT], fields[_RELEASED_START]
        yield _Row(place, context, start, _without_empty_end(endings), label)


def _without_empty_end(endings: Sequence[str]) -> Sequence[str]:
    """Removes empty texts at the end: a row may have fewer choices than the file has columns."""
    count = max((number for number, text in enumerate(endings, start=1) if text.strip()), default=0)
    return endings[:count]


def _choices(row: _Row) -> tuple[str, ...]:
    """Returns the second text of each sequence.

    Raises:
        InputError: There are fewer than two or more than 1,000 choices, or one of them is empty or
            not a text.
    """
    if not isinstance(row.choices, (list, tuple)):
        received = "nothing" if row.choices is None else repr(row.choices)[:60]
        raise InputError(
            f'{row.place}: \'choices\' must be a list of texts, such as ["yes", "no"]. Received: '
            f"{received}."
        )
    if not 2 <= len(row.choices) <= _MAX_CHOICES:
        raise InputError(
            f"{row.place}: at least two choices are required, and at most {_MAX_CHOICES}. "
            f"Received: {len(row.choices)}. Change the choices, or remove the row."
        )
    start = _text(row.start, f"{row.place}: 'sent2'")
    texts = []
    for number, value in enumerate(row.choices):
        text = _text(value, f"{row.place}: choice {number}")
        if not text.strip():
            raise InputError(
                f"{row.place}: choice {number}, counted from 0, is empty. Write a text, or leave "
                "out the choice."
            )
        texts.append(f"{start} {text}" if start else text)
    return tuple(texts)


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str):
        received = "nothing" if value is None else repr(value)[:60]
        raise InputError(f"{place} must be a text. Received: {received}.")
    return value


def _label(row: _Row, num_choices: int, kind: str, counts: Counter[str]) -> int | None:
    """Returns the index of the correct choice, or None if it is not known.

    Raises:
        InputError: In a train or dev file, the label is missing or is not the index of a choice.
    """
    value: Any = row.label.strip() if isinstance(row.label, str) else row.label
    is_missing = value is None or value == ""
    if isinstance(value, str) and _INDEX.fullmatch(value):
        value = int(value)
    is_index = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < num_choices
    if is_index:
        return int(value)
    if kind == "test":
        if not is_missing:
            counts[UNKNOWN_IN_TEST] += 1
        return None
    received = "no label" if is_missing else f"the label {row.label!r:.60}"
    raise InputError(
        f"{row.place} has {received}. Write the index of the correct choice, from 0 to "
        f"{num_choices - 1}. Only a test file may lack labels."
    )
