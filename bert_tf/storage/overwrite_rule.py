"""The rule for outputs that exist: a program replaces only what bert-tf has written.

- A program never replaces a file that it reads: `check_is_not_input`, and
  `paths.check_output_file` before the work.
- Files in a folder of several owners need a mark next to them, such as a lock file or
  an index, which shows that bert-tf has written them: `check_is_own`.
- A folder that is replaced as a whole must contain nothing else than files of the kind
  that is written: `first_foreign`.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from bert_tf.errors import InputError
from bert_tf.storage import files


def refusal(path: str, reason: str, remedy: str) -> InputError:
    """Returns the error for an output that may not be replaced."""
    return InputError(f"{path} would be replaced, {reason}. {remedy}.")


def check_is_own(
    folder: str,
    outputs: Iterable[str],
    marks: Iterable[str],
    reason: str,
    remedy: str,
) -> None:
    """Checks that existing outputs were written by bert-tf.

    Args:
        folder: The output folder.
        outputs: The names in it that the program writes.
        marks: The names which show, each of them, that bert-tf has written the outputs.
        reason: Why an output without a mark is not replaced, for the message.
        remedy: A sentence for the message, such as "Give another output_dir".

    Raises:
        InputError: An output exists, and no mark does.
    """
    found = first_existing(folder, outputs)
    if found and not first_existing(folder, marks):
        raise refusal(found, f"but {reason}", remedy)


def first_existing(folder: str, names: Iterable[str]) -> str | None:
    """Returns the path of the first of these files or folders that exists."""
    for name in names:
        path = os.path.join(folder, name)
        # TensorFlow, whose import takes seconds, is imported only for a remote path.
        if files.exists(path) if "://" in path else os.path.lexists(path):
            return path
    return None


def first_foreign(folder: str, is_own: Callable[[str], Any]) -> str | None:
    """Returns the first file or empty folder in a folder that may not be removed.

    Args:
        folder: The folder, which may be absent.
        is_own: Whether a name, relative to the folder, is that of a file of the kind
            that will be written.
    """
    return next((name for name in names_in(folder) if not is_own(name)), None)


def names_in(folder: str) -> Iterator[str]:
    """Yields the relative paths of all files in a folder and its subfolders.

    The name of an empty subfolder ends with a slash.
    """
    for name in files.list_folder(folder):
        path = os.path.join(folder, name)
        if not files.gfile().isdir(path):
            yield name
        elif not files.list_folder(path):
            yield f"{name}/"
        else:
            yield from (f"{name}/{below}" for below in names_in(path))


def check_is_not_input(source: str, folder: str, names: Iterable[str]) -> None:
    """Checks that no output file replaces a file that is read.

    Args:
        source: The file that is read.
        folder: The output folder.
        names: The names of the output files.

    Raises:
        InputError: The file is in the output folder and has the name of an output file.
    """
    for name in names:
        if os.path.realpath(os.path.join(folder, name)) == os.path.realpath(source):
            reason = f"because {name} is the name of an output file"
            raise refusal(source, reason, "Give another output_dir")
