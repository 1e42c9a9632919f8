"""Reads the inputs of a model from lines or tables for predict.py, and writes tables."""

import csv
import functools
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any

from bert_tf.errors import InputError
from bert_tf.tasks.tables import TableFormat, column_values, place_of
from bert_tf.tasks.values import text_of

if TYPE_CHECKING:
    from bert_tf.export.predictor import Predictor

Row = dict[str, Any]
# The value of each input of a model: a text, or a list of texts.
Texts = list[str | list[str]]
SEPARATORS = (" ||| ", "\t")  # between the texts of a line
PARAMETERS = ("text_a_column", "text_b_column")
# By default, the column of an input of a model has the name of the input or, if the
# table has no such column, this name.
_USUAL = {"text": "sentence", "text_a": "sentence1", "text_b": "sentence2"}
_ROWS_PER_BATCH = 1024


def read_rows(
    path: str,
    predictor: "Predictor",
    table_format: TableFormat,
    columns: Sequence[str | None] = (None, None),
    remedy: str | None = None,
) -> Iterator[tuple[Row, Texts]]:
    """Yields each row of a table, and the values of the inputs of a model in this row.

    Args:
        columns: For each input, the name of its column, or None for the default. An
            input that is a list of texts has a column with lists, or several columns,
            separated by commas.
        remedy: The end of the message about a missing column; see `column_values`.
    """
    read = functools.partial(
        column_values, path, with_row=True, table_format=table_format, remedy=remedy
    )

    # The column of each input, whose default depends on the columns of the table.
    first: Row = next((row for _, (row,) in read(())), {})
    names = []
    for name, column_name in zip(predictor.names, columns, strict=False):
        usual = _USUAL.get(name, name)
        names.append(
            column_name or (usual if usual in first and name not in first else name)
        )

    # A list of texts may be in several columns.
    parts = [name.split(",") for name in names]
    flat = [column for part in parts for column in part]
    parameters = [PARAMETERS[number] for number, part in enumerate(parts) for _ in part]

    for number, (*_, row) in read(flat, (), parameters):
        location = place_of(path, number)
        yield (
            row,
            [
                _texts(row, part, location)
                if name in predictor.list_names
                else text_of(row[part[0]], location)
                for name, part in zip(predictor.names, parts, strict=False)
            ],
        )


def _texts(row: Row, columns: Sequence[str], place: str) -> list[str]:
    values = row[columns[0]] if len(columns) == 1 else [row[name] for name in columns]
    if not isinstance(values, list):
        raise InputError(
            f"{place}: column {columns[0]!r} must be a list of texts. Give all columns "
            "of the choices, separated by commas, as text_b_column."
        )
    return [text_of(value, place) for value in values]


def texts_of_lines(
    lines: Iterable[str], predictor: "Predictor"
) -> Iterator[tuple[str, Texts]]:
    """Yields each line, and the values of the inputs of a model in this line.

    If the model takes several texts, one of `SEPARATORS` must separate them.
    """
    for number, line in enumerate(lines, start=1):
        if predictor.list_names:
            context, *choices = _split_line(line, number)
            yield line, [context, choices]
        elif len(predictor.names) == 1:
            yield line, [line]
        else:
            yield line, [*_split_line(line, number, maxsplit=1)]


def _split_line(text: str, number: int, maxsplit: int = -1) -> list[str]:
    """Splits a line at up to `maxsplit` separators (-1: all); without any, raises an error."""
    for separator in SEPARATORS:
        if separator in text:
            return text.split(separator, maxsplit)
    expected = (
        'pairs, "first ||| second"'
        if maxsplit == 1
        else '"context ||| choice ||| choice"'
    )
    raise InputError(
        f"Text {number}: the model takes {expected}. Received: {text[:60]!r}."
    )


def write_lines(
    rows: Iterable[Row], ending: str, stream: IO[str], header: bool
) -> None:
    """Writes rows as a .jsonl, .csv or .tsv table; lists and dicts in a cell are JSON."""
    if ending == ".jsonl":
        for row in rows:
            stream.write(json.dumps(row, ensure_ascii=False, default=str) + "\n")
        return
    writer = csv.writer(stream, lineterminator="\n")
    for row in rows:
        names, header = [list(row)] if header else [], False
        for cells in [*names, [*map(cell_text, row.values())]]:
            if ending == ".csv":
                writer.writerow(cells)
            else:  # quotes are ordinary characters
                stream.write("\t".join(cells) + "\n")


def cell_text(value: Any) -> str:
    """Returns the text of a value in a table; lists and dicts are JSON."""
    text = "" if value is None else value
    return (
        text
        if isinstance(text, str)
        else json.dumps(value, ensure_ascii=False, default=str)
    )


def _plain(value: Any) -> Any:
    """Returns lists (not vectors) and dicts as JSON text: their types differ between rows."""
    is_vector = isinstance(value, list) and value and isinstance(value[0], float)
    return (
        cell_text(value) if isinstance(value, (list, dict)) and not is_vector else value
    )


def write_parquet(rows: Iterable[Row], source: str, path: str) -> None:
    """Writes rows as a Parquet file; the columns of the file `source` keep their types."""
    import pyarrow as pa
    import pyarrow.parquet

    known = pa.parquet.read_schema(source)
    writer = None
    rows = iter(rows)
    while batch := list(itertools.islice(rows, _ROWS_PER_BATCH)):
        batch = [
            {n: v if n in known.names else _plain(v) for n, v in r.items()}
            for r in batch
        ]
        if writer is None:
            schema = pa.Table.from_pylist(batch).schema
            fields = [
                known.field(n) if n in known.names else schema.field(n)
                for n in schema.names
            ]
            writer = pa.parquet.ParquetWriter(path, pa.schema(fields))
        writer.write_table(pa.Table.from_pylist(batch, schema=writer.schema))
    if writer is not None:
        writer.close()
