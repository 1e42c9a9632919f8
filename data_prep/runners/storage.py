"""Writes local and remote files. TensorFlow is imported only for remote files.

With several workers, the main process does not import TensorFlow, because the import takes seconds
and hundreds of megabytes of memory. So this module is used instead of `bert_tf.files`, which
imports TensorFlow for local files too.

Imports `files`, `atomic_files` and `errors`, and TensorFlow inside functions.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from bert_tf import atomic_files, files
from bert_tf.errors import InputError
from bert_tf.temporary_files import temporary_prefix


def open_file(path: str, mode: str) -> Any:
    """Opens a file in a binary mode."""
    if "://" not in path:
        return open(path, mode)
    from tensorflow.io import gfile

    return gfile.GFile(path, mode)


@contextlib.contextmanager
def atomic_replace(path: str) -> Iterator[str]:
    """Yields the path of a temporary file, which is renamed to `path` on success.

    The temporary file is in the folder of `path`; if `path` is a link, in the folder of its target.
    The temporary file is flushed to disk before the renaming. After an error, the temporary file is
    removed.

    Raises:
        InputError: `path` cannot be written: no permission, no such folder, no space.
    """
    if "://" in path:
        with files.atomic_replace(path) as temporary:
            yield temporary
        return
    target = atomic_files.resolve_output(path)
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f"{temporary_prefix(name)}{os.getpid()}.tmp")
    try:
        yield temporary
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)
        if isinstance(error, OSError):
            raise InputError(f"{path} cannot be written: {error.strerror}.") from error
        raise


def write_bytes(path: str, content: bytes) -> None:
    """Writes a file atomically."""
    with atomic_replace(path) as temporary, open_file(temporary, "wb") as file:
        file.write(content)
