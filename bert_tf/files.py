"""Files that appear whole or not at all, local or gs://.

Imports `errors`; TensorFlow inside functions.
"""

import hashlib
import json
import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from bert_tf.errors import InputError, plain_message

_OTHER_MARKS = {
    b"\xff\xfe\0\0": "UTF-32", b"\0\0\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}  # fmt: skip


def _gfile() -> Any:
    from tensorflow.io import gfile

    return gfile


def read_bytes(path: str) -> bytes:
    """The whole file.

    Raises:
        InputError: The file is missing or cannot be read.
    """
    gfile = _gfile()
    if not gfile.exists(path):
        raise InputError(f"There is no file {path}.")
    if gfile.isdir(path):
        raise InputError(f"{path} is a folder; a file is needed.")
    import tensorflow as tf

    try:
        with gfile.GFile(path, "rb") as file:
            return file.read()
    except tf.errors.OpError as error:
        raise InputError(f"{path} cannot be read: {error.message}.") from error


def read_text(path: str) -> str:
    """The whole file as UTF-8.

    Raises:
        InputError: The file is missing, cannot be read, or is not UTF-8 (the line is named).
    """
    raw = read_bytes(path)
    check_mark(path, raw)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path} is not UTF-8: byte 0x{raw[error.start]:02x} in line {line}. Convert it first."
        ) from error


def check_mark(path: str, start: bytes) -> None:
    """Looks for the mark that text in another encoding starts with.

    Args:
        path: The file, for the message.
        start: Its first bytes, at least four if there are so many.

    Raises:
        InputError: It starts with the mark of UTF-16 or UTF-32.
    """
    mark = next((mark for mark in _OTHER_MARKS if start.startswith(mark)), None)
    if mark:
        raise InputError(
            f"{path} is {_OTHER_MARKS[mark]}, by the mark that it starts with. Convert it to UTF-8:"
            f" iconv -f {_OTHER_MARKS[mark]} -t UTF-8."
        )


def write_bytes(path: str, content: bytes) -> None:
    """Writes the file under a temporary name, brings it to disk, and renames it."""
    with replacing(path) as temporary, _gfile().GFile(temporary, "wb") as file:
        file.write(content)


def write_text(path: str, content: str) -> None:
    """Writes UTF-8 under a temporary name, brings it to disk, and renames it."""
    write_bytes(path, content.encode("utf-8"))


def write_json(path: str, value: Any) -> None:
    """Writes indented JSON with sorted keys, whole or not at all."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


@contextmanager
def replacing(path: str) -> Iterator[str]:
    """Gives a temporary name beside `path`; what stands there at the end becomes `path`.

    The temporary name (`hidden`) matches no glob for finished files. On an error what was written
    is removed and `path` is as before.

    Args:
        path: The file or folder to make. An existing file is replaced, an existing folder too.
            Folders only where the file system can rename one: `appearing` is for the others.

    Raises:
        InputError: It cannot be written: no permission, no such folder, no space.
    """
    gfile = _gfile()
    folder, name = os.path.split(path)
    if folder:
        make_folder(folder)
    temporary = os.path.join(folder, f"{hidden(name)}{uuid.uuid4().hex[:8]}.tmp")
    try:
        with naming(path):
            yield temporary
            _sync(temporary)
            if gfile.isdir(temporary) and gfile.exists(path):
                gfile.rename(path, f"{temporary}.old")
            gfile.rename(temporary, path, overwrite=True)
            _sync_entry(folder or ".")
    except BaseException as error:
        if gfile.exists(f"{temporary}.old") and not gfile.exists(path):
            gfile.rename(f"{temporary}.old", path)
        remove(temporary)
        if isinstance(error, InputError) and temporary in str(error):
            raise InputError(str(error).replace(temporary, path)) from error
        raise
    finally:
        remove(f"{temporary}.old")


def hidden(name: str) -> str:
    """How a file's temporary names start; TensorFlow's globs find names with a dot in front too."""
    return f".{name.replace('.', '_')}."


@contextmanager
def appearing(folder: str, marker: str) -> Iterator[str]:
    """Where to write the files of a folder that counts only when all of them are there.

    A local folder appears by rename. Object stores (`gs://`) and `ram://` rename no folder at
    once: there the files are written in place, and the marker, written last, makes the folder. On
    an error nothing of it stays.

    Args:
        folder: The folder to make; an existing one is replaced.
        marker: The file that the caller writes last, and without which a reader takes the folder
            for unfinished.
    """
    if "://" not in folder:
        with replacing(folder) as temporary:
            yield temporary
        return
    # The marker first: a removal that is cut off leaves no folder that looks whole.
    remove(os.path.join(folder, marker))
    remove(folder)
    try:
        with naming(folder):
            yield folder
    except BaseException:
        remove(folder)
        raise


def remove(path: str) -> None:
    """Removes a file or a folder, if it is there."""
    gfile = _gfile()
    if gfile.exists(path):
        gfile.rmtree(path) if gfile.isdir(path) else gfile.remove(path)


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Turns what a file system refuses into one line that names the path.

    Raises:
        InputError: It cannot be written: no permission, no such folder, no space.
    """
    import tensorflow as tf

    refusals = (
        tf.errors.PermissionDeniedError,
        tf.errors.FailedPreconditionError,
        tf.errors.NotFoundError,
        tf.errors.ResourceExhaustedError,
    )
    try:
        yield
    except refusals as error:
        raise InputError(f"{path} cannot be written: {_reason(error)}.") from error
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}.") from error


def make_folder(path: str) -> None:
    """Makes a folder and those above it.

    Raises:
        InputError: It cannot be made.
    """
    import tensorflow as tf

    try:
        tf.io.gfile.makedirs(path)
    except tf.errors.OpError as error:
        raise InputError(f"The folder {path} cannot be made: {_reason(error)}.") from error


def _reason(error: Any) -> str:
    """Of "path; No space left on device", and what could not be done then in further lines."""
    return plain_message(error).splitlines()[0].split("; ")[-1]


def _sync(path: str) -> None:
    """Brings a file, or a folder and the files in it, to disk, where the file system has fsync."""
    if "://" in path:
        return
    for folder, _, names in os.walk(path):
        for name in names:
            _sync_entry(os.path.join(folder, name))
    _sync_entry(path)


def _sync_entry(path: str) -> None:
    if "://" in path:
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def expand(patterns: str | Iterable[str], what: str = "input") -> list[str]:
    """The files that a comma list of globs names, sorted within each glob, each once.

    Args:
        patterns: "a.txt,b/*.txt" or an iterable of globs.
        what: What the files are, for the message.

    Raises:
        InputError: A pattern matches nothing.
    """
    gfile = _gfile()
    if isinstance(patterns, str):
        patterns = patterns.split(",")
    found: dict[str, None] = {}
    for pattern in patterns:
        pattern = pattern.strip()
        if not pattern:
            continue
        # A name may hold what a glob would take for its own.
        matches = [pattern] if gfile.exists(pattern) else gfile.glob(pattern)
        if not matches:
            raise InputError(f"No {what} file matches {pattern}.")
        found.update(dict.fromkeys(sorted(matches)))
    if not found:
        raise InputError(f"No {what} file was given.")
    return list(found)


def sha256(content: bytes) -> str:
    """Hexadecimal SHA-256."""
    return hashlib.sha256(content).hexdigest()
