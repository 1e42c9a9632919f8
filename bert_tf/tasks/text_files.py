"""Reads the lines of the text files of data sets."""

from collections.abc import Iterator

from bert_tf import file_checks, files


def check_data_file(path: str) -> None:
    """Checks that a file can be read several times.

    Raises:
        InputError: There is no such file, or it is a folder, a pipe or a device.
    """
    files.check_is_file(path)
    file_checks.check_is_regular(path)


def lines(path: str) -> Iterator[tuple[int, str]]:
    r"""Returns the number of each line, from 1, and the line without its end, \n or \r\n.

    Raises:
        InputError: The file is missing, is not a regular file or is not UTF-8.
    """
    check_data_file(path)
    return enumerate(files.read_lines(path), start=1)
