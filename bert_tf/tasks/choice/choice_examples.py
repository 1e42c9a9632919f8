"""Reads the CSV files of SWAG, and JSON lines with any number of choices."""

import dataclasses
import os
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from bert_tf.errors import InputError
from bert_tf.tasks import tables

ENDINGS = (".csv", ".jsonl")
UNKNOWN_IN_TEST = "test rows with an unknown label"
# Each record has room for the choices of the example with the most choices.
_MAX_CHOICES = 1000
_CHOICE = re.compile(r"ending([0-9]{1,3})")
# The columns of the released files of SWAG, which also exist without the line of names.
_RELEASED = (
    "", "video-id", "fold-ind", "startphrase", "sent1", "sent2", "gold-source", "ending0",
    "ending1", "ending2", "ending3", "label",
)  # fmt: skip
_REMEDY = "Name the columns sent1, sent2, ending0, ending1 and so on, and label."
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

    def as_row(self) -> dict[str, Any]:
        """Returns the example as the JSON values of a line in a `.jsonl` file."""
        row: dict[str, Any] = {"context": self.context, "choices": list(self.choices)}
        return row if self.label is None else {**row, "label": self.label}


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
    is_json = os.path.splitext(path)[1].lower() == ".jsonl"
    rows = _json_rows(path) if is_json else _csv_rows(path, kind != "test")
    for number, context, start, choices, label in rows:
        place = f"{path}, line {number}"
        context = _text(context, f"{place}: the context")
        texts = _choices(_text(start, f"{place}: 'sent2'"), choices, place)
        yield ChoiceExample(context, texts, _label(label, len(texts), kind, counts, place))


def _json_rows(path: str) -> Iterator[tuple[Any, ...]]:
    names = ("context", "sent2", "choices", "label")
    for number, (context, start, *others) in tables.column_values(path, names, names):
        yield number, context, "" if start is None else start, *others


def _csv_rows(path: str, needs_label: bool) -> Iterator[tuple[Any, ...]]:
    _, first = next(tables.comma_separated(path), (0, []))
    has_names = {"sent1", "sent2", "ending0"} & {*first}
    is_released = not has_names and len(first) in (len(_RELEASED) - 1, len(_RELEASED))
    header = _RELEASED[: len(first)] if is_released else None
    matches = map(_CHOICE.fullmatch, header or first)
    numbers = [int(match[1]) for match in matches if match]
    endings = [f"ending{number}" for number in range(max([1, *numbers]) + 1)]
    optional = () if needs_label else ("label",)
    for number, (context, start, label, *choices) in tables.column_values(
        path, ("sent1", "sent2", "label", *endings), optional, header=header, remedy=_REMEDY
    ):
        # A row may have fewer choices than the file has columns.
        while choices and not choices[-1].strip():
            choices.pop()
        yield number, context, start, choices, label


def _choices(start: str, choices: Any, place: str) -> tuple[str, ...]:
    """Returns the second text of each sequence.

    Raises:
        InputError: There are fewer than two or more than 1,000 choices, or one of them is empty or
            not a text.
    """
    if not isinstance(choices, list) or not 2 <= len(choices) <= _MAX_CHOICES:
        received = len(choices) if isinstance(choices, list) else _shown(choices)
        raise InputError(
            f'{place}: at least two choices are required, in a list such as ["yes", "no"], and at '
            f"most {_MAX_CHOICES}. Received: {received}. Change the choices, or remove the row."
        )
    for number, text in enumerate(choices):
        if not _text(text, f"{place}: choice {number}").strip():
            raise InputError(
                f"{place}: choice {number}, counted from 0, is empty. Write a text, or leave out "
                "the choice."
            )
    return tuple(f"{start} {text}" if start else text for text in choices)


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"{place} must be a text. Received: {_shown(value)}.")
    return value


def _shown(value: Any) -> str:
    return "nothing" if value is None else repr(value)[:60]


def _label(label: Any, num_choices: int, kind: str, counts: Counter[str], place: str) -> int | None:
    """Returns the index of the correct choice, or None if it is not known.

    Raises:
        InputError: In a train or dev file, the label is missing or is not the index of a choice.
    """
    text = "" if label is None else str(label).strip()
    if _INDEX.fullmatch(text) and int(text) < num_choices:
        return int(text)
    if kind == "test":
        if text:
            counts[UNKNOWN_IN_TEST] += 1
        return None
    received = f"the label {label!r:.60}" if text else "no label"
    raise InputError(
        f"{place} has {received}. Write the index of the correct choice, from 0 to "
        f"{num_choices - 1}. Only a test file may lack labels."
    )
