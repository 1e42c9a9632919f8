"""The rule for outputs that exist: a program replaces only what bert-tf has written.

- A program never replaces a file that it reads: `check_is_not_input`, and
  `paths.check_output_file` before the work.
- In a folder that may contain files of others, outputs need a mark next to them, such
  as a lock file or an index, which shows that bert-tf wrote them: `check_is_own`.
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
    """Raises `InputError` if an output exists in a folder, but none of the marks.

    `outputs` and `marks` are names in the folder. One mark is enough to show that
    bert-tf has written the outputs. The message contains `reason`, which says why an
    output without a mark is not replaced, and `remedy`, such as "Give another
    output_dir".
    """
    output = first_existing(folder, outputs)
    if output and not first_existing(folder, marks):
        raise refusal(output, f"but {reason}", remedy)


def first_existing(folder: str, names: Iterable[str]) -> str | None:
    """Returns the path of the first name in a folder that exists, or None."""
    for name in names:
        path = os.path.join(folder, name)
        # TensorFlow, whose import takes seconds, is imported only for a remote path.
        if files.exists(path) if "://" in path else os.path.lexists(path):
            return path
    return None


def first_foreign(folder: str, is_own: Callable[[str], Any]) -> str | None:
    """Returns the first name in a folder for which `is_own` is false, or None.

    A name is the relative path of a file or empty subfolder, as `names_in` yields it.
    The folder may be absent.
    """
    return next((name for name in names_in(folder) if not is_own(name)), None)


def names_in(folder: str) -> Iterator[str]:
    """Yields the relative path of each file in a folder, and `name/` for an empty subfolder."""
    for name in files.list_folder(folder):
        path = os.path.join(folder, name)
        if not files.gfile().isdir(path):
            yield name
        elif not files.list_folder(path):
            yield f"{name}/"
        else:
            yield from (f"{name}/{below}" for below in names_in(path))


def check_is_not_input(source: str, folder: str, names: Iterable[str]) -> None:
    """Raises `InputError` if the input `source` is one of the output files, `folder`/`names`."""
    for name in names:
        if os.path.realpath(os.path.join(folder, name)) == os.path.realpath(source):
            reason = f"because {name} is the name of an output file"
            raise refusal(source, reason, "Give another output_dir")
