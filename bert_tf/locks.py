"""Locks of open files, which end with the processes that hold them.

Imports the standard library only.
"""

import fcntl
import logging
from typing import IO, Any

_LOGGER = logging.getLogger(__name__)


def try_lock(file: IO[Any] | int) -> bool:
    """Locks an open file or file descriptor; returns False if another process holds the lock.

    Raises:
        OSError: The file system has no locks.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_for_lock(file: IO[Any], message: str) -> None:
    """Locks an open file; logs the message if it has to wait for another process."""
    if not try_lock(file):
        _LOGGER.info("%s", message)
        fcntl.flock(file, fcntl.LOCK_EX)
