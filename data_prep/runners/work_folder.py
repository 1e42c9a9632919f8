"""The folder of the intermediate files of a job: locked, then removed or kept."""

import contextlib
import errno
import os
import re
import tempfile
from collections.abc import Collection, Iterator

from bert_tf.data_prep.runners.job import RecordsJob
from bert_tf.data_prep.runners.workers import WorkerKilledError
from bert_tf.errors import InputError
from bert_tf.storage import files
from bert_tf.storage.workspace import Workspace

_LOCK = "lock"  # the name of a file, which also shows that a folder is a work folder


def path_of(stem: str, is_local: bool) -> str:
    """Returns the path of the work folder of an output.

    Args:
        stem: Path of the output (see `job.output_stem`).
        is_local: Whether the folder must be local. For remote output, it is then in the
            temporary folder of the system, else next to the output.
    """
    folder, name = os.path.split(stem)
    if is_local and "://" in stem:
        digest = files.sha256(stem.encode())[:16]
        return os.path.join(tempfile.gettempdir(), f"bert_tf_{name}_{digest}.work")
    return os.path.join(folder, f".{name}.work")


@contextlib.contextmanager
def locked(job: RecordsJob) -> Iterator[None]:
    """Creates and locks the work folder.

    Removes the folder when the records are complete.

    After an error, the work folder is kept, so that the next run can resume. But if the
    input is invalid, the work folder is removed.

    Raises:
        InputError: The work folder cannot be written or contains files of others,
            another process has locked it, or the disk is full.
    """
    folder = job.work_folder
    workspace = Workspace(folder, "intermediate files", "output_file", _LOCK)

    # A worker of a killed run on another machine may have made its intermediate folder
    # again.
    own = re.compile(r"[0-9a-f]{16}|\..*")
    workspace.check_owned(
        [_LOCK], [n for n in files.list_folder(folder) if not own.fullmatch(n)]
    )

    with workspace.locked(f"Another process is writing {job.stem}."):
        try:
            _clear(folder, [os.path.basename(job.intermediate_folder)])
            if "://" not in folder:
                os.makedirs(job.intermediate_folder, exist_ok=True)
            yield
        except BaseException as error:
            if any(
                os.strerror(code) in str(error) for code in (errno.ENOSPC, errno.EDQUOT)
            ):
                raise InputError(
                    "The disk is full. Free space in the folder of the output and run "
                    "the same command again: it resumes where this run stopped."
                ) from error

            if isinstance(error, WorkerKilledError):
                raise WorkerKilledError(
                    f"{error} It resumes where this run stopped."
                ) from error

            # If a part has been masked, the input has passed all checks.
            made = files.list_folder(job.intermediate_folder)
            is_masked = any(name.startswith("part") for name in made)
            if isinstance(error, InputError) and not is_masked:
                remove(folder)
            raise
        remove(folder)


def belongs_to(job: RecordsJob) -> bool:
    """Whether the work folder contains files of this job."""
    return os.path.basename(job.intermediate_folder) in files.list_folder(
        job.work_folder
    )


def remove(folder: str) -> None:
    """Removes a work folder; last the lock file, which shows that it is one.

    If a worker on another machine writes at this moment, the folder remains for the
    next run.
    """
    with contextlib.suppress(OSError):
        _clear(folder)
        if not set(files.list_folder(folder)) - {_LOCK}:
            files.remove(folder)


def _clear(folder: str, kept: Collection[str] = ()) -> None:
    for name in set(files.list_folder(folder)) - {_LOCK, *kept}:
        files.remove(os.path.join(folder, name))
