"""Checks the paths of inputs and outputs before a program reads or writes them.

No program reads a pipe, follows a name out of the folder of a checkpoint, or replaces
its inputs, devices or links.
"""

import os
import stat
from collections.abc import Iterable

from bert_tf.errors import InputError


def check_is_regular(path: str) -> None:
    """Raises `InputError` for file://, and for pipes, devices and sockets: reading may block."""
    check_no_file_scheme(str(path))
    if "://" not in str(path) and os.path.exists(path) and not os.path.isfile(path):
        raise InputError(
            f"{path} is a pipe or a device. Copy its content to a file, and give that "
            "file."
        )


def exists(path: str) -> bool:
    """Returns whether a local path exists; raises `InputError` if its folder may not be read."""
    check_utf8(path)
    try:
        os.stat(path)
    except PermissionError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    except (OSError, ValueError):
        return False
    return True


def check_utf8(path: str) -> None:
    """Checks that a path is UTF-8, as TensorFlow needs it."""
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"The name {os.fsencode(path)!r} is not UTF-8. Rename it."
        ) from error


def check_no_file_scheme(path: str) -> None:
    """Checks that a path is UTF-8, and not file:// (bert-tf takes local paths without it)."""
    check_utf8(path)
    if path.startswith("file://"):
        raise InputError(f"Give the local path without file://. Received: {path}.")


def check_file_system(path: str) -> None:
    """Checks that TensorFlow knows the file system of a path such as gs://bucket/run."""
    check_no_file_scheme(path)
    scheme, separator, _ = path.partition("://")
    if not separator:
        return

    from tensorflow.io import gfile

    known = gfile.get_registered_schemes()
    if scheme not in known:
        raise InputError(
            f"{path} is in a file system that TensorFlow does not know. Give a local "
            "path, or one of "
            f"{', '.join(f'{name}://' for name in sorted(known) if name)}."
        )


def real_path(path: str) -> str:
    """Returns a local path with all links resolved, and a URL unchanged."""
    return path if "://" in path else os.path.realpath(path)


def is_inside(path: str, folder: str) -> bool:
    """Returns whether a path, with links resolved, is `folder` or inside of it."""
    one, two = map(real_path, (path, folder))
    return f"{one.rstrip('/')}/".startswith(f"{two.rstrip('/')}/")


def check_plain_name(name: str, source: str) -> None:
    """Checks that the file name `name`, read from the checkpoint file `source`, has no folder."""
    if name in ("", ".", "..") or not {"/", "\\", "\0"}.isdisjoint(name):
        raise InputError(
            f"{source} names the file {name!r:.80}. Only names without a folder are "
            "read, because all files of a checkpoint are in one folder."
        )


_STDOUT = ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
_KINDS = {
    stat.S_IFDIR: "folder",
    stat.S_IFREG: "file",
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


def is_stdout(path: str) -> bool:
    """Returns whether a path names the standard output."""
    return path.startswith("/") and f"/{path.lstrip('/')}" in _STDOUT


def resolve_output(path: str, is_folder: bool = False) -> str:
    """Returns the path to write: the target of a link, else the path itself.

    Raises:
        InputError: The path is empty, or in a file system that TensorFlow does not
            know; or it exists and is not a regular file or, with `is_folder`, a folder.
    """
    check_file_system(path)
    if "://" in path:
        return path

    kind = "folder" if is_folder else "file"
    if not path or (path.endswith("/") and not is_folder):
        raise InputError(f"Give the path of a {kind} to write. Received: {path!r}.")

    path = path.rstrip("/") or "/"
    actual = (
        _KINDS[stat.S_IFMT(os.stat(path).st_mode)] if os.path.exists(path) else kind
    )
    if actual != kind:
        raise InputError(f"{path} is a {actual}. Give the path of a new {kind}.")

    # A link is kept, and its target is written.
    has_own_name = os.path.basename(path) not in ("", ".", "..") and not os.path.islink(
        path
    )
    return path if has_own_name else os.path.realpath(path)


def check_output_file(path: str, inputs: Iterable[str] = ()) -> None:
    """Checks, before the work of a program, that its output file can be written.

    The path may be the standard output. It must not be the path of one of the `inputs`,
    nor another path of the same file.
    """
    target = path if is_stdout(path) else resolve_output(path)
    for source in inputs if "://" in path or os.path.exists(target) else ():
        is_local = os.path.isfile(source) and os.path.isfile(target)
        if source == path or (is_local and os.path.samefile(source, target)):
            raise InputError(f"output_file {path} is an input too. Give another name.")

    if "://" in target or is_stdout(target):
        return

    # Missing folders are created, in the first parent that exists.
    parent = os.path.dirname(os.path.abspath(target))
    while not os.path.lexists(parent):
        parent = os.path.dirname(parent)

    if not os.path.isdir(parent):
        raise InputError(f"{path} cannot be written: {parent} is not a folder.")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise InputError(f"{path} cannot be written: {parent} is not writable.")


def check_output_folder(folder: str, name: str) -> None:
    """Checks, before the work of a program, that it can write the file `name` to a folder."""
    check_output_file(os.path.join(resolve_output(folder, is_folder=True), name))
