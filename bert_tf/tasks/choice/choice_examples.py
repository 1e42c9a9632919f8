"""Reads tables of choices: files of SWAG, and tables with lists of choices."""

import dataclasses
import functools
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from bert_tf.errors import InputError
from bert_tf.tasks import tables
from bert_tf.tasks.tables import Row, TableFormat, place_of

UNKNOWN_IN_TEST = "test rows with an unknown label"
# Each record has as many sequences as the example with the most choices.
_MAX_CHOICES = 1000
_CHOICE = re.compile(r"ending([0-9]{1,3})")
_LISTS = ("context", "choices")
# The columns of the released files of SWAG. There are also such files without a header
# line.
_RELEASED = (
    "",
    "video-id",
    "fold-ind",
    "startphrase",
    "sent1",
    "sent2",
    "gold-source",
    "ending0",
    "ending1",
    "ending2",
    "ending3",
    "label",
)
_REMEDY = (
    "Name the columns sent1, sent2, ending0, ending1 and so on, and label; or, with a "
    "list of texts, context, choices and label."
)
_LABEL = re.compile(r"[0-9]{1,9}|[A-Z]")


@dataclasses.dataclass(frozen=True, slots=True)
class ChoiceExample:
    """A context (text A of each input sequence), and at least two choices (its text B).

    `label` is the index of the correct choice, or None if it is not known.
    """

    context: str
    choices: tuple[str, ...]
    label: int | None = None

    def as_row(self) -> Row:
        """Returns the example as the JSON values of a line in a `.jsonl` file."""
        row: Row = {"context": self.context, "choices": list(self.choices)}
        return row if self.label is None else {**row, "label": self.label}


def read_examples(
    path: str, kind: str, counts: Counter[str], table_format: TableFormat | None = None
) -> Iterator[ChoiceExample]:
    """Yields the examples of a table, in their order.

    The columns are those of SWAG: `sent1` (the context), `sent2` (the common start of
    the choices), `ending0`, `ending1` and so on, and `label`. Without a header line,
    the columns have the positions of the released files. Empty endings at the end of a
    row are no choices. Alternatively, the columns are `context`, `choices` (a list of
    texts), `label` and, optionally, `sent2`.

    Only rows of a test file may lack labels. There, a label that is not the index or
    the letter of a choice becomes None, and is counted in `counts`.

    Source: the BERT paper, section 4.4. The second text is `sent2`, a blank, and the
    ending.
    """

    def check(place: str, names: Collection[str]) -> None:
        columns = _columns(tuple(names))
        optional = ("label",) if columns == _LISTS or kind == "test" else ()
        tables.check_columns(
            place,
            names,
            columns=(*columns, "label"),
            optional=optional,
            parameters=(),
            remedy=_REMEDY,
        )

    are_letters: set[bool] = set()
    for number, row in tables.rows(path, check, table_format, _released_names):
        place = place_of(path, number)
        columns = _columns(tuple(row))
        context = _text(row[columns[0]], f"{place}: the context")
        start = _text(row.get("sent2") or "", f"{place}: 'sent2'")

        # Without a list of choices, each ending has a column.
        choices = row.get("choices")
        if columns != _LISTS:
            choices = [row[name] for name in columns[2:]]
            # A row may have fewer choices than the file has columns.
            while choices and (choices[-1] is None or not str(choices[-1]).strip()):
                choices.pop()

        texts = _choices(start, choices, place)
        label = _label(
            row.get("label"),
            len(texts),
            kind=kind,
            counts=counts,
            place=place,
            are_letters=are_letters,
        )
        yield ChoiceExample(context, texts, label)


def _released_names(first: Sequence[str]) -> Sequence[str] | None:
    """Returns the columns of a file of SWAG without a header line; None for other files."""
    has_names = {"sent1", "sent2", "ending0"} & {*first}
    is_released = not has_names and len(first) in (len(_RELEASED) - 1, len(_RELEASED))
    return _RELEASED[: len(first)] if is_released else None


@functools.lru_cache
def _columns(names: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the columns with texts, given all columns of a row; the first has the context."""
    if "sent1" not in names and {*_LISTS} & {*names}:
        return _LISTS
    matches = map(_CHOICE.fullmatch, names)
    last = max([1, *(int(match[1]) for match in matches if match)])
    return "sent1", "sent2", *(f"ending{number}" for number in range(last + 1))


def _choices(start: str, choices: Any, place: str) -> tuple[str, ...]:
    """Checks the choices of a row, and returns the second text for each sequence."""
    if not isinstance(choices, list) or not 2 <= len(choices) <= _MAX_CHOICES:
        received = len(choices) if isinstance(choices, list) else _shown(choices)
        raise InputError(
            f'{place}: at least two choices are required, in a list such as ["yes", '
            '"no"], and at '
            f"most {_MAX_CHOICES}. Received: {received}. Change the choices, or remove "
            "the row."
        )

    for number, text in enumerate(choices):
        if not _text(text, f"{place}: choice {number}").strip():
            raise InputError(
                f"{place}: choice {number}, counted from 0, is empty. Write a text, or "
                "leave out the choice."
            )
    return tuple(f"{start} {text}" if start else text for text in choices)


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"{place} must be a text. Received: {_shown(value)}.")
    return value


def _shown(value: Any) -> str:
    return "nothing" if value is None else repr(value)[:60]


def _label(
    label: Any,
    num_choices: int,
    kind: str,
    counts: Counter[str],
    place: str,
    are_letters: set[bool],
) -> int | None:
    """Returns the index of the correct choice, or None if it is not known.

    `are_letters` collects, for all rows of a file, whether a label is a letter. A file
    with letters and numbers raises InputError, because in some such files the numbers
    start at 1. A missing or wrong label raises InputError unless `kind` is "test".
    """
    text = "" if label is None else str(label).strip()

    # An index or a letter.
    if _LABEL.fullmatch(text):
        are_letters.add(text.isalpha())
        if len(are_letters) > 1:
            raise InputError(
                f"{place} has the label {text}, but the file has letters and numbers "
                "as labels. Write all as letters from A, or all as numbers from 0."
            )
        index = ord(text) - ord("A") if text.isalpha() else int(text)
        if index < num_choices:
            return index

    # Public test files often have a placeholder, such as -1.
    if kind == "test":
        if text:
            counts[UNKNOWN_IN_TEST] += 1
        return None

    received = f"the label {label!r:.60}" if text else "no label"
    raise InputError(
        f"{place} has {received}. Write the index of the correct choice, from 0 to "
        f"{num_choices - 1}, or its letter. Only a test file may lack labels."
    )
