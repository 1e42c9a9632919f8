"""The names of temporary files and folders, and the removal of those that ended processes left.

A local temporary file or folder is locked by the process that writes it. The lock ends with the
process, also if the process is killed, so the next write of the same output recognizes what an
ended process has left, and removes it. A file system without such locks keeps these files.
"""

import contextlib
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator

from bert_tf import locks

_OLD = ".old"  # the end of the name of a folder that is being replaced
_TEMPORARY = re.compile(r"\.(.+)\.[0-9a-f]{8}\.tmp(\.old)?")
_LONG_NAME, _HASHED = 70, "%h"  # bytes of a name, and the start of a prefix that is a hash


def new_name(path: str) -> str:
    """Returns a temporary name next to a path."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f"{temporary_prefix(name)}{uuid.uuid4().hex[:8]}.tmp")


def old_name(path: str) -> str:
    """Returns a name next to a folder that is being replaced, which `remove_leftovers` restores."""
    return f"{new_name(path)}{_OLD}"


def create_locked(path: str, is_folder: bool, stack: contextlib.ExitStack) -> str:
    """Creates a temporary file or folder, and locks it until the stack is closed."""
    while True:
        temporary = new_name(path)
        if is_folder:
            os.mkdir(temporary)
        else:
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        # Another process may lock and remove it as a leftover before this process has locked it.
        with contextlib.ExitStack() as lock, contextlib.suppress(FileNotFoundError):
            is_locked = lock.enter_context(locks.locked(temporary))
            if is_locked is not False and os.path.exists(temporary):
                stack.push(lock.pop_all())
                return temporary


@contextlib.contextmanager
def scratch_folder() -> Iterator[str]:
    """Yields a folder for intermediate files in the temporary folder of the system.

    It is removed at the end, or by the next call in any process if this process is killed.
    """
    path = os.path.join(tempfile.gettempdir(), "bert_tf")
    remove_leftovers(os.path.dirname(path), os.path.basename(path))
    with contextlib.ExitStack() as stack:
        folder = create_locked(path, is_folder=True, stack=stack)
        stack.callback(shutil.rmtree, folder, ignore_errors=True)  # before the lock ends
        os.chmod(folder, 0o700)  # it may contain a copy of a private file
        yield folder


def remove_leftovers(folder: str, name: str | None = None) -> None:
    """Removes the temporary files and folders in a local folder that ended processes have left.

    If a process was killed while it replaced a folder, the old folder gets its name again.

    Args:
        folder: The folder; other than local ones are ignored, because these have no locks.
        name: The name of the output to which the files belong; None for all outputs.
    """
    if "://" in folder:
        return
    names: list[str] = []
    with contextlib.suppress(OSError):
        names = sorted(os.listdir(folder or "."))
    for each in names:
        match = _TEMPORARY.fullmatch(each)
        if not match or (name and f".{match[1]}." != temporary_prefix(name)):
            continue
        path, target = (os.path.join(folder, one) for one in (each, name or _decoded(match[1])))
        # Another process may remove it at the same time, or it may belong to another user.
        with contextlib.suppress(OSError), locks.locked(path) as is_locked:
            if not is_locked:
                continue
            if match[2] and not name and match[1].startswith(_HASHED):
                continue  # the next output of this name restores it
            if match[2] and not os.path.lexists(target):
                os.rename(path, target)
            elif os.path.isdir(path):
                shutil.rmtree(path)
            else:
                os.remove(path)


def temporary_prefix(name: str) -> str:
    """Returns the prefix of the temporary names of a file.

    Dots in the name are replaced, because globs of TensorFlow match names with a leading dot too.
    Two names never have the same prefix. The prefix of a long name is a hash.
    """
    if len(os.fsencode(name)) > _LONG_NAME:
        return f".{_HASHED}{uuid.uuid5(uuid.NAMESPACE_OID, name).hex}."
    return f".{name.replace('%', '%25').replace('_', '%5F').replace('.', '_')}."


def _decoded(name: str) -> str:
    """Returns the name for a prefix without its outer dots; see `temporary_prefix`."""
    return name.replace("_", ".").replace("%5F", "_").replace("%25", "%")
