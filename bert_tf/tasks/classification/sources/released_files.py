"""Reads the tab-separated files of public data sets, whose columns have known names."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from bert_tf.errors import InputError
from bert_tf.tasks.splits import RowCounts
from bert_tf.tasks.tables import column_values, tab_separated

SHORT_ROWS = "short rows skipped"


def first_row(path: str) -> list[str]:
    """Returns the fields of the first line of a file; [] if it is empty."""
    return next(tab_separated(path), (0, []))[1]


def released_rows(
    path: str,
    columns: Sequence[str | None],
    optional: Collection[str],
    *,
    header: Sequence[str] | None = None,
    counts: RowCounts | None = None,
) -> Iterator[tuple[int, list[Any]]]:
    """Yields the line number of each row, and its values in some columns.

    Args:
        path: The file, of any name.
        columns: The names of the columns; the value of None is None.
        optional: The columns that a file or a row may lack; a missing value is None.
        header: The names of the columns of a file without a header line.
        counts: Receives the number of rows that lack a value, which are skipped. If it
            is None, such a row is an error.

    Raises:
        InputError: A column is missing, or a row is malformed.
    """
    required = [name for name in columns if name is not None and name not in optional]
    remedy = (
        f"Give the official file of this task, with {', '.join(required)} in its first "
        "line."
    )
    names = (lambda _: header) if header else None
    rows = column_values(
        path, columns, optional, header=names, remedy=remedy, is_released=True
    )

    for number, values in rows:
        # A short row lacks its last values.
        missing = [
            name
            for name, value in zip(columns, values, strict=True)
            if value is None and name in required
        ]
        place = f"{path}, line {number}"
        if not missing:
            yield number, values
        elif counts is not None:
            counts.add(
                SHORT_ROWS, f"{place}: {missing[0]!r} is missing", is_skipped=True
            )
        else:
            raise InputError(
                f"{place} has too few columns: {missing[0]!r} is missing. Remove the "
                "line, or separate its fields with tabs."
            )
