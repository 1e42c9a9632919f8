"""Reads the text files of data sets: lines, and JSON values.

All readers of text files use this module, so that each file that is not plain UTF-8 text is refused
here.
"""

from collections.abc import Iterator
from typing import Any

from bert_tf import file_checks, files, json_files
from bert_tf.errors import InputError


def check_data_file(path: str) -> None:
    """Checks that a file can be read several times.

    Raises:
        InputError: There is no such file, or it is a folder, a pipe or a device.
    """
    files.check_is_file(path)
    file_checks.check_is_regular(path)


def lines(path: str) -> Iterator[tuple[int, str]]:
    r"""Yields the number of each line, from 1, and the line without its end, \n or \r\n.

    Raises:
        InputError: The file is missing, is not a regular file or is not UTF-8, a line contains a
            NUL character, or the first line contains a carriage return.
    """
    check_data_file(path)
    for number, line in enumerate(files.read_lines(path), start=1):
        if "\0" in line:
            raise InputError(
                f"{path}, line {number} contains a NUL character, as in files in UTF-16. Convert "
                "the file to UTF-8, for example with: iconv -f UTF-16LE -t UTF-8. Or remove the "
                "character."
            )
        if number == 1 and "\r" in line:
            raise InputError(
                f"{path}: the first line contains a carriage return. If the lines of this file end "
                "with carriage returns only, convert them with: tr '\\r' '\\n'."
            )
        yield number, line


def json_file(path: str) -> Any:
    """Returns the JSON value in a file; see `json_value`.

    Raises:
        InputError: As in `json_value`, or the file is missing, is not a regular file or is not
            UTF-8.
    """
    check_data_file(path)
    return json_value(files.read_text(path), path)


def json_value(text: str, place: str) -> Any:
    """Returns a JSON value. NaN is accepted, because many programs write it.

    Args:
        text: The JSON text.
        place: The file and, if the text is a line of it, the line, for error messages.

    Raises:
        InputError: See `json_files.parse`.
    """
    return json_files.parse(text, place, allow_nan=True)
