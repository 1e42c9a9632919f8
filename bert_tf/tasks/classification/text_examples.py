"""The example of classification and regression tasks, and its conversion from rows.

`LabelParser` checks the labels of a file.
"""

import ast
import dataclasses
import difflib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from bert_tf.errors import InputError, shortened
from bert_tf.tasks.tables import Row, place_of
from bert_tf.tasks.values import score_of, text_of

Label = str | float | tuple[str, ...]
_COLUMNS = ("text_a", "text_b", "label")
_SHOWN_LABELS = 10
# Numbers in a column with missing values often have a decimal point, such as 10.0.
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,18}(\.0*)?")
UNKNOWN_IN_TEST = "test rows with an unknown label"
# The labels of natural language inference. SNLI and sets like it have the label "-" if
# the annotators do not agree.
NLI = ("contradiction", "entailment", "neutral")
NO_LABEL = "-"
# A list in a cell, as Python, JSON and, without commas, NumPy write it.
_ITEM = re.compile(
    r"""'(?:[^'\\\n]|\\(?:[\\'"/bfnrt]|x[\da-f]{2}|u[\da-fA-F]{4}|U000[\da-f]{5}))*'"""
    r"""|"(?:[^"\\\n]|\\(?:[\\'"/bfnrt]|x[\da-f]{2}|u[\da-fA-F]{4}|U000[\da-f]{5}))*\""""
    r"|[+-]?[0-9]+(?:\.[0-9]*)?(?:e[+-]?[0-9]+)?"
)
_LIST = re.compile(
    rf"\[\s*(?:(?:{_ITEM.pattern})(?:(?:\s*,\s*|\s+)(?:{_ITEM.pattern}))*\s*,?\s*)?\]"
)
# The first pattern matches texts that look like lists, but have other values. The
# second matches a list with 0 or 1 for each label.
_OTHER_LIST = re.compile(
    r"""[\[({]\s*(.*,\s*)?['"].*[\])}]|\[[^\[\]]*,[^\[\]]*\]""", re.DOTALL
)
_INDICATORS = re.compile(r"\[\s*[01]\.?([\s,]+[01]\.?){2,}\s*\]")
_LISTS = "Write all labels as lists of texts, such as ['a', 'b'], or none."


@dataclasses.dataclass(frozen=True, slots=True)
class TextExample:
    """A sentence or a sentence pair, with its label.

    Attributes:
        text_b: The second sentence of a pair; None for a single sentence.
        label: The label for "classification", the score for "regression", the labels
            for "multi_label"; None if the data has no label.
        columns: The names of the columns of the two texts and of the label in the file.
            The third is None if several columns are labels; they are in `row`.
        row: The values of all columns of a row of a test split, by column; or {}.
    """

    text_a: str
    text_b: str | None = None
    label: Label | None = None
    columns: Sequence[str | None] = dataclasses.field(default=_COLUMNS, compare=False)
    row: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def labels(self) -> tuple[str, ...]:
        """The label or the labels as a tuple; () for a score or a missing label."""
        if isinstance(self.label, tuple):
            return self.label
        return (self.label,) if isinstance(self.label, str) else ()

    def file_row(self) -> Row:
        """Returns the values of the row by column: `row`, the texts and, if known, the label."""
        values = zip(self.columns, (self.text_a, self.text_b, self.label), strict=True)
        used = {
            name: value
            for name, value in values
            if name is not None and value is not None
        }
        return {**self.row, **used}


def in_order(labels: Collection[str]) -> list[str]:
    """Sorts labels: by number if all are whole numbers, else by text."""
    if not all(map(_WHOLE_NUMBER.fullmatch, labels)):
        return sorted(labels)
    # The text decides between labels such as "1" and "01".
    return sorted(labels, key=lambda label: (int(label.split(".")[0]), label))


def check_label(label: str, labels: Sequence[str], place: str) -> None:
    """Raises InputError for an unknown label; the message suggests the most similar label."""
    if label in labels:
        return
    similar = nearest(label, labels)
    suggestion = f" Did you mean {similar!r}?" if similar is not None else ""
    raise InputError(
        f"{place}: the label {label[:60]!r} is not one of "
        f"{shortened(labels, _SHOWN_LABELS)}.{suggestion}"
    )


def has_no_label(
    value: Any, columns: Sequence[str | None], labels: Collection[str] | None
) -> bool:
    """Returns whether a value is "-" in a data set like SNLI, where it means no label.

    Such a data set is recognized by the names of its `columns` and by its `labels`,
    which are None if they are not known.
    """
    if str(value).strip() != NO_LABEL or NO_LABEL in (labels or ()):
        return False
    *texts, column = columns
    is_snli = column == "gold_label" and bool({"sentence1", "sentence2"} & {*texts})
    return is_snli or (column == "label" and {*(labels or ())} == {*NLI})


def nearest(text: str, known: Sequence[str]) -> str | None:
    """Returns the known text that is most similar, or None if no known text is similar.

    Upper case and surrounding spaces are ignored.
    """
    by_key = {value.strip().casefold(): value for value in reversed(known)}
    matches = difflib.get_close_matches(text.strip().casefold(), by_key, n=1)
    return by_key[matches[0]] if matches else None


class ListError(InputError):
    """A cell has a list that cannot be read, or only some cells of the column have lists."""


@dataclasses.dataclass(eq=False)
class LabelParser:
    """Converts the values of a label column to the labels of examples.

    Blanks at both ends of a label are removed, in all file formats.

    Attributes:
        column: The name of the column, for error messages.
        labels: The labels of the task, or None to accept any label.
        separator: The text between the labels of an example, for "multi_label". The
            values of a column may also be texts with lists, such as "['a', 'b']".
    """

    column: str
    task_type: str
    labels: Sequence[str] | None
    separator: str = ","

    def __post_init__(self) -> None:
        self._has_lists: bool | None = None
        self._known = frozenset(self.labels or ())

    def __call__(self, value: Any, place: str) -> Label:
        """Returns the label; raises InputError if the value is missing or not valid."""
        if self.task_type == "classification":
            return self._one_label(value, place)
        if self.task_type == "regression":
            return score_of(value, f"{place}: column {self.column!r}")
        return self._several_labels(value, place)

    def _one_label(self, value: Any, place: str) -> str:
        if value.__class__ is str and value in self._known:
            return value
        column = f"{place}: column {self.column!r}"
        label = text_of(value, column).strip()
        if not label:
            raise InputError(f"{column} is empty. Write a label.")
        if label != label.encode(errors="ignore").decode():
            raise InputError(f"{column} has a lone surrogate in {label!r}. Correct it.")
        # Output files have one label in each line, or one column for each label.
        if self.labels is None and ("\t" in label or label.splitlines() != [label]):
            raise InputError(
                f"{column} has the label {label[:60]!r}, and a label must be in one "
                "line, without tabs. Correct the label, or give another label_column."
            )
        if self.labels is not None and label not in self._known:
            check_label(label, self.labels, place)
        return label

    def _several_labels(self, value: Any, place: str) -> tuple[str, ...]:
        # A dict has one column for each label.
        if isinstance(value, dict):
            value = [name for name in value if _is_set(name, value[name], place)]
        # One text with all labels; other programs write lists, or texts with lists.
        has_lists = self._has_lists
        if not isinstance(value, (list, tuple)):
            column = f"{place}: column {self.column!r}"
            text = text_of(value, column).strip()
            is_list = _LIST.fullmatch(text) is not None
            is_other = not is_list and _OTHER_LIST.fullmatch(text)
            if is_other or _INDICATORS.fullmatch(text):
                raise ListError(f"{column} has {text[:60]!r}. {_LISTS}")
            has_lists = is_list if text else has_lists
            if self._has_lists not in (None, has_lists):
                raise ListError(
                    f"{column} has {text[:60]!r}, and the labels before it are "
                    f"{'no ' if has_lists else ''}lists. {_LISTS}"
                )
            if is_list:
                value = map(_unquoted, _ITEM.findall(text))
            else:
                value = filter(None, map(str.strip, text.split(self.separator)))
        labels = tuple(dict.fromkeys(self._one_label(part, place) for part in value))
        self._has_lists = has_lists
        return labels


def _unquoted(item: str) -> str:
    """Returns a text of a list in a cell without quotes and escapes, or a number as text."""
    if item[0] not in "\"'":
        return item.removesuffix(".")
    try:
        text: str = json.loads(item)
    except ValueError:  # it is written as in Python
        text = ast.literal_eval(item)
    return text


def _is_set(name: str, value: Any, place: str) -> bool:
    """Returns True for 1 or true in the column of a label, and False for 0 or false."""
    place = f"{place}: column {name!r}"
    text = text_of(value, place).strip().lower().removesuffix(".0")
    if text not in ("0", "1", "false", "true"):
        raise InputError(
            f"{place} of a label must have 0 or 1. Received: {value!r:.60}."
        )
    return text in ("1", "true")


def examples_of_rows(
    rows: Iterable[tuple[int, Sequence[Any]]],
    path: str,
    kind: str,
    columns: Sequence[str | None],
    parse_label: LabelParser,
    counts: Counter[str],
) -> Iterator[TextExample]:
    """Yields an example for each row.

    A row has the first text, the second text, the label and, for a test split,
    optionally a dict with all columns. InputError is raised if there are no rows, or if
    a value is malformed.

    In a test split, a label that is missing, unknown or malformed becomes None. So does
    an empty label, except for "multi_label", where it means no labels. Labels that are
    unknown or malformed are counted. In all splits, "-" for no label becomes None; see
    `has_no_label`.
    """
    column_a, column_b, _ = columns
    number = 0
    for number, (text_a, text_b, value, *others) in rows:
        position = place_of(path, number)
        text_a = text_of(text_a, f"{position}: column {column_a!r}")
        if column_b is not None:
            text_b = text_of(text_b, f"{position}: column {column_b!r}")

        label: Label | None = None
        if has_no_label(value, columns, parse_label.labels):
            pass
        elif kind != "test":
            label = parse_label(value, position)
        elif value is not None:
            try:
                label = parse_label(value, position)
            except ListError:
                raise
            except InputError:
                counts[UNKNOWN_IN_TEST] += bool(str(value).strip())
        yield TextExample(text_a, text_b, label, columns, *others)

    if not number:
        raise InputError(f"{path} has no examples. Give a file with at least one.")
