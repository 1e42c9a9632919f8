"""Locks of open files. The system removes a lock when the process that holds it ends."""

import contextlib
import fcntl
import logging
import os
from typing import IO

_LOGGER = logging.getLogger(__name__)


def open_file(path: str) -> IO[str]:
    """Opens a file to lock, and creates it if needed; raises OSError if it is a link."""
    return open(
        path,
        "a",
        opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o666),
    )


def is_at(descriptor: int, path: str) -> bool:
    """Returns whether a path still leads to this open file, and not to a new one or none."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    return False


def try_lock(descriptor: int) -> bool | None:
    """Locks an open file, without waiting.

    Returns True if this succeeded, False if another process has the lock, and None if
    the file system has no locks.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def wait_for_lock(descriptor: int, message: str) -> bool | None:
    """Locks an open file, and waits for it if another process has the lock.

    Logs the message before it waits. Returns True, or None if the file system has no
    locks.
    """
    is_locked = try_lock(descriptor)
    if is_locked is False:
        _LOGGER.info("%s", message)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return True
    return is_locked
