"""Finds columns by their names."""

import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from bert_tf.errors import InputError

# The only name in a header line that contains one of these is probably several names.
_SEPARATORS = re.compile("[,;|\t]")


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
    existing = list(columns)
    # Blanks at the ends of a name are visible only in quotes.
    names = ", ".join(each if each == each.strip() else repr(each) for each in existing)
    remedy = "Give the name of one of these columns."
    is_text = os.path.splitext(place)[1].lower() in (".csv", ".tsv")
    if is_text and len(existing) == 1 and _SEPARATORS.search(existing[0]):
        remedy = "Separate the columns with commas in a .csv file and with tabs in a .tsv file."
    return InputError(f"{place} has no column {name!r}. Its columns are: {names[:200]}. {remedy}")
