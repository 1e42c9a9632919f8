"""`Workspace`: a folder that a program owns, such as that of a run or a cache."""

import contextlib
import dataclasses
import logging
import os
from collections.abc import Iterable, Iterator
from typing import IO

from bert_tf.errors import InputError
from bert_tf.storage import atomic_files, files, locks
from bert_tf.storage.overwrite_rule import check_is_own

_LOGGER = logging.getLogger(__name__)


@dataclasses.dataclass(eq=False)
class Workspace:
    """A folder that one process at a time writes, and that contains no files of others.

    Object stores (`gs://`) have no locks; there, the user must not start two programs
    in a folder.

    Attributes:
        path: The folder, local or gs://. Nothing is written to it before `locked`.
        content: The content of the folder, for messages, such as "run".
        parameter: The name of the parameter with the path, for messages.
        lock: The name of the lock file; not needed if the folder is only checked.
    """

    path: str
    content: str
    parameter: str
    lock: str = "lock"
    _is_locked = False

    def check_owned(self, marks: Iterable[str], outputs: Iterable[str]) -> None:
        """Raises `InputError` if an output exists in the folder, but none of the marks.

        Marks and outputs are names of files. One mark is enough to show that the
        program has written the folder.
        """
        reason = f"{self.path} contains no {self.content} of bert-tf"
        remedy = f"Give another {self.parameter}"
        check_is_own(self.path, outputs, marks=marks, reason=reason, remedy=remedy)

    @contextlib.contextmanager
    def locked(self, busy: str, wait: bool = False) -> Iterator[int | None]:
        """Creates the folder, locks it until the context ends, and removes leftovers.

        A context inside another one of the same object has no effect. After an error, a
        new folder into which nothing was written is removed. If another process has the
        lock, the call waits or, if `wait` is false, raises an `InputError`, whose
        message starts with `busy`, a sentence on what the other process does.

        Yields:
            The descriptor of the lock file; processes that inherit it have the lock
            too. None if the folder is not local, or if this object has locked it
            already.
        """
        if self._is_locked or "://" in self.path:
            yield None
            return

        is_new = not os.path.exists(self.path)
        with self._locked_file(busy, wait) as file:
            self._is_locked = True
            try:
                atomic_files.remove_leftovers(self.path)
                yield file.fileno()
            except BaseException:
                if (
                    is_new
                    and os.path.isdir(self.path)
                    and os.listdir(self.path) == [self.lock]
                ):
                    files.remove(self.path)
                raise
            finally:
                self._is_locked = False

    def _locked_file(self, busy: str, wait: bool) -> IO[str]:
        path = os.path.join(self.path, self.lock)
        while True:
            files.make_folder(self.path)
            with files.explain_write_errors(path):
                file = locks.open_file(path)

            descriptor = file.fileno()
            if wait:
                is_locked = locks.wait_for_lock(descriptor, f"Waiting: {busy}")
            else:
                is_locked = locks.try_lock(descriptor)

            if is_locked is None:
                _LOGGER.warning(
                    "warning: %s cannot be locked. Do not start a second program in "
                    "this folder.",
                    self.path,
                )
            elif not is_locked:
                file.close()
                raise InputError(
                    f"{busy} Wait for its end, or give another {self.parameter}."
                )

            # The process that had the lock may have removed the file before this one
            # locked it.
            if is_locked is None or locks.is_at(descriptor, path):
                return file
            file.close()
