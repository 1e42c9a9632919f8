"""Reads the rows of tables as a stream: .tsv, .csv, .jsonl and .parquet files."""

import csv
import itertools
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from bert_tf import json_files
from bert_tf.errors import InputError
from bert_tf.tasks import parquet_table, text_files
from bert_tf.tasks.column_names import check_columns
from bert_tf.tasks.splits import ENDINGS


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
        check_columns(place, existing, columns, optional, parameters, remedy)

    ending = ".tsv" if is_released else os.path.splitext(path)[1].lower()
    if ending not in ENDINGS:
        raise InputError(f"The name of {path} must end in one of {', '.join(ENDINGS)}.")
    if ending == ".parquet":
        rows = parquet_table.rows(path, check, None if with_row else columns)
    elif ending == ".jsonl":
        rows = _json_rows(path, check)
    else:
        lists = comma_separated(path) if ending == ".csv" else tab_separated(path)
        rows = _rows_of_lists(path, lists, check, header, is_released)
    for number, row in rows:
        values: list[Any] = [row.get(name) for name in columns]  # type: ignore[arg-type]
        yield number, [*values, row] if with_row else values


def _json_rows(
    path: str, check: Callable[[str, Collection[str]], None]
) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, row in json_lines(path):
        check(f"{path}, line {number}", row)
        yield number, row


def json_lines(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the number and the JSON object of each line that is not empty.

    Raises:
        InputError: A line is not a JSON object, or as in `text_files.lines`.
    """
    for number, line in text_files.lines(path):
        if line.strip():
            # Many programs write NaN.
            row = json_files.parse(line, f"{path}, line {number}", allow_nan=True)
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
        _, header = next(lists, (0, None))
    if header is None:
        raise InputError(f"{path} is empty. A header line with the names of columns is required.")
    check(path, header)
    for number, fields in lists:
        if len(fields) > len(header) or (len(fields) < len(header) and not may_be_short):
            raise InputError(
                f"{path}, line {number}: {len(fields)} fields, but the {place} has "
                f"{len(header)}. Write one field for each column."
            )
        yield number, dict(itertools.zip_longest(header, fields))


def tab_separated(path: str) -> Iterator[tuple[int, list[str]]]:
    r"""Yields the number and the fields of each line that is not empty.

    Quotes are ordinary characters, and a line ends only at \n or \r\n.

    Raises:
        InputError: As in `text_files.lines`.
    """
    for number, line in text_files.lines(path):
        if line:
            yield number, line.split("\t")


def comma_separated(path: str) -> Iterator[tuple[int, list[str]]]:
    """Yields each row's first line number and fields; a quoted field may span several lines.

    Raises:
        InputError: The file is not CSV, or as in `text_files.lines`.
    """
    reader = csv.reader((f"{line}\n" for _, line in text_files.lines(path)), strict=True)
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
        if fields:
            yield first, fields
        first = reader.line_num + 1
