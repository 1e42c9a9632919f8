"""Reads the lines of text files and the rows of tables, as streams.

Tables are .tsv, .csv, .jsonl and .parquet files. `aligned` formats tables for reports.
"""

import contextlib
import csv
import dataclasses
import functools
import itertools
import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from bert_tf.config_fields import documented, option
from bert_tf.errors import InputError, check_choices
from bert_tf.storage import files, json_files

ENDINGS = (".tsv", ".csv", ".jsonl", ".parquet")
# If a header line has only one name, and the name contains one of these, the columns
# probably have another separator.
_SEPARATORS = re.compile("[,;|\t]")

# The first line of an array of objects or arrays.
_ARRAY = re.compile(r"\s*\[\s*([{\[]|$)")

_EXISTING = "Give the name of one of these columns."
_FIRST_LINE = (
    f"{_EXISTING} The first line of the file is read as the names of the columns; if "
    "it is a row, give header=False, and numbers from 0 as columns."
)

# Checks names of columns. Called with a place in a file, for messages, and the names.
Check = Callable[[str, Collection[str]], None]
# Called with the fields of the first line. Returns the names of the columns, or None if
# the fields are the names.
Header = Callable[[Sequence[str]], Sequence[str] | None]
Row = dict[str, Any]  # values by column, or another JSON object
# The number of each row, and the row.
Rows = Iterator[tuple[int, Row]]
# The number of each row, and its fields.
Lists = Iterator[tuple[int, list[str]]]
# The number of rows of a Parquet file that are read at a time.
_ROWS_PER_BATCH = 1024


@documented
@dataclasses.dataclass(frozen=True)
class TableFormat:
    """The file format, the encoding and the header of the user's tables.

    Raises:
        InputError: The format or the encoding is unknown.
    """

    input_format: str = option(
        "auto",
        "Format of tables. auto: determined by the ending of each file name (.tsv, "
        ".csv, .jsonl or .parquet).",
        choices=("auto", *(ending[1:] for ending in ENDINGS)),
    )
    encoding: str = option(
        "utf-8",
        "Encoding of tables that are not UTF-8, such as latin-1, cp1252 or utf-16.",
    )
    header: bool = option(
        True,
        "Whether the first line of .tsv and .csv tables has the names of the "
        "columns. With false, a column is its number, from 0.",
    )

    def __post_init__(self) -> None:
        check_choices(self)
        try:
            " ".encode(self.encoding)
        except LookupError as error:
            raise InputError(
                "encoding must be a known encoding, such as latin-1. Received: "
                f"{self.encoding!r}."
            ) from error

    def ending_of(self, path: str) -> str:
        """Returns the ending for the format of a file, such as ".csv"; "" if unknown."""
        if self.input_format != "auto":
            return f".{self.input_format}"
        ending = ending_without_gz(path)
        return ending if ending in ENDINGS else ""


def ending_without_gz(path: str) -> str:
    """Returns the ending of a name in lower case, such as .csv for a.CSV.gz."""
    return os.path.splitext(path.lower().removesuffix(".gz"))[1]


def place_of(path: str, number: int) -> str:
    """Returns text for messages: the file, and the line or Parquet row (from 1)."""
    return f"{path}, {'row' if path.lower().endswith('.parquet') else 'line'} {number}"


def lines(path: str, encoding: str | None) -> Iterator[tuple[int, str]]:
    r"""Yields the number of each line, from 1, and the line without \n or \r\n.

    The file may be packed with gzip. The encoding None means UTF-8.

    Raises:
        InputError: The file is missing, is not a regular file or has another encoding.
    """
    return enumerate(files.read_lines(path, encoding), start=1)


def column_values(
    path: str,
    columns: Sequence[str | None],
    optional: Collection[str] = (),
    parameters: Sequence[str] = (),
    with_row: bool = False,
    *,
    table_format: TableFormat | None = None,
    header: Header | None = None,
    remedy: str | None = None,
    is_released: bool = False,
) -> Iterator[tuple[int, list[Any]]]:
    """Yields the number of each row of a table, and its values in some columns.

    `rows` describes the arguments that are not listed here.

    Args:
        columns: The names of the columns to read; the name None has the value None.
        optional: The columns that may be missing; a missing value is None.
        parameters: For error messages, the parameter in which the user names each
            column, such as "label_column"; () for messages without parameters.
        with_row: Whether a dict with all columns of the row is the last value.
        remedy: The end of the message about a missing column; None for the default.

    Raises:
        InputError: A column is missing, or `rows` raises InputError.
    """
    form = table_format or TableFormat()
    has_names = form.header and form.ending_of(path) in (".csv", ".tsv")
    remedy = remedy or (_FIRST_LINE if has_names else _EXISTING)

    check = functools.partial(
        check_columns,
        columns=columns,
        optional=optional,
        parameters=parameters,
        remedy=remedy,
    )
    only = None if with_row else columns
    for number, row in rows(
        path,
        check,
        table_format=table_format,
        header=header,
        is_released=is_released,
        only=only,
    ):
        values = [None if name is None else row.get(name) for name in columns]
        yield number, [*values, row] if with_row else values


def rows(
    path: str,
    check: Check,
    table_format: TableFormat | None = None,
    header: Header | None = None,
    is_released: bool = False,
    only: Collection[str | None] | None = None,
) -> Rows:
    """Yields the number of each row of a table, and the row's values by column.

    A row has the number of its first line in the file, from 1; in a Parquet file, rows
    are counted from 1. The values of a `.tsv` or `.csv` file are texts. InputError is
    raised if the file is missing or not in its format, or if a row is malformed.

    Args:
        path: A `.tsv` or `.csv` file with a header line, or a `.jsonl` or `.parquet`
            file. The text files may be packed with gzip.
        check: Called with the names of the columns: once, or for each line of a
            `.jsonl` file.
        table_format: None means UTF-8, and the format that the ending of the path
            states.
        header: Names the columns of a `.tsv` or `.csv` file whose first line may be a
            row.
        is_released: Whether the file is a tab-separated file of a public data set. Such
            a file may have any name, and rows may lack their last fields, whose values
            are None.
        only: The columns to read from a Parquet file; None for all.
    """
    encoding = table_format.encoding if table_format else None
    form = table_format or TableFormat()
    ending = ".tsv" if is_released else form.ending_of(path)
    if not ending:
        raise InputError(
            f"The name of {path} must end in one of {', '.join(ENDINGS)}, or "
            "input_format must be given."
        )
    if ending == ".parquet":
        files.check_is_file(path)
        return _parquet_rows(path, check, only)
    if ending == ".jsonl":
        return json_lines(path, encoding, check)

    # Text files; without a header line, the name of a column is its number.
    if not form.header:
        header = header or (lambda first: [*map(str, range(len(first)))])
    read_lists = comma_separated if ending == ".csv" else tab_separated
    lists = read_lists(path, encoding, with_empty=True)
    return _rows_of_lists(
        path, lists, check=check, header=header, may_be_short=is_released
    )


def check_columns(
    place: str,
    existing: Collection[str],
    columns: Sequence[str | None],
    optional: Collection[str],
    parameters: Sequence[str],
    remedy: str,
) -> None:
    """Raises InputError if one of the columns is missing, or exists several times.

    `optional` columns may be missing, and None in `columns` is ignored. The message
    lists all missing columns and, unless `parameters` is (), the parameter that names
    each of `columns`; it ends in `remedy`.
    """
    for name in columns:
        if [*existing].count(name) > 1:  # type: ignore[arg-type]
            raise InputError(
                f"{place} has several columns {name!r}. Give them different names."
            )

    named = zip(columns, parameters or [""] * len(columns), strict=True)
    missing = [
        f"{name!r} ({parameter})" if parameter else repr(name)
        for name, parameter in named
        if name is not None and name not in existing and name not in optional
    ]
    if not missing:
        return

    # Blanks at the ends of a name are visible only in quotes.
    names = ", ".join(
        column if column and column == column.strip() else repr(column)
        for column in existing
    )
    if len(existing) == 1 and _SEPARATORS.search(names):
        remedy = (
            "Separate the columns with commas in a .csv file and with tabs in a .tsv "
            "file."
        )
    raise InputError(
        f"{place} has no column {', '.join(missing)}. Its columns are: {names[:200]}. "
        f"{remedy}"
    )


def json_lines(path: str, encoding: str | None, check: Check | None = None) -> Rows:
    """Yields the number and the JSON object of each line that is not empty.

    `check` is called with the file and number of each line, as text, and with its keys.
    """
    for number, line in lines(path, encoding):
        if number == 1 and _ARRAY.match(line):
            raise InputError(
                f"{path} is a JSON array. Write one object in each line, as jq -c "
                "'.[]' does."
            )
        if not line.strip():
            continue

        # `parse` accepts NaN, because many programs write it.
        is_cut = line.rstrip().endswith(("{", "[", ",", ":"))
        remedy = "Write each object in one line, as jq -c . does." if is_cut else ""
        row = json_files.parse(line, f"{path}, line {number}", remedy)
        if isinstance(row, list) and [*map(type, row)] == [str, dict]:
            row = {"text": row[0], **row[1]}  # an example of spaCy
        if not isinstance(row, dict):
            raise InputError(
                f"{path}, line {number}: a JSON object is required. Received: "
                f"{line[:60]}. Name the values, as jq -c '{{text: .[0], label: .[1]}}' "
                "does with an array in each line."
            )
        if check:
            check(f"{path}, line {number}", row)
        yield number, row


def _rows_of_lists(
    path: str,
    lists: Lists,
    check: Check,
    header: Header | None,
    may_be_short: bool,
) -> Rows:
    number, first = next((row for row in lists if row[1] != [""]), (0, []))
    if not first:
        raise InputError(
            f"{path} is empty. A line with the names of the columns is required."
        )

    # The first line has the names, or is a row.
    width_source, names = "header line", header(first) if header else None
    if names:
        width_source, lists = "file", itertools.chain([(number, first)], lists)
    check(path, names or first)
    keys = _different(names or first)

    for number, fields in lists:
        # In a file of one column, an empty line is a row.
        if fields == [""] and len(keys) > 1:
            continue
        # Spreadsheets write separators after the last column.
        is_short = len(fields) < len(keys) and not may_be_short
        if is_short or "".join(fields[len(keys) :]).strip():
            raise InputError(
                f"{path}, line {number}: {len(fields)} fields, but the {width_source} has "
                f"{len(keys)}. Write one field for each column. A .csv field with a "
                "comma needs quotes, and a .tsv field cannot contain a tab."
            )
        yield number, dict(itertools.zip_longest(keys, fields[: len(keys)]))


def _different(names: Sequence[str]) -> list[str]:
    """Returns distinct column names: a name that occurs several times gets its column number."""
    return [
        name if names.count(name) == 1 else f"{name} (column {number})".strip()
        for number, name in enumerate(names)
    ]


def tab_separated(
    path: str, encoding: str | None = None, with_empty: bool = False
) -> Lists:
    r"""Yields the number and the fields of each line.

    Empty lines are skipped or, with `with_empty`, have one empty field. Quotes are
    ordinary characters, and a line ends only at \n or \r\n.
    """
    for number, line in lines(path, encoding):
        if line or with_empty:
            yield number, line.split("\t")


def comma_separated(path: str, encoding: str | None, with_empty: bool = False) -> Lists:
    """Yields the number of each row's first line, and its fields.

    A quoted field may span several lines. Empty lines are skipped or, with
    `with_empty`, have one empty field. Malformed CSV raises InputError.
    """
    reader = csv.reader((f"{line}\n" for _, line in lines(path, encoding)), strict=True)
    first = 1
    while True:
        # The limit is a setting of the process, so it is changed only while a row is
        # read. The default is 131,072 characters.
        limit = csv.field_size_limit(2**31 - 1)
        try:
            fields = next(reader, None)
        except csv.Error as error:
            raise InputError(
                f"{path}, line {first} is not CSV: {str(error).split(' - ')[0]}. Quote "
                "a field that contains a comma, a quote or a line break, and double "
                "the quotes in it."
            ) from error
        finally:
            csv.field_size_limit(limit)

        if fields is None:
            return
        if fields or with_empty:
            yield first, fields or [""]
        first = reader.line_num + 1


def _parquet_rows(
    path: str,
    check: Check,
    only: Collection[str | None] | None,
) -> Rows:
    """Yields the number of each row, from 1, and the row's values by column."""
    with files.open_parquet(path) as table:
        names = table.schema_arrow.names
        check(path, names)
        used = [name for name in names if only is None or name in only]

        numbers = itertools.count(1)
        for batch in table.iter_batches(
            _ROWS_PER_BATCH, columns=used, use_threads=False
        ):
            columns = {name: _as_list(batch.column(name)) for name in used}
            for index in range(batch.num_rows):  # also if there are no columns
                row = {name: values[index] for name, values in columns.items()}
                yield next(numbers), row


def _as_list(column: Any) -> list[Any]:
    """Converts a Parquet column to Python values; binary values that are all UTF-8 become texts."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    is_binary = pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)
    # Bytes that are no text, such as those of images, stay as they are.
    with contextlib.suppress(pa.ArrowInvalid):
        column = column.cast(pa.large_string()) if is_binary else column
    return column.to_pylist()


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Formats rows of cells as lines; the first column is aligned left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
