"""Reads the rows of tables as a stream: .tsv, .csv and .jsonl files.

Imports `errors` and `files`.
"""

import csv
import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any

from bert_tf import files
from bert_tf.errors import InputError


@dataclasses.dataclass(frozen=True)
class FileSource:
    """A file as the `tasks.task.Source` of a split.

    Attributes:
        name: The path of the file.
    """

    name: str

    def fingerprint(self) -> str:
        """Returns the SHA-256 of the file.

        Raises:
            InputError: The file is missing or cannot be read.
        """
        return f"SHA-256 {files.sha256_of_file(self.name)}"


def named_rows(path: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yields the line number and the values by column name of each row.

    Args:
        path: A `.tsv` or `.csv` file with a header line, or a `.jsonl` file.

    Raises:
        InputError: The file is missing, is not UTF-8, or a row is malformed.
    """
    if path.endswith(".jsonl"):
        for number, line in enumerate(files.read_lines(path), start=1):
            if line.strip():
                yield number, _json_object(line, path, number)
        return
    lists = comma_separated(path) if path.endswith(".csv") else tab_separated(path)
    _, header = next(lists, (1, []))
    for number, fields in lists:
        yield number, dict(zip(header, fields, strict=False))


def tab_separated(path: str) -> Iterator[tuple[int, list[str]]]:
    r"""Yields the number and the fields of each line that is not empty.

    Quotes are ordinary characters, and a line ends only at \n or \r\n.

    Raises:
        InputError: The file is missing or is not UTF-8.
    """
    for number, line in enumerate(files.read_lines(path), start=1):
        if line:
            yield number, line.split("\t")


def comma_separated(path: str) -> Iterator[tuple[int, list[str]]]:
    """Yields each row's first line number and fields; a quoted field may span several lines.

    Raises:
        InputError: The file is missing, is not UTF-8, or is not CSV.
    """
    reader = csv.reader((f"{line}\n" for line in files.read_lines(path)), strict=True)
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


def _json_object(line: str, path: str, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{path}, line {number} is not JSON: {error}.") from error
    if not isinstance(row, dict):
        raise InputError(
            f"{path}, line {number}: a JSON object is required. Received: {line[:60]}."
        )
    return row
