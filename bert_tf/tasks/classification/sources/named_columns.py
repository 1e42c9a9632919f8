"""Reads examples from tab-separated files of public data sets, whose columns have known names."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from bert_tf.errors import InputError
from bert_tf.tasks.classification.examples import TextExample
from bert_tf.tasks.splits import DataLocation

# Converts the text in the label column, in a line of a file, to the label of an example.
LabelReader = Callable[[str, str, int], str | float | None]


@dataclasses.dataclass(frozen=True)
class Columns:
    """The names of the columns that are read.

    Attributes:
        text_a: The sentence, or the first sentence of a pair.
        text_b: The second sentence of a pair; None for single sentences.
        label: The label or the score.
    """

    text_a: str
    text_b: str | None
    label: str

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in the order of `TextExample`."""
        return tuple(name for name in (self.text_a, self.text_b, self.label) if name is not None)


@dataclasses.dataclass(frozen=True)
class Positions:
    """The positions of the columns in a row, from 0; None for a column that a file lacks."""

    text_a: int
    text_b: int | None
    label: int | None

    @property
    def last(self) -> int:
        """The largest of the positions."""
        return max(value for value in (self.text_a, self.text_b, self.label) if value is not None)


def find_columns(
    path: str, header: Sequence[str], layouts: Sequence[Columns], *, needs_label: bool
) -> Positions:
    """Finds the columns in a header line.

    Args:
        path: The file, for the error message.
        header: The names of the columns of the file.
        layouts: Names to look for. The first layout whose `text_a` is in the header is used.
        needs_label: Whether a missing label column is an error.

    Raises:
        InputError: A column is missing, or two columns have the same name.
    """
    columns = next((layout for layout in layouts if layout.text_a in header), layouts[0])
    required = columns.names if needs_label else columns.names[:-1]
    missing = next((name for name in required if name not in header), None)
    if missing is not None:
        raise InputError(
            f"{path} has no column {missing!r}. Its columns are: {', '.join(header)[:200]}. Give "
            f"the official file of this task, with {', '.join(required)} in its first line."
        )
    repeated = next((name for name in columns.names if header.count(name) > 1), None)
    if repeated is not None:
        raise InputError(f"{path} has several columns {repeated!r}. Give them different names.")
    return Positions(
        header.index(columns.text_a),
        None if columns.text_b is None else header.index(columns.text_b),
        header.index(columns.label) if columns.label in header else None,
    )


def read_examples(
    path: str,
    rows: Iterable[tuple[int, list[str]]],
    positions: Positions,
    width: int,
    read_label: LabelReader,
    on_short_row: Callable[[str, int, int, int], None],
) -> Iterator[TextExample]:
    """Yields an example for each row.

    Args:
        path: The file, for error messages.
        rows: The line number and the fields of each row after the header.
        positions: The positions of the columns.
        width: The number of columns of the file.
        read_label: Converts the text of the label, and raises an error for an unknown label.
        on_short_row: Receives path, line, number of fields and number of required fields of a row
            with too few fields. The row is skipped if the function returns. See `refuse_short_row`.

    Raises:
        InputError: A row is malformed.
    """
    a, b, c, last = positions.text_a, positions.text_b, positions.label, positions.last
    for number, fields in rows:
        if len(fields) <= last:
            on_short_row(path, number, len(fields), last + 1)
            continue
        if len(fields) > width:
            raise InputError(
                f"{path}, line {number}: {len(fields)} columns, but the file has {width}. Remove "
                "the tabs inside the texts."
            )
        label = None if c is None else read_label(fields[c], path, number)
        yield TextExample(fields[a], None if b is None else fields[b], label)


def refuse_short_row(path: str, line: int, received: int, required: int) -> None:
    """Raises the error for a row with too few fields.

    Raises:
        InputError: Always.
    """
    raise InputError(
        f"{path}, line {line}: {received} columns, but column {required} is required. Remove the "
        "line, or separate its fields with tabs."
    )


def find_file(location: DataLocation, kind: str, names: Sequence[str], task: str) -> str:
    """Returns the file of a split: the file that the user gave, or one with a conventional name.

    Args:
        location: The place of the data set.
        kind: One of `splits.KINDS`.
        names: Paths relative to `data_dir`, in the order in which they are tried.
        task: The name of the task, for the error message.

    Raises:
        InputError: There is no such file.
    """
    import tensorflow as tf

    explicit = location.explicit_file(kind)
    if explicit is None and location.data_dir is None:
        raise InputError(f"Give data_dir or {kind}_file: the task {task} needs a {kind} file.")
    paths = [explicit] if explicit else [os.path.join(location.data_dir or "", n) for n in names]
    found = next((path for path in paths if tf.io.gfile.exists(path)), None)
    if found is not None:
        return found
    others = f", nor {', '.join(paths[1:])}" if len(paths) > 1 else ""
    raise InputError(
        f"There is no file {paths[0]}{others}. Give the folder of {task} as data_dir, or the file "
        f"as {kind}_file."
    )
