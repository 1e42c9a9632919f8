"""Writes files and folders atomically, local or gs://, and protects the user's other files.

Each function that writes a named output of a program uses `atomic_replace` or `atomic_folder`, so
the rules for outputs are the same everywhere (`resolve_output`).

Local files are written without TensorFlow: the main process of record creation does not import it,
because the import takes seconds and hundreds of megabytes of memory.
"""

import contextlib
import errno
import os
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from bert_tf import locks
from bert_tf.errors import InputError, plain_message
from bert_tf.file_checks import check_file_system
from bert_tf.temporary_files import (
    create_locked,
    new_name,
    old_name,
    remove_leftovers,
    scratch_folder,
)

# The largest name of a file in the file systems of Linux.
_MAX_NAME_BYTES, _MAX_LINKS = 255, 40
_STDOUT = ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
_KINDS = {
    stat.S_IFDIR: "folder", stat.S_IFREG: "file", stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device", stat.S_IFBLK: "device",
}  # fmt: skip


def _gfile() -> Any:
    from tensorflow.io import gfile

    return gfile


def is_stdout(path: str) -> bool:
    """Returns whether a path names the standard output."""
    return path.startswith("/") and f"/{path.lstrip('/')}" in _STDOUT


def resolve_output(path: str, is_folder: bool = False) -> str:
    """Returns the path to write: the target of a link, else the path itself.

    Args:
        path: The path of an output, local or gs://.
        is_folder: Whether the output is a folder.

    Raises:
        InputError: The path is empty, a loop of links, an open file of a process, or in a file
            system that TensorFlow does not know; or it exists and is something other than a regular
            file or, with `is_folder`, a folder.
    """
    check_file_system(path)
    if "://" in path:
        return path
    kind = "folder" if is_folder else "file"
    if not path or (path.endswith("/") and not is_folder):
        raise InputError(f"Give the path of a {kind} to write. Received: {path!r}.")
    path = path.rstrip("/") or "/"
    if len(os.fsencode(os.path.basename(path))) > _MAX_NAME_BYTES:
        raise InputError(f"A name may have at most {_MAX_NAME_BYTES} bytes. Received: {path:.100}…")
    _check_no_descriptor(path)
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise InputError(
                f"{path} is a loop of links. Give the path of another {kind}."
            ) from error
        mode = 0  # absent; any other problem is reported when the output is written
    found = _KINDS[stat.S_IFMT(mode)] if mode else kind
    if found != kind:
        raise InputError(f"{path} is a {found}. Give the path of a new {kind}.")
    has_own_name = os.path.basename(path) not in ("", ".", "..") and not os.path.islink(path)
    return path if has_own_name else os.path.realpath(path)


def _check_no_descriptor(path: str) -> None:
    """Checks that a path does not lead through a folder such as /dev/fd or /proc/self/fd.

    The file behind a descriptor is that of the caller, for example one to which its shell appends.
    """
    link = path
    for _ in range(_MAX_LINKS):
        folder = os.path.realpath(os.path.dirname(link) or ".")
        if folder.startswith("/proc/"):
            raise InputError(
                f"{path} is an open file of a process. Give the path of a file, or /dev/stdout."
            )
        link = os.path.join(folder, os.path.basename(link))
        if not os.path.islink(link):
            return
        link = os.path.join(folder, os.readlink(link))


def check_output_file(path: str, inputs: Iterable[str] = ()) -> None:
    """Checks, before the work of a program, that its output file can be written.

    Args:
        path: The file to write, local or gs://, or the standard output.
        inputs: The files that the program reads.

    Raises:
        InputError: See `resolve_output`; or the file is an input too, also under another name, or
            its folder cannot be written.
    """
    target = path if is_stdout(path) else resolve_output(path)
    for each in inputs if "://" in path or os.path.exists(target) else ():
        if each == path or _is_same_file(each, target):
            raise InputError(f"output_file {path} is an input too. Give another name.")
    if "://" in target or is_stdout(target):
        return
    parent = os.path.dirname(os.path.abspath(target))
    while not os.path.lexists(parent):
        parent = os.path.dirname(parent)
    if not os.path.isdir(parent):
        raise InputError(f"{path} cannot be written: {parent} is not a folder.")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise InputError(f"{path} cannot be written: {parent} is not writable.")


def check_output_folder(folder: str, name: str) -> None:
    """Checks, before the work of a program, that a file can be written to its output folder.

    Args:
        folder: The folder, local or gs://, which may be absent.
        name: The file, which the message names.

    Raises:
        InputError: See `check_output_file`; or the path is not that of a folder.
    """
    check_output_file(os.path.join(resolve_output(folder, is_folder=True), name))


def _is_same_file(one: str, two: str) -> bool:
    """Returns whether two paths are the same local regular file, through links too."""
    return os.path.isfile(one) and os.path.isfile(two) and os.path.samefile(one, two)


@contextmanager
def atomic_replace(path: str) -> Iterator[str]:
    """Yields a temporary path next to `path`, and on success renames the temporary file to `path`.

    Globs for finished files do not match the temporary path (see `temporary_prefix`). After an
    error the temporary file is removed, and `path` is unchanged. What is written to the standard
    output, `/dev/stdout`, is copied there on success.

    Args:
        path: The file to write. An existing file is replaced; of a link, its target is replaced.

    Raises:
        InputError: `path` is not a regular file (see `resolve_output`), or cannot be written: no
            permission, no such folder, no space.
    """
    if is_stdout(path):
        with _copied_to_stdout(path) as temporary:
            yield temporary
        return
    target = resolve_output(path)
    with _temporary(target, is_folder=False) as temporary:
        yield temporary
        if "://" in target:
            _gfile().rename(temporary, target, overwrite=True)
            return
        _keep_mode(target, temporary)
        _sync_entry(temporary)
        os.replace(temporary, target)
        _sync_entry(os.path.dirname(target) or ".")


@contextmanager
def _copied_to_stdout(path: str) -> Iterator[str]:
    with scratch_folder() as folder, explain_write_errors(path):
        temporary = os.path.join(folder, "stdout")
        yield temporary
        with open(temporary, "rb") as content, open(1, "wb", closefd=False) as stdout:
            shutil.copyfileobj(content, stdout)


@contextmanager
def atomic_folder(folder: str, marker: str, replace: bool = True) -> Iterator[str]:
    """Yields the path of a folder to write files into. Readers see only complete folders.

    A local folder gets a temporary name and is renamed on success. Object stores (`gs://`) and
    `ram://` cannot rename a folder in one operation. For these file systems the yielded path is
    `folder` itself, and the folder is valid when it contains the marker file, which is written
    last. After an error all files written so far are removed.

    Args:
        folder: The folder to write; an existing one is replaced. Of a link, its target is replaced.
        marker: The file that the caller writes last. A reader treats a folder without this file as
            unfinished.
        replace: Whether to replace an existing local folder that is not empty.

    Raises:
        InputError: `folder` is not a folder (see `resolve_output`), or cannot be written; or it
            exists, and `replace` is False.
    """
    target = resolve_output(folder, is_folder=True)
    if "://" not in folder:
        with _temporary(target, is_folder=True) as temporary:
            yield temporary
            _replace_folder(target, temporary, replace)
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


@contextmanager
def staging_folder(folder: str) -> Iterator[str]:
    """Yields a temporary path for a local folder, which replaces `folder` on success.

    In contrast to `atomic_folder`, the caller may use functions that write whole folders, and may
    read the result before it replaces the folder.

    Args:
        folder: The local folder to replace.

    Raises:
        InputError: As in `atomic_folder`.
    """
    target = resolve_output(folder, is_folder=True)
    with _temporary(target, is_folder=True) as temporary:
        inner = os.path.join(temporary, os.path.basename(target))
        try:
            yield inner
        except InputError as error:
            raise InputError(str(error).replace(inner, target)) from error
        _replace_folder(target, inner)


def _replace_folder(target: str, new: str, replace: bool = True) -> None:
    """Renames a folder. A folder `target` gets another name first, and is removed at the end."""
    old = old_name(target)
    _keep_mode(target, new)
    _sync_folder(new)
    with contextlib.ExitStack() as stack:
        try:
            if replace and os.path.exists(target):
                stack.enter_context(locks.locked(target))
                os.rename(target, old)
            os.rename(new, target)
        except BaseException as error:
            if os.path.exists(old) and not os.path.exists(target):
                os.rename(old, target)
            if not replace and os.path.exists(target):
                reason = f"Another program has written {target} meanwhile. Start this one again."
                raise InputError(reason) from error
            raise
        _sync_entry(os.path.dirname(target) or ".")
        remove(old)


@contextmanager
def _temporary(path: str, is_folder: bool) -> Iterator[str]:
    """Yields a path next to `path`; removes at the end what is there.

    A local file or folder exists already, and is locked.
    """
    parent, name = os.path.split(path)
    if parent:
        make_folder(parent)
    remove_leftovers(parent, name)
    temporary = ""
    try:
        with contextlib.ExitStack() as stack, explain_write_errors(path):
            is_remote = "://" in path
            temporary = new_name(path) if is_remote else create_locked(path, is_folder, stack)
            stack.callback(remove, temporary)  # before the lock ends
            yield temporary
    except InputError as error:
        if temporary and temporary in str(error):
            raise InputError(str(error).replace(temporary, path)) from error
        raise


def remove(path: str) -> None:
    """Removes a file or a folder, if it exists; of a link, only the link."""
    if "://" not in path:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.remove(path)
        return
    gfile = _gfile()
    if gfile.exists(path):
        gfile.rmtree(path) if gfile.isdir(path) else gfile.remove(path)


@contextmanager
def explain_write_errors(path: str) -> Iterator[None]:
    """Converts errors of the file system to an `InputError` that names the path.

    Raises:
        InputError: The path cannot be written: no permission, no such folder, no space.
        BrokenPipeError: The path is a pipe whose reader has ended.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}.") from error
    except Exception as error:
        if not _is_refusal_of_tensorflow(error):
            raise
        raise InputError(f"{path} cannot be written: {reason_of(error)}.") from error


def _is_refusal_of_tensorflow(error: Exception) -> bool:
    if "tensorflow" not in sys.modules:
        return False
    import tensorflow as tf

    refusals = (
        tf.errors.PermissionDeniedError,
        tf.errors.FailedPreconditionError,
        tf.errors.NotFoundError,
        tf.errors.OutOfRangeError,  # a file is larger than the limit of the process
        tf.errors.ResourceExhaustedError,
    )
    return isinstance(error, refusals)


def make_folder(path: str) -> None:
    """Creates a folder and its parents.

    Raises:
        InputError: The folder cannot be created.
    """
    if "://" not in path:
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as error:
            reason = error.strerror
            raise InputError(f"The folder {path} cannot be created: {reason}.") from error
        return
    import tensorflow as tf

    try:
        tf.io.gfile.makedirs(path)
    except tf.errors.OpError as error:
        raise InputError(f"The folder {path} cannot be created: {reason_of(error)}.") from error


def reason_of(error: Any) -> str:
    """Returns the text after the semicolon in a message such as "path; No space left on device"."""
    return plain_message(error).splitlines()[0].split("; ")[-1]


def _keep_mode(target: str, new: str) -> None:
    """Gives a new file or folder the permissions of the one that it replaces, if there is one."""
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
