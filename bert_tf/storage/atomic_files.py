"""Writes files and folders atomically, local or gs://, and protects other files.

Each function that writes a named output of a program uses `atomic_replace` or
`atomic_folder`, so the rules for outputs are the same everywhere
(`paths.resolve_output`).

An output is written to a temporary path, which is always the same for this output and
is locked. So two processes do not write one output at the same time, and the next write
removes what a killed process has left.

Local files are written without TensorFlow: the main process of record creation does not
import it, because the import takes seconds and hundreds of megabytes of memory.
"""

import contextlib
import hashlib
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bert_tf.errors import InputError, plain_message
from bert_tf.storage import locks
from bert_tf.storage.paths import is_stdout, resolve_output

_TEMPORARY = ".bert_tf.tmp"
_OLD = ".bert_tf.old"  # ends of names
# TensorFlow's errors about a path, by name, because TensorFlow may not be imported. It
# raises OutOfRangeError for a file that is larger than the limit of the process.
_REFUSALS = (
    "PermissionDeniedError",
    "FailedPreconditionError",
    "NotFoundError",
    "OutOfRangeError",
    "ResourceExhaustedError",
    "AbortedError",
    "UnavailableError",
)


def gfile() -> Any:
    """Returns TensorFlow's module for files, which is imported when it is needed."""
    from tensorflow.io import gfile

    return gfile


@contextmanager
def atomic_replace(path: str) -> Iterator[str]:
    """Yields a temporary path next to `path`, which on success is renamed to `path`.

    Globs for finished files do not match the temporary path. An existing file, or the
    target of a link, is replaced. After an error the temporary file is removed, and
    `path` is unchanged. If `path` is the standard output, `/dev/stdout`, the content is
    copied there on success.

    Inside the context, the process must not write the same output again: it would wait
    for itself.

    Raises:
        InputError: `path` is not a regular file, or cannot be written.
    """
    if is_stdout(path):
        with temporary_folder() as folder, explain_write_errors(path):
            temporary = os.path.join(folder, "stdout")
            yield temporary
            with (
                open(temporary, "rb") as content,
                open(1, "wb", closefd=False) as stdout,
            ):
                shutil.copyfileobj(content, stdout)
        return

    target = resolve_output(path)
    with _temporary(target, is_folder=False) as temporary:
        yield temporary

        if "://" in target:
            gfile().rename(temporary, target, overwrite=True)
            return

        # The content is on disk before the name is, even if the power fails.
        _keep_mode(target, temporary)
        _sync_entry(temporary)
        os.replace(temporary, target)
        _sync_entry(os.path.dirname(target) or ".")


@contextmanager
def atomic_folder(folder: str, marker: str, replace: bool = True) -> Iterator[str]:
    """Yields the path of a folder to write files into.

    Readers see only complete folders. A local folder gets a temporary name and is
    renamed on success. Object stores (`gs://`) and `ram://` cannot rename a folder in
    one operation. For these file systems the yielded path is `folder` itself, and the
    folder is valid when it contains the file `marker`, which the caller writes last.
    After an error all files written so far are removed. If `folder` is a link, its
    target is replaced.

    Raises:
        InputError: `folder` is not a folder or cannot be written; or it is local and
            exists, and `replace` is False.
    """
    target = resolve_output(folder, is_folder=True)

    # A local folder appears in one operation.
    if "://" not in folder:
        with _temporary(target, is_folder=True) as temporary:
            yield temporary
            if not replace and os.path.exists(target):
                raise InputError(
                    f"Another program has written {target} meanwhile. Start this one "
                    "again."
                )
            _replace_folder(target, temporary)
        return

    # The marker is removed first, so that an interrupted removal does not leave a valid
    # folder.
    remove(os.path.join(folder, marker))
    remove(folder)
    try:
        with explain_write_errors(folder):
            yield folder
    except BaseException:
        remove(folder)
        raise


def _replace_folder(target: str, new: str) -> None:
    """Renames the folder `new` to `target`, and removes a folder that had this name."""
    _keep_mode(target, new)
    _sync_folder(new)
    if os.path.exists(target):
        os.rename(target, _old_path(target))
    try:
        os.rename(new, target)
        _sync_entry(os.path.dirname(target) or ".")
    finally:
        _restore(target)


def temporary_path(path: str) -> str:
    """Returns the temporary path of an output.

    Dots in the name are replaced, because globs of TensorFlow match names with a
    leading dot too. A hash tells apart the outputs whose names differ only in these
    characters or at their end.
    """
    folder, name = os.path.split(path)
    key = hashlib.sha256(os.fsencode(name)).hexdigest()[:8]
    return os.path.join(folder, f".{name[:50].replace('.', '_')}-{key}{_TEMPORARY}")


def _old_path(folder: str) -> str:
    """Returns the temporary path of an old folder while a new folder takes its name."""
    parent, name = os.path.split(folder)
    return os.path.join(parent, f".{name}{_OLD}")


def _restore(target: str) -> None:
    """Removes the old folder after a replacement, or restores it if the new one is missing."""
    old = _old_path(target)
    if os.path.lexists(target):
        with contextlib.suppress(FileNotFoundError):  # another process removes it too
            remove(old)
    elif os.path.lexists(old):
        os.rename(old, target)


def remove_leftovers(folder: str) -> None:
    """Removes the temporary files that killed processes have left in a local folder.

    A folder that such a process was replacing gets its name again.
    """
    names = os.listdir(folder) if "://" not in folder and os.path.isdir(folder) else []

    for name in (name for name in names if name.startswith(".")):
        path = os.path.join(folder, name)

        # A killed process may have stopped between the two renames.
        if name.endswith(_OLD):
            target = os.path.join(folder, name[1 : -len(_OLD)])
            with _locked_if_unused(temporary_path(target)) as is_unused:
                if is_unused:
                    _restore(target)
        elif name.endswith(_TEMPORARY):
            with _locked_if_unused(path) as is_unused:
                if is_unused:
                    remove(path)


@contextmanager
def _locked_if_unused(temporary: str) -> Iterator[bool]:
    """Locks a temporary path if no process writes it, and yields True if it is locked.

    Yields True also for an absent path, and False on a file system without locks.
    """
    try:
        descriptor = os.open(temporary, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError as error:
        yield isinstance(error, FileNotFoundError)
        return
    try:
        yield bool(locks.try_lock(descriptor))
    finally:
        os.close(descriptor)


@contextmanager
def _temporary(path: str, is_folder: bool) -> Iterator[str]:
    """Yields the temporary path of an output, and removes it at the end if it remains.

    If the output is local, the path is that of an empty, locked file or folder.
    """
    if parent := os.path.dirname(path):
        make_folder(parent)
    temporary = ""

    try:
        with explain_write_errors(path), contextlib.ExitStack() as stack:
            if "://" in path:
                temporary = f"{temporary_path(path)}-{uuid.uuid4().hex}"
                stack.callback(remove, temporary)
            else:
                temporary = stack.enter_context(_created(path, is_folder))
            yield temporary
    except InputError as error:
        # The message names the output, not its temporary path.
        if temporary and temporary in str(error):
            raise InputError(str(error).replace(temporary, path)) from error
        raise


@contextmanager
def _created(path: str, is_folder: bool) -> Iterator[str]:
    """Waits for other writers of an output, then yields an empty, locked file or folder."""
    temporary = temporary_path(path)
    while True:
        # Another process may remove, rename or lock the file at any moment.
        try:
            descriptor = _open_or_create(temporary, is_folder)
        except FileNotFoundError:
            if not is_folder:
                raise
            continue  # the other process has removed or renamed the folder
        try:
            locks.wait_for_lock(
                descriptor, f"Waiting for another process that writes {path}."
            )
            if not locks.is_at(descriptor, temporary):
                continue  # the other process has renamed or removed it

            # Leftovers of a killed process are removed.
            for name in os.listdir(temporary) if is_folder else ():
                remove(os.path.join(temporary, name))
            if not is_folder:
                os.truncate(descriptor, 0)
            _restore(path)
            try:
                yield temporary
            finally:
                # After it was renamed, the path may be that of the next process.
                if locks.is_at(descriptor, temporary):
                    remove(temporary)
            return
        finally:
            os.close(descriptor)


def _open_or_create(temporary: str, is_folder: bool) -> int:
    if is_folder:
        os.makedirs(temporary, exist_ok=True)
        return os.open(temporary, os.O_RDONLY)
    return os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o666)


def remove(path: str) -> None:
    """Removes a file or folder, if it exists. Removes a link, but not its target."""
    if "://" in path:
        if gfile().exists(path):
            gfile().rmtree(path) if gfile().isdir(path) else gfile().remove(path)
    elif os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.remove(path)


@contextmanager
def explain_write_errors(path: str) -> Iterator[None]:
    """Converts errors of the file system to an `InputError` that names the path.

    The BrokenPipeError of a pipe whose reader has ended is raised unchanged.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror or error}."
        ) from error
    except Exception as error:
        if type(error).__name__ not in _REFUSALS:
            raise
        raise InputError(f"{path} cannot be written: {reason_of(error)}.") from error


def make_folder(path: str) -> None:
    """Creates a folder and its parents, or raises an `InputError` that names the folder."""
    with explain_write_errors(path):
        gfile().makedirs(path) if "://" in path else os.makedirs(path, exist_ok=True)


def temporary_folder(prefix: str | None = None) -> "tempfile.TemporaryDirectory[str]":
    """Creates a `tempfile.TemporaryDirectory`, or raises `InputError`."""
    try:
        return tempfile.TemporaryDirectory(prefix=prefix)
    except OSError as error:
        raise InputError(
            f"No temporary folder can be created: {error.strerror}. Set the variable "
            "TMPDIR to a folder that can be written and has enough space."
        ) from error


def reason_of(error: Any) -> str:
    """Returns the reason in the message of a TensorFlow error, which follows the last semicolon."""
    return plain_message(error).splitlines()[0].split("; ")[-1]


def _keep_mode(target: str, new: str) -> None:
    """Gives a new file or folder the permissions of the one that it replaces."""
    with contextlib.suppress(FileNotFoundError):
        shutil.copymode(target, new)


def _sync_folder(path: str) -> None:
    """Flushes a local folder with its files to disk."""
    for folder, _, names in os.walk(path):
        for name in names:
            _sync_entry(os.path.join(folder, name))
        _sync_entry(folder)


def _sync_entry(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
