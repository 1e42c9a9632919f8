"""Finds columns by their names. Imports `errors`."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from bert_tf.errors import InputError


def find_columns(
    path: str, header: Sequence[str], columns: Sequence[str | None], optional: Collection[str]
) -> list[int | None]:
    """Returns the position of each column, from 0; None for None and for a missing optional column.

    Args:
        path: The file, for the error message.
        header: The names of all columns of the file.
        columns: The names to find.
        optional: The columns that may be missing.

    Raises:
        InputError: A column is missing, or two columns have the same name.
    """
    repeated = next((name for name, count in Counter(header).items() if count > 1), None)
    if repeated is not None:
        raise InputError(f"{path} has several columns {repeated!r}. Give them different names.")
    for name in columns:
        if name is not None and name not in header and name not in optional:
            raise no_column(path, name, header)
    return [header.index(name) if name in header else None for name in columns]


def no_column(place: str, name: str | None, columns: Iterable[str]) -> InputError:
    """Returns the error for a missing column.

    Args:
        place: The file, and the line if the line has its own columns.
        name: The missing column.
        columns: The existing columns, for the message.
    """
    names = ", ".join(map(str, columns))
    return InputError(
        f"{place} has no column {name!r}. Its columns are: {names[:200]}. Give the name of one of "
        "these columns."
    )
