"""Reads the lines of text files and the rows of tables, as streams.

Tables are .tsv, .csv, .jsonl and .parquet files.
"""

import csv
import itertools
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from bert_tf import file_checks, files, json_files
from bert_tf.errors import InputError
from bert_tf.tasks import parquet_table
from bert_tf.tasks.splits import ENDINGS

# The only name in a header line that contains one of these is probably several names.
_SEPARATORS = re.compile("[,;|\t]")


def lines(path: str) -> Iterator[tuple[int, str]]:
    r"""Returns the number of each line, from 1, and the line without its end, \n or \r\n.

    Raises:
        InputError: The file is missing, is not a regular file or is not UTF-8.
    """
    _check_file(path)
    return enumerate(files.read_lines(path), start=1)


def _check_file(path: str) -> None:
    """Checks that a file can be read several times: it is not a folder, a pipe or a device."""
    files.check_is_file(path)
    file_checks.check_is_regular(path)


def column_values(
    path: str,
    columns: Sequence[str | None],
    optional: Collection[str] = (),
    parameters: Sequence[str] = (),
    with_row: bool = False,
    *,
    header: Sequence[str] | None = None,
    remedy: str | None = None,
    is_released: bool = False,
) -> Iterator[tuple[int, list[Any]]]:
    """Yields the number of each row, and the row's values in the given columns.

    The number of a row is the number of its first line, from 1; in a Parquet file, the number of
    the row. The values of a `.tsv` or `.csv` file are texts.

    Args:
        path: A `.tsv` or `.csv` file with a header line, or a `.jsonl` or `.parquet` file.
        columns: The names of the columns; the value of None is None.
        optional: The columns that may be missing; a missing value is None.
        parameters: For each column, the parameter that names it, for error messages; or ().
        with_row: Whether a dict with the values of all columns is added to the values of a row.
        header: The names of all columns of a text file without a header line.
        remedy: The end of the message about a missing column, if it differs from the usual one.
        is_released: Whether the file is a tab-separated one of a public data set. It may have any
            name, and its rows may lack their last fields, whose values are None.

    Raises:
        InputError: The file is missing or is not in the format of its name, a column is missing, or
            a row is malformed.
    """

    def check(place: str, existing: Collection[str]) -> None:
        _check_columns(place, existing, columns, optional, parameters, remedy)

    ending = ".tsv" if is_released else os.path.splitext(path)[1].lower()
    if ending not in ENDINGS:
        raise InputError(f"The name of {path} must end in one of {', '.join(ENDINGS)}.")
    if ending == ".parquet":
        _check_file(path)
        rows = parquet_table.rows(path, check, None if with_row else columns)
    elif ending == ".jsonl":
        rows = _json_rows(path, check)
    else:
        lists = comma_separated(path, True) if ending == ".csv" else tab_separated(path, True)
        rows = _rows_of_lists(path, lists, check, header, is_released)
    for number, row in rows:
        values: list[Any] = [row.get(name) for name in columns]  # type: ignore[arg-type]
        yield number, [*values, row] if with_row else values


def _check_columns(
    place: str,
    existing: Collection[str],
    columns: Sequence[str | None],
    optional: Collection[str],
    parameters: Sequence[str],
    remedy: str | None,
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


def _json_rows(
    path: str, check: Callable[[str, Collection[str]], None]
) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, row in json_lines(path):
        check(f"{path}, line {number}", row)
        yield number, row


def json_lines(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the number and the JSON object of each line that is not empty.

    Raises:
        InputError: A line is not a JSON object, or as in `lines`.
    """
    for number, line in lines(path):
        if line.strip():
            # Many programs write NaN.
            row = json_files.parse(line, f"{path}, line {number}")
            if not isinstance(row, dict):
                raise InputError(
                    f"{path}, line {number}: a JSON object is required. Received: {line[:60]}."
                )
            yield number, row


def _rows_of_lists(
    path: str,
    lists: Iterator[tuple[int, list[str]]],
    check: Callable[[str, Collection[str]], None],
    header: Sequence[str] | None,
    may_be_short: bool,
) -> Iterator[tuple[int, dict[str, Any]]]:
    place = "header line" if header is None else "file"
    if header is None:
        _, header = next(filter(lambda each: each[1] != [""], lists), (0, None))
    if header is None:
        raise InputError(f"{path} is empty. A header line with the names of columns is required.")
    check(path, header)
    for number, fields in lists:
        # In a file of one column, an empty line is a row.
        if fields == [""] and len(header) > 1:
            continue
        if len(fields) > len(header) or (len(fields) < len(header) and not may_be_short):
            raise InputError(
                f"{path}, line {number}: {len(fields)} fields, but the {place} has "
                f"{len(header)}. Write one field for each column."
            )
        yield number, dict(itertools.zip_longest(header, fields))


def tab_separated(path: str, with_empty: bool = False) -> Iterator[tuple[int, list[str]]]:
    r"""Yields the number and the fields of each line.

    Empty lines are skipped or, with `with_empty`, have one empty field.

    Quotes are ordinary characters, and a line ends only at \n or \r\n.

    Raises:
        InputError: As in `lines`.
    """
    for number, line in lines(path):
        if line or with_empty:
            yield number, line.split("\t")


def comma_separated(path: str, with_empty: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Yields each row's first line number and fields; a quoted field may span several lines.

    Empty lines are skipped or, with `with_empty`, have one empty field.

    Raises:
        InputError: The file is not CSV, or as in `lines`.
    """
    reader = csv.reader((f"{line}\n" for _, line in lines(path)), strict=True)
    first = 1
    while True:
        # The limit is a setting of the process, so it is changed only while a row is read. The
        # default is 131,072 characters.
        limit = csv.field_size_limit(2**31 - 1)
        try:
            fields = next(reader, None)
        except csv.Error as error:
            raise InputError(
                f"{path}, line {first} is not CSV: {str(error).split(' - ')[0]}. Quote a field "
                "that contains a comma, a quote or a line break, and double the quotes in it."
            ) from error
        finally:
            csv.field_size_limit(limit)
        if fields is None:
            return
        if fields or with_empty:
            yield first, fields or [""]
        first = reader.line_num + 1
