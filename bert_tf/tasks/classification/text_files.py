"""Reads examples from GLUE files and from the user's own data files."""

import csv
import dataclasses
import json
import os
from collections.abc import Iterator, Sequence

from bert_tf import files
from bert_tf.errors import InputError


@dataclasses.dataclass(frozen=True)
class TextExample:
    """A sentence or a sentence pair, with its label. The label is None if there is no label."""

    text_a: str
    text_b: str | None = None
    label: str | None = None


@dataclasses.dataclass(frozen=True)
class Columns:
    """The column numbers of a tab-separated GLUE file, from 0.

    Attributes:
        text_a: Column of the sentence, or of the first sentence of a pair.
        text_b: Column of the second sentence of a pair; None for single sentences.
        label: Column of the label; None for a test file.
        header: Whether the first line contains the names of the columns.
    """

    text_a: int
    text_b: int | None = None
    label: int | None = None
    header: bool = True


def read_glue(path: str, columns: Columns, labels: Sequence[str]) -> list[TextExample]:
    """Reads a GLUE file, in which quotes are ordinary characters.

    Args:
        path: A `.tsv` file.
        columns: The column numbers.
        labels: The allowed labels.

    Raises:
        InputError: The file is missing, a line has too few columns, or a label is not one of
            `labels`.
    """
    examples = []
    for number, line in enumerate(_lines(path), start=1):
        line = line.removesuffix("\r")
        if (number == 1 and columns.header) or not line:
            continue
        fields = line.split("\t")
        used = [c for c in (columns.text_a, columns.text_b, columns.label) if c is not None]
        if max(used) >= len(fields):
            raise InputError(
                f"{path}, line {number}: {len(fields)} columns, but column {max(used) + 1} is "
                "required. Is this the right file for the task?"
            )
        label = None if columns.label is None else fields[columns.label]
        _check_label(label, labels, path, number)
        text_b = None if columns.text_b is None else fields[columns.text_b]
        examples.append(TextExample(fields[columns.text_a], text_b, label))
    return examples


def read_custom(
    path: str, text_a: str, text_b: str | None, label: str | None, labels: Sequence[str] | None
) -> list[TextExample]:
    """Reads a file with named columns: `.tsv` or `.csv` with a header line, or `.jsonl`.

    Args:
        path: The file.
        text_a: Column of the sentence, or of the first sentence of a pair.
        text_b: Column of the second sentence of a pair; None for single sentences.
        label: Column of the label, or None if the file has no labels.
        labels: The allowed labels, or None to allow any.

    Raises:
        InputError: The file is missing or malformed, a column is missing, or a label is not one
            of `labels`.
    """
    examples = []
    for number, row in _rows(path):
        for column in (text_a, text_b, label):
            if column is not None and row.get(column) is None:
                raise InputError(
                    f"{path}, line {number}: no column {column!r}. Its columns are: "
                    f"{', '.join(map(str, row))}. See text_a_column, text_b_column and "
                    "label_column."
                )
        label_value = None if label is None else str(row[label])
        if labels is not None:
            _check_label(label_value, labels, path, number)
        second = None if text_b is None else str(row[text_b])
        examples.append(TextExample(str(row[text_a]), second, label_value))
    return examples


def find_split_file(data_dir: str, split: str) -> str:
    """Returns the path of the file of a split: `<split>.tsv`, `.csv` or `.jsonl`.

    Raises:
        InputError: None of these files exists.
    """
    import tensorflow as tf

    names = [f"{split}{suffix}" for suffix in (".tsv", ".csv", ".jsonl")]
    for name in names:
        path = os.path.join(data_dir, name)
        if tf.io.gfile.exists(path):
            return path
    raise InputError(f"{data_dir} has none of {', '.join(names)}.")


def _rows(path: str) -> Iterator[tuple[int, dict[str, str]]]:
    if path.endswith(".jsonl"):
        for number, line in enumerate(_lines(path), start=1):
            if line.strip():
                yield number, _json_object(line, path, number)
        return
    lists = _comma_separated(path) if path.endswith(".csv") else _tab_separated(path)
    _, header = next(lists, (1, []))
    for number, fields in lists:
        yield number, dict(zip(header, fields, strict=False))


def _tab_separated(path: str) -> Iterator[tuple[int, list[str]]]:
    """Yields the number and the fields of each line; quotes are ordinary characters."""
    for number, line in enumerate(_lines(path), start=1):
        line = line.removesuffix("\r")
        if line:
            yield number, line.split("\t")


def _comma_separated(path: str) -> Iterator[tuple[int, list[str]]]:
    """Returns each row's first line number and fields; a quoted field may span several lines."""
    reader = csv.reader((f"{line}\n" for line in _lines(path)), strict=True)
    rows, first = [], 1
    limit = csv.field_size_limit(2**31 - 1)  # a global setting; its default is 131,072 characters
    try:
        for fields in reader:
            if fields:
                rows.append((first, fields))
            first = reader.line_num + 1
        return iter(rows)
    except csv.Error as error:
        raise InputError(
            f"{path}, line {first} is not CSV: {str(error).split(' - ')[0]}. Quote a field that "
            "contains a comma, a quote or a line break, and double the quotes in it."
        ) from error
    finally:
        csv.field_size_limit(limit)


def _lines(path: str) -> list[str]:
    """Returns the lines of a file. A byte-order mark, as in GLUE's MRPC files, is removed."""
    return files.read_text(path).removeprefix("\ufeff").split("\n")


def _json_object(line: str, path: str, number: int) -> dict[str, str]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(f"{path}, line {number} is not JSON: {error}.") from error
    if not isinstance(row, dict):
        raise InputError(
            f"{path}, line {number}: a JSON object is required. Received: {line[:60]}."
        )
    return row


def _check_label(label: str | None, labels: Sequence[str], path: str, number: int) -> None:
    if label is not None and label not in labels:
        raise InputError(
            f"{path}, line {number}: the label {label!r} is not one of {', '.join(labels)}."
        )
