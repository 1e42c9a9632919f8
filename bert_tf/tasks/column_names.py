"""Finds columns by their names."""

import os
import re
from collections import Counter
from collections.abc import Collection, Sequence

from bert_tf.errors import InputError

# The only name in a header line that contains one of these is probably several names.
_SEPARATORS = re.compile("[,;|\t]")


def check_columns(
    place: str,
    existing: Collection[str],
    columns: Sequence[str | None],
    optional: Collection[str] = (),
    parameters: Sequence[str] = (),
    remedy: str | None = None,
) -> None:
    """Checks that all columns exist, and that no two columns of a table have the same name.

    Args:
        place: The file, and the line if the line has its own columns.
        existing: The names of all columns.
        columns: The columns that must exist; None is ignored.
        optional: The columns that may be missing.
        parameters: For each of `columns`, the parameter that names it, for the message; or ().
        remedy: The end of the message, if it differs from the usual one.

    Raises:
        InputError: Columns are missing, or have the same name. The message lists all missing ones.
    """
    repeated = next((name for name, count in Counter(list(existing)).items() if count > 1), None)
    if repeated is not None:
        raise InputError(f"{place} has several columns {repeated!r}. Give them different names.")
    named = zip(columns, parameters or [""] * len(columns), strict=True)
    missing = [
        f"{name!r} ({parameter})" if parameter else repr(name)
        for name, parameter in named
        if name is not None and name not in existing and name not in optional
    ]
    if not missing:
        return
    # Blanks at the ends of a name are visible only in quotes.
    names = ", ".join(each if each == each.strip() else repr(each) for each in existing)
    is_text = os.path.splitext(place)[1].lower() in (".csv", ".tsv")
    if remedy is None:
        remedy = "Give the name of one of these columns."
        if is_text:
            remedy += " The first line of the file must have the names of the columns."
    if is_text and len(existing) == 1 and _SEPARATORS.search(names):
        remedy = "Separate the columns with commas in a .csv file and with tabs in a .tsv file."
    raise InputError(
        f"{place} has no column {', '.join(missing)}. Its columns are: {names[:200]}. {remedy}"
    )
