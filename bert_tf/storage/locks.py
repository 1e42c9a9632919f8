"""Locks of open files, which end with the processes that hold them."""

import contextlib
import fcntl
import logging
import os
from typing import IO

_LOGGER = logging.getLogger(__name__)


def open_file(path: str) -> IO[str]:
    """Opens a file to lock, and creates it if there is none; OSError if it is a link."""
    return open(
        path,
        "a",
        opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o666),
    )


def is_at(descriptor: int, path: str) -> bool:
    """Returns whether a path is still that of an open file."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    return False


def try_lock(descriptor: int) -> bool | None:
    """Locks an open file, if it is not locked.

    Returns False if another process has the lock, None if the file system has no locks.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def wait_for_lock(descriptor: int, message: str) -> bool | None:
    """Locks an open file.

    Logs the message if another process has the lock. Returns True, or None if the file
    system has no locks.
    """
    is_locked = try_lock(descriptor)
    if is_locked is False:
        _LOGGER.info("%s", message)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return True
    return is_locked
