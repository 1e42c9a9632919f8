"""Checks what a function reads from a file: equal values, or one line of error."""

from refusals import refused_with

from bert_tf.tasks.splits import RowCounts
from bert_tf.tasks.task import DataLocation


class Refused(tuple):
    """The words of the one line with which a file is refused."""


def refused(*words):
    return Refused(words)


def write(path, content):
    """Writes a text or bytes, and returns the path as text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def check(read, path, expected):
    """Checks what a function returns for a file, or that it refuses the file.

    Returns the message of the refusal.
    """
    if not isinstance(expected, Refused):
        assert read(path) == expected
        return ""
    with refused_with(*expected) as caught:
        read(path)
    return str(caught.value)


def read_split(task, kind, counts=None, **location):
    """Returns the examples of the first split of a kind."""
    split, *_ = task.splits(kind, DataLocation(**location))
    return list(task.read(split, RowCounts() if counts is None else counts))
