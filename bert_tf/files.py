"""Reads files, and writes files and folders atomically, local or gs://.

Imports `errors`, and TensorFlow inside functions.
"""

import codecs
import hashlib
import json
import os
import uuid
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from bert_tf.errors import InputError, plain_message

_CHUNK_BYTES = 1 << 20
_OTHER_MARKS = {
    b"\xff\xfe\0\0": "UTF-32", b"\0\0\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}  # fmt: skip


def _gfile() -> Any:
    from tensorflow.io import gfile

    return gfile


def read_bytes(path: str) -> bytes:
    """Reads a file.

    Raises:
        InputError: The file is missing or cannot be read.
    """
    gfile = _gfile()
    check_is_file(path)
    with explain_read_errors(path), gfile.GFile(path, "rb") as file:
        return file.read()


def exists(path: str) -> bool:
    """Returns whether there is a file or a folder; False for a path such as hf://owner/name."""
    import tensorflow as tf

    try:
        return bool(_gfile().exists(path))
    except tf.errors.UnimplementedError:  # TensorFlow does not know the scheme
        return False


def is_file(path: str) -> bool:
    """Returns whether there is a file, and not a folder, with this path."""
    return exists(path) and not _gfile().isdir(path)


def check_is_file(path: str) -> None:
    """Checks that a file exists.

    Raises:
        InputError: There is no such file, or the path is a folder.
    """
    if not _gfile().exists(path):
        raise InputError(f"There is no file {path}.")
    if _gfile().isdir(path):
        raise InputError(f"{path} is a folder; give a file.")


@contextmanager
def explain_read_errors(path: str, content: str = "") -> Iterator[None]:
    """Converts errors of the libraries that read files to an `InputError` that names the path.

    Args:
        path: The file.
        content: Text to put after "cannot be read" in the message, such as " as gzip".

    Raises:
        InputError: The file cannot be read, or its content does not have the expected format.
    """
    import tensorflow as tf
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    # pyarrow raises subclasses of OSError, ValueError and NotImplementedError.
    others = DecodeError, zlib.error, OSError, EOFError, ValueError, NotImplementedError
    try:
        yield
    except InputError:
        raise
    except tf.errors.OpError as error:
        raise InputError(f"{path} cannot be read{content}: {_reason(error)}.") from error
    except others as error:
        reason = str(error).rstrip(".")
        raise InputError(f"{path} cannot be read{content}: {reason}.") from error


def read_text(path: str) -> str:
    """Reads a UTF-8 file.

    Raises:
        InputError: The file is missing, cannot be read, or is not UTF-8. For a file that is not
            UTF-8, the message gives the number of the invalid line.
    """
    raw = read_bytes(path)
    check_byte_order_mark(path, raw)
    return _decode(path, raw, 1)


def _decode(path: str, raw: bytes, first_line: int) -> str:
    """Decodes lines of a UTF-8 file. `first_line` is the number of the first one, from 1."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = first_line + raw.count(b"\n", 0, error.start)
        raise InputError(
            f"{path} is not UTF-8: byte 0x{raw[error.start]:02x} in line {line}. Convert it first."
        ) from error


def read_lines(path: str) -> Iterator[str]:
    r"""Yields the lines of a UTF-8 file without their line ends, \n or \r\n, as a stream.

    A byte-order mark at the start is removed.

    Raises:
        InputError: As in `read_text`.
    """
    rest, number = b"", 1
    for chunk in _chunks(path):
        if number == 1 and not rest:
            check_byte_order_mark(path, chunk)
            chunk = chunk.removeprefix(codecs.BOM_UTF8)
        complete, line_end, end = (rest + chunk).rpartition(b"\n")
        rest = end
        if line_end:
            lines = _decode(path, complete, number).split("\n")
            yield from (line.removesuffix("\r") for line in lines)
            number += len(lines)
    if rest:
        yield _decode(path, rest, number).removesuffix("\r")


def _chunks(path: str) -> Iterator[bytes]:
    gfile = _gfile()
    check_is_file(path)
    with explain_read_errors(path), gfile.GFile(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk


def sha256_of_file(path: str) -> str:
    """Returns the hexadecimal SHA-256 of a file, which is read in chunks.

    Raises:
        InputError: The file is missing or cannot be read.
    """
    digest = hashlib.sha256()
    for chunk in _chunks(path):
        digest.update(chunk)
    return digest.hexdigest()


def check_byte_order_mark(path: str, start: bytes) -> None:
    """Checks that a file does not start with the byte-order mark of another encoding.

    Args:
        path: Path of the file, for the error message.
        start: The first bytes of the file, at least four unless the file is shorter.

    Raises:
        InputError: The file starts with the byte-order mark of UTF-16 or UTF-32.
    """
    mark = next((mark for mark in _OTHER_MARKS if start.startswith(mark)), None)
    if mark:
        raise InputError(
            f"{path} is {_OTHER_MARKS[mark]}, according to its byte-order mark. Convert it to "
            f"UTF-8: iconv -f {_OTHER_MARKS[mark]} -t UTF-8."
        )


def write_bytes(path: str, content: bytes) -> None:
    """Writes a file atomically."""
    with atomic_replace(path) as temporary, _gfile().GFile(temporary, "wb") as file:
        file.write(content)


def write_text(path: str, content: str) -> None:
    """Writes a UTF-8 file atomically."""
    write_bytes(path, content.encode("utf-8"))


def write_json(path: str, value: Any) -> None:
    """Writes indented JSON with sorted keys atomically."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


def read_json(path: str) -> dict[str, Any]:
    """Reads a JSON object that bert-tf wrote.

    Raises:
        InputError: The file is missing or is not JSON.
    """
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise InputError(f"{path} is damaged: {error}.") from error


def read_json_object(path: str) -> dict[str, Any]:
    """Reads a JSON object that another program wrote.

    Raises:
        InputError: The file is missing, is not JSON, or contains another JSON value.
    """
    try:
        values = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise InputError(f"{path} is not JSON: {error}.") from error
    if not isinstance(values, dict):
        raise InputError(f"{path} must contain one JSON object. Received: {values!r:.40}.")
    return values


@contextmanager
def atomic_replace(path: str) -> Iterator[str]:
    """Yields a temporary path next to `path`, and on success renames the temporary path to `path`.

    Globs for finished files do not match the temporary path (see `temporary_prefix`). After an
    error the temporary file or folder is removed, and `path` is unchanged.

    Args:
        path: The file or folder to write. An existing file or folder is replaced. A folder needs a
            file system that can rename folders; `atomic_folder` supports all file systems.

    Raises:
        InputError: `path` cannot be written: no permission, no such folder, no space.
    """
    gfile = _gfile()
    folder, name = os.path.split(path)
    if folder:
        make_folder(folder)
    temporary = os.path.join(folder, f"{temporary_prefix(name)}{uuid.uuid4().hex[:8]}.tmp")
    try:
        with explain_write_errors(path):
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


def temporary_prefix(name: str) -> str:
    """Returns the prefix of the temporary names of a file.

    Dots in the name are replaced, because globs of TensorFlow match names with a leading dot too.
    """
    return f".{name.replace('.', '_')}."


@contextmanager
def atomic_folder(folder: str, marker: str) -> Iterator[str]:
    """Yields the path of a folder to write files into. Readers see only complete folders.

    A local folder gets a temporary name and is renamed on success. Object stores (`gs://`) and
    `ram://` cannot rename a folder in one operation. For these file systems the yielded path is
    `folder` itself, and the folder is valid when it contains the marker file, which is written
    last. After an error all files written so far are removed.

    Args:
        folder: The folder to write; an existing one is replaced.
        marker: The file that the caller writes last. A reader treats a folder without this file as
            unfinished.
    """
    if "://" not in folder:
        with atomic_replace(folder) as temporary:
            yield temporary
        return
    # The marker is removed first, so that an interrupted removal does not leave a valid folder.
    remove(os.path.join(folder, marker))
    remove(folder)
    try:
        with explain_write_errors(folder):
            yield folder
    except BaseException:
        remove(folder)
        raise


def remove(path: str) -> None:
    """Removes a file or a folder, if it exists."""
    gfile = _gfile()
    if gfile.exists(path):
        gfile.rmtree(path) if gfile.isdir(path) else gfile.remove(path)


@contextmanager
def explain_write_errors(path: str) -> Iterator[None]:
    """Converts errors of the file system to an `InputError` that names the path.

    Raises:
        InputError: The path cannot be written: no permission, no such folder, no space.
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
    """Creates a folder and its parents.

    Raises:
        InputError: The folder cannot be created.
    """
    import tensorflow as tf

    try:
        tf.io.gfile.makedirs(path)
    except tf.errors.OpError as error:
        raise InputError(f"The folder {path} cannot be created: {_reason(error)}.") from error


def _reason(error: Any) -> str:
    """Returns the text after the semicolon in a message such as "path; No space left on device"."""
    return plain_message(error).splitlines()[0].split("; ")[-1]


def _sync(path: str) -> None:
    """Flushes a local file, or a local folder with its files, to disk."""
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


def expand_globs(patterns: str | Iterable[str], what: str = "input") -> list[str]:
    """Returns the files that match comma-separated globs, sorted within each glob, without repeats.

    Args:
        patterns: Comma-separated globs such as `a.txt,b/*.txt`, or an iterable of globs.
        what: The kind of file, such as "input", for the error message.

    Raises:
        InputError: A glob matches no file.
    """
    gfile = _gfile()
    if isinstance(patterns, str):
        patterns = patterns.split(",")
    found: dict[str, None] = {}
    for pattern in patterns:
        pattern = pattern.strip()
        if not pattern:
            continue
        # The name of an existing file may contain glob characters such as "[".
        matches = [pattern] if gfile.exists(pattern) else gfile.glob(pattern)
        if not matches:
            raise InputError(f"No {what} file matches {pattern}.")
        found.update(dict.fromkeys(sorted(matches)))
    if not found:
        raise InputError(f"No {what} file was given.")
    return list(found)


def sha256(content: bytes) -> str:
    """Returns the hexadecimal SHA-256."""
    return hashlib.sha256(content).hexdigest()
