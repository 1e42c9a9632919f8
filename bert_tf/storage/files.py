"""Reads files, and writes whole files atomically, local or gs://.

The functions of `atomic_files`, with which files and folders are written in parts, are
also available here.
"""

import codecs
import functools
import gzip
import hashlib
import json
import logging
import os
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any

from bert_tf.errors import InputError
from bert_tf.optional_packages import import_package
from bert_tf.storage import paths
from bert_tf.storage.atomic_files import (  # noqa: F401 (available here too)
    atomic_folder,
    atomic_replace,
    explain_write_errors,
    gfile,
    make_folder,
    reason_of,
    remove,
    temporary_folder,
)
from bert_tf.storage.paths import (
    check_is_regular,
    check_no_file_scheme,
    check_utf8,
    is_inside,
    real_path,
)

_LOGGER = logging.getLogger(__name__)
_CHUNK_BYTES = 1 << 20
_GLOB = re.compile(r"[\[\]\\]")  # TensorFlow finds files with * and ? in their paths
MAX_LINE_BYTES = 64 << 20  # a line is read into memory
# By path, for local files that `read_lines` has read completely: size and time, and the
# SHA-256. A task reads the labels in its data, and later needs the hash of the data.
_hashes: dict[str, tuple[tuple[int, int], str]] = {}
_OTHER_MARKS = {
    b"\xff\xfe\0\0": "UTF-32",
    b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
# The starts of packed and binary files, by format.
_NOT_TEXT = {
    "gzip": rb"\x1f\x8b",
    "zip": rb"PK\x03\x04",
    "zstd": rb"\x28\xb5\x2f\xfd",
    "bzip2": rb"BZh[1-9]1AY&SY",
    "xz": rb"\xfd7zXZ\0",
    "xls": rb"\xd0\xcf\x11\xe0",
    "tar": rb".{257}ustar(\0|  \0)",
    "lz4": rb"\x04\x22\x4d\x18",
    "feather": rb"(ARROW1|FEA1)\0",
    "parquet": rb"PAR1\x15",
    "tfrecord": rb".{4}\0{4}.{4}\n",
}


def read_bytes(path: str) -> bytes:
    """Reads a file. A pointer of Git LFS raises `InputError`, as a missing file does."""
    check_is_file(path)
    with explain_read_errors(path), open_binary(path, "rb") as file:
        content = file.read()
    if content.startswith(b"version https://git-lfs."):
        raise InputError(
            f"{path} is a pointer of Git LFS, not the file itself. Run: git lfs pull."
        )
    return content


def exists(path: str) -> bool:
    """Returns whether a file or folder exists; False for paths such as hf://owner/name.

    Raises:
        InputError: The file system or the folder of the path cannot be read.
    """
    local = os.fspath(path)
    if "://" not in local:
        return paths.exists(local)

    import tensorflow as tf

    try:
        return bool(gfile().exists(path))
    except tf.errors.UnimplementedError:  # TensorFlow does not know the scheme
        return False
    except tf.errors.OpError as error:  # such as gs:// without a network
        raise InputError(f"{path} cannot be read: {reason_of(error)}.") from error


def list_folder(path: str) -> list[str]:
    """Returns the sorted names in a folder, without slashes; [] if it does not exist.

    Bytes of local names that are not UTF-8 are surrogates, as in `os.listdir`.
    """
    if "://" not in path:
        try:
            return sorted(os.listdir(path or "."))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    with explain_read_errors(path):
        names = gfile().listdir(path) if exists(path) else []
    return sorted(name.rstrip("/") for name in names)


def is_file(path: str) -> bool:
    """Returns whether there is a file, and not a folder, with this path."""
    return exists(path) and not gfile().isdir(path)


def find_file(folder: str, name: str) -> str | None:
    """Returns the path of a file in a folder, or None if there is no such file.

    This function finds the small files of a checkpoint: config, vocabulary, settings of
    the tokenizer. In a downloaded folder, such a file may be a link to a private file
    of the user, whose content would be copied to converted checkpoints and exports.
    Weights may be links to any place, because only a valid checkpoint can be read as
    weights.

    Raises:
        InputError: The file is a link that leads out of the folder. Allowed is a link
            from a snapshot in the cache of huggingface_hub to the `blobs` of the same
            model.
    """
    path = os.path.join(folder, name)
    if not exists(path):
        return None

    # A snapshot has links to the blobs of the same model.
    parent = os.path.dirname(os.path.realpath(folder))
    allowed = [folder]
    if os.path.basename(parent) == "snapshots":
        allowed.append(os.path.join(os.path.dirname(parent), "blobs"))

    if not any(is_inside(path, root) for root in allowed):
        raise InputError(
            f"{path} is a link to {os.path.realpath(path)}, outside of its folder. "
            "Replace the link with a copy of the file, if the file belongs to the "
            "checkpoint."
        )
    return path


def check_is_file(path: str) -> None:
    """Checks that a path is that of a regular file, so that it can be read twice."""
    if not exists(path):
        raise InputError(f"There is no file {path}.")
    if gfile().isdir(path):
        raise InputError(f"{path} is a folder; give a file.")
    check_is_regular(path)


@contextmanager
def explain_read_errors(path: str, content: str = "") -> Iterator[None]:
    """Converts errors of reading to an `InputError` that names the path.

    In the message, `content`, such as " as gzip", follows "cannot be read".
    """
    import tensorflow as tf
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    # The first three are errors of archives. pyarrow raises OSError and the last two.
    errors = (
        zlib.error,
        zipfile.BadZipFile,
        tarfile.TarError,
        DecodeError,
        EOFError,
        OSError,
        ValueError,
        NotImplementedError,
    )
    try:
        yield
    except InputError:
        raise
    except tf.errors.OpError as error:
        raise InputError(
            f"{path} cannot be read{content}: {reason_of(error)}."
        ) from error
    except errors as error:
        reason = (getattr(error, "strerror", "") or str(error)).rstrip(".")
        raise InputError(f"{path} cannot be read{content}: {reason}.") from error


@contextmanager
def open_parquet(path: str) -> Iterator[Any]:
    """Opens a Parquet file as a `pyarrow.parquet.ParquetFile`.

    Raises:
        InputError: pyarrow is not installed, or the file is not Parquet, which may be
            noticed only while it is read.
    """
    parquet = import_package("pyarrow.parquet", "parquet", path)
    with (
        explain_read_errors(path, " as Parquet"),
        gfile().GFile(path, "rb") as file,
    ):
        file.closed = False  # pyarrow reads this attribute, which GFile does not have
        # With `buffer_size`, pyarrow reads a row group page by page, not as a whole.
        yield parquet.ParquetFile(file, buffer_size=_CHUNK_BYTES)


@contextmanager
def path_without_globs(path: str) -> Iterator[str]:
    r"""Yields a path at which TensorFlow can read a checkpoint or a SavedModel.

    TensorFlow reads such paths as globs, and finds no files if they contain [, ] or \.
    These files are read through links in a temporary folder; files of an object store
    are copied there. `path` is a file, a folder, or the prefix of the files
    `<path>.<ending>`.
    """
    if not _GLOB.search(path):
        yield path
        return

    is_remote = "://" in path
    folder, name = os.path.split(path if is_remote else os.path.abspath(path))

    with temporary_folder() as temporary:
        plain_path = f"{temporary}/{_GLOB.sub('_', name)}"
        for entry in list_folder(folder):
            if entry == name or entry.startswith(f"{name}."):
                link = _copy if is_remote else os.symlink
                link(f"{folder}/{entry}", plain_path + entry.removeprefix(name))
        yield plain_path


def _copy(source: str, target: str) -> None:
    """Copies a file or a folder."""
    if not gfile().isdir(source):
        gfile().copy(source, target)
        return
    gfile().makedirs(target)
    for name in list_folder(source):
        _copy(f"{source}/{name}", f"{target}/{name}")


def read_text(path: str) -> str:
    """Reads a UTF-8 file, and removes a byte-order mark at the start."""
    raw = read_bytes(path)
    check_start(path, raw)
    return _decode(path, raw.removeprefix(codecs.BOM_UTF8), 1)


def _decode(path: str, raw: bytes, first_line: int, remedy: str = "") -> str:
    """Decodes lines of a UTF-8 file; `first_line` is the number of the first one, from 1."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = first_line + raw.count(b"\n", 0, error.start)
        raise InputError(
            f"{path} is not UTF-8: byte 0x{raw[error.start]:02x} in line {line}. "
            f"Convert it first{remedy}."
        ) from error


def read_lines(path: str, encoding: str | None = None) -> Iterator[str]:
    r"""Yields the lines of a text file without line ends, \n or \r\n, as a stream.

    A byte-order mark at the start is removed, and gzip is unpacked. If `encoding` is
    None, the file is UTF-8.

    Raises:
        InputError: The file cannot be read or decoded, or a line has more than 64 MiB.
    """
    check_is_file(path)
    rest = b""
    number = 1
    remedy = ", or give its encoding, such as encoding=latin-1" if encoding else ""

    for chunk in _utf8_chunks(path, encoding or "utf-8"):
        if number == 1 and not rest:
            check_lines(path, chunk, remedy)
            chunk = chunk.removeprefix(codecs.BOM_UTF8)

        # The last line of a chunk continues in the next one.
        complete, line_end, rest = (rest + chunk).rpartition(b"\n")
        if line_end:
            lines = _decode(path, complete, number, remedy).split("\n")
            yield from (line.removesuffix("\r") for line in lines)
            number += len(lines)

        if len(rest) > MAX_LINE_BYTES:
            raise InputError(
                f"Line {number} of {path} has more than {MAX_LINE_BYTES >> 20} MiB. "
                "Split it."
            )

    if rest:
        yield _decode(path, rest, number, remedy).removesuffix("\r")


def _utf8_chunks(path: str, encoding: str) -> Iterator[bytes]:
    """Yields the text of a file in UTF-8; stores the SHA-256 of a local UTF-8 file in `_hashes`."""
    # The times of remote files do not show each change.
    state = None if "://" in path else size_and_mtime(path)
    digest = hashlib.sha256()
    is_utf8 = codecs.lookup(encoding).name in ("utf-8", "utf-8-sig")
    content = "" if is_utf8 else f" as {encoding}"

    with explain_read_errors(path, content), gfile().GFile(path, "rb") as file:
        is_packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        stream = gzip.GzipFile(fileobj=file) if is_packed else file

        chunks = iter(lambda: stream.read(_CHUNK_BYTES), b"")
        if not is_utf8:
            chunks = _with_utf8_warning(chunks, path, encoding)
            chunks = (text.encode() for text in codecs.iterdecode(chunks, encoding))
        for chunk in chunks:
            digest.update(chunk)
            yield chunk

    if state and is_utf8 and not is_packed:
        _hashes[path] = state, digest.hexdigest()


def _with_utf8_warning(
    chunks: Iterable[bytes], path: str, encoding: str
) -> Iterator[bytes]:
    """Yields the chunks unchanged; warns at the end if they are UTF-8 with non-ASCII characters."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    characters: set[str] = set()
    for chunk in chunks:
        characters.update(decoder.decode(chunk))
        yield chunk
    if "\ufffd" not in characters and max(characters, default="") > "\x7f":
        _warn_about_encoding(path, encoding)


@functools.cache  # a file is read several times
def _warn_about_encoding(path: str, encoding: str) -> None:
    _LOGGER.warning(
        "warning: %s is valid UTF-8 with characters beyond ASCII, and is read as %s. "
        "If its characters are wrong, leave out the encoding.",
        path,
        encoding,
    )


def size_and_mtime(path: str) -> tuple[int, int]:
    """Returns the size of a file in bytes, and the time of its last change in ns."""
    if "://" not in path:
        facts = os.stat(path)  # TensorFlow rounds the time to seconds
        return facts.st_size, facts.st_mtime_ns
    stored = gfile().stat(path)
    return stored.length, stored.mtime_nsec


def sha256_of_file(path: str) -> str:
    """Returns the hexadecimal SHA-256 of a file.

    If `read_lines` has read all lines and the file has not changed since, the file is
    not read again.
    """
    check_is_file(path)
    state, digest = _hashes.get(path, (None, ""))
    return (
        digest if state and state == size_and_mtime(path) else size_and_sha256(path)[1]
    )


def size_and_sha256(path: str) -> tuple[int, str]:
    """Returns the size of a file in bytes and its hexadecimal SHA-256."""
    check_is_regular(path)
    digest = hashlib.sha256()
    size = 0
    with explain_read_errors(path), gfile().GFile(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return size, digest.hexdigest()


def binary_format(start: bytes) -> str:
    """Returns the format of a file that is packed or not text; "" if it may be text.

    `start` contains the first bytes of the file, at least 262 if it has as many.
    """
    for kind, pattern in _NOT_TEXT.items():
        if re.match(pattern, start, re.S):
            return kind
    return ""


def check_start(path: str, start: bytes, remedy: str = "") -> None:
    """Checks that a file is not packed or binary, and has no mark of UTF-16 or UTF-32.

    The arguments are those of `check_lines`.
    """
    if kind := binary_format(start):
        raise InputError(
            f"{path} is a packed file ({kind}), not text. Unpack it, export a workbook "
            "as .csv, or give a Parquet file the ending .parquet."
        )
    for mark, encoding in _OTHER_MARKS.items():
        if start.startswith(mark):
            kind = f"{encoding}, according to its byte-order mark"
            raise _other_encoding(path, kind, remedy)


def _other_encoding(path: str, kind: str, remedy: str) -> InputError:
    name, *_ = kind.split(",")
    remedy = remedy.replace("latin-1", name.lower())
    return InputError(
        f"{path} is {kind}. Convert it to UTF-8: iconv -f {name} -t UTF-8{remedy}."
    )


def check_lines(path: str, start: bytes, remedy: str = "") -> None:
    """Checks that a file is text, not in UTF-16 or UTF-32, and without CR line ends.

    Args:
        start: The first bytes of the file, at least 262 if it has as many.
        remedy: The end of the message about UTF-16 or UTF-32, in which the name of the
            encoding that was found replaces "latin-1".

    Raises:
        InputError: The file is packed or binary, is encoded in UTF-16 or UTF-32, or its
            line ends are CR.
    """
    check_start(path, start, remedy)
    # Without a mark, most zero bytes of UTF-16 are at even or at odd positions. Other
    # text has few zero bytes, which the tokenizer drops.
    even = start[::2].count(0)
    odd = start[1::2].count(0)
    if even + odd >= max(len(start) // 100, 4) and max(even, odd) > 4 * min(even, odd):
        kind = "UTF-16BE" if even > odd else "UTF-16LE"
        raise _other_encoding(path, kind, remedy)

    if even + odd > len(start) // 2:
        raise InputError(
            f"{path} is not UTF-8 text (UTF-32?): most of its bytes are zero."
        )
    if start[:-1].count(b"\r") > 2 * start.count(b"\n"):
        raise InputError(
            f"{path} has the line ends CR, not LF. Convert them: tr '\\r' '\\n'."
        )


def open_binary(path: str, mode: str) -> IO[bytes]:
    """Opens a file in a binary mode; a local file without TensorFlow.

    For a local file, TensorFlow takes three times as long as Python.
    """
    return gfile().GFile(path, mode) if "://" in os.fspath(path) else open(path, mode)


def write_bytes(path: str, content: bytes | bytearray) -> None:
    """Writes a file atomically; a local file without TensorFlow."""
    with atomic_replace(path) as temporary, open_binary(temporary, "wb") as file:
        file.write(content)


def write_text(path: str, content: str) -> None:
    """Writes a UTF-8 file atomically."""
    write_bytes(path, content.encode("utf-8"))


def write_json(path: str, value: Any) -> None:
    """Writes indented JSON with sorted keys atomically."""
    write_text(
        path, json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    )


def write_json_lines(path: str, rows: Iterable[Any]) -> None:
    """Writes one JSON value for each line atomically."""
    lines = (f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    write_text(path, "".join(lines))


def expand_globs(
    patterns: str | Iterable[str], what: str = "input", without: tuple[str, ...] = ()
) -> list[str]:
    """Returns the files that match globs, each file once and sorted within each glob.

    Args:
        patterns: Comma-separated globs such as `a.txt,b/*.txt`, or an iterable of
            globs.
        what: The kind of file, such as "input", for the error message.
        without: Ends of names; a file with such a name is left out, unless its path is
            given without a glob.

    Raises:
        InputError: A glob matches no file, or its file system is unknown.
    """
    if isinstance(patterns, str):
        patterns = patterns.split(",")

    unique_paths: dict[str, str] = {}  # paths by their real path
    for pattern in patterns:
        pattern = pattern.strip()
        if not pattern:
            continue

        check_no_file_scheme(pattern)
        if "**" in pattern and not exists(pattern):
            raise InputError(
                f"{pattern} has **. Give a glob for each level, such as a/*,a/*/*."
            )

        # The name of an existing file may contain glob characters such as "[".
        with explain_read_errors(pattern):
            try:
                matches = [pattern] if exists(pattern) else gfile().glob(pattern)
            except UnicodeDecodeError as error:  # of a file that matches
                check_utf8(os.fsdecode(error.object))
        matches = [
            match
            for match in matches
            if match == pattern or not match.endswith(without)
        ]

        if not matches:
            raise InputError(f"No {what} file matches {pattern}.")

        # A file that two globs match is listed once.
        for match in sorted(matches):
            unique_paths.setdefault(real_path(match), match)

    if not unique_paths:
        raise InputError(f"No {what} file was given.")
    return list(unique_paths.values())


def sha256(content: bytes) -> str:
    """Returns the hexadecimal SHA-256 of bytes."""
    return hashlib.sha256(content).hexdigest()
