"""`PredictionFiles`: the output files of a `tasks.task.PredictionWriter`."""

import contextlib
import os
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Protocol, TypeVar

from bert_tf import files
from bert_tf.errors import InputError


class _Closable(Protocol):
    def close(self) -> None: ...


_File = TypeVar("_File", bound=_Closable)
_Self = TypeVar("_Self", bound="PredictionFiles")
_LINES_PER_WRITE = 1000


class LineFile:
    """A text file that is written in blocks of lines.

    Args:
        path: The path of the file.
    """

    def __init__(self, path: str) -> None:
        import tensorflow as tf

        self._file = tf.io.gfile.GFile(path, "wb")
        self._lines: list[str] = []

    def add(self, line: str) -> None:
        """Adds a line, which is given without its end."""
        self._lines.append(line)
        if len(self._lines) >= _LINES_PER_WRITE:
            self._flush()

    def _flush(self) -> None:
        self._file.write("".join(f"{line}\n" for line in self._lines).encode())
        self._lines.clear()

    def close(self) -> None:
        """Writes the last block."""
        self._flush()
        self._file.close()


def shortest_float(value: Any) -> float:
    """Converts a float32 to the float with the fewest digits that rounds to the same float32."""
    return float(str(value))


class PredictionFiles:
    """A context manager for files that appear together, when it ends without an error.

    A subclass opens its files in `_open_files`, and may continue in `_on_complete`.

    Args:
        folder: The folder of the files.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._stack = contextlib.ExitStack()

    def __enter__(self: _Self) -> _Self:
        with self._stack:  # closes and removes the files if one of them cannot be opened
            self._open_files()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, traceback)
        if error is None:
            self._on_complete()

    def baseline(self) -> dict[str, float]:
        """Returns {}: the class of a task with a known baseline replaces this method."""
        return {}

    def _open(self, name: str, make: Callable[[str], _File]) -> _File:
        """Opens a file.

        Args:
            name: The name of the file.
            make: Opens the file with a temporary path.
        """
        path = os.path.join(self._folder, name)
        temporary = self._stack.enter_context(files.atomic_replace(path))
        return self._stack.enter_context(contextlib.closing(make(temporary)))

    def _open_files(self) -> None:
        raise NotImplementedError

    def _on_complete(self) -> None:
        """Runs after the files have appeared."""


def check_not_replaced(source: str, folder: str, names: Iterable[str | None]) -> None:
    """Checks that no output file replaces a file that is read.

    Args:
        source: The file that is read.
        folder: The output folder.
        names: The names of the output files; None is ignored.

    Raises:
        InputError: The file is in the output folder and has the name of an output file.
    """
    for name in filter(None, names):
        if os.path.realpath(os.path.join(folder, name)) == os.path.realpath(source):
            raise InputError(
                f"{source} would be replaced, because {name} is the name of an output file. Give "
                "another output_dir."
            )
