"""Owns the local work folder of a job, and removes or keeps the folder after the run."""

import contextlib
import errno
import glob
import os
import pathlib
import re
import shutil
from collections.abc import Iterator

from bert_tf import files
from bert_tf.data_prep.runners import outputs
from bert_tf.data_prep.runners.job import RecordsJob
from bert_tf.data_prep.runners.workers import WorkerKilledError
from bert_tf.errors import InputError
from bert_tf.workspace import Workspace

_LOCK = "lock"
# The names of intermediate files, and of temporary files of these.
_NAMES = re.compile(
    rf"{_LOCK}|{outputs.IDENTITY}|\..*\.tmp"
    r"|(documents|text_stats|rows|part|part_stats|shard|unpacked)-[\w.-]*\d{6}"
    r"(\.rows|\.tokens|\.keys)?"
)


@contextlib.contextmanager
def locked_work_folder(job: RecordsJob) -> Iterator[None]:
    """Creates and locks the work folder; removes the folder when the records are complete.

    After an error, the work folder is kept, so that the next run can resume. But if the input is
    invalid, the work folder is removed, and so are all output folders that this run created.

    Raises:
        InputError: The work folder cannot be written, another process has locked it, or the disk is
            full.
    """
    folder, new_folders = job.work_folder, _missing_output_folders(job)
    check_folder(folder)
    workspace = Workspace(folder, "intermediate files", "output_file", _LOCK)
    with workspace.locked(f"Another process is writing {job.stem}."):
        try:
            _remove_unusable_files(job)
            yield
        except BaseException as error:
            if any(os.strerror(code) in str(error) for code in (errno.ENOSPC, errno.EDQUOT)):
                raise InputError(
                    "The disk is full. Free space in the folder of the output and run the same "
                    "command again: it resumes where this run stopped."
                ) from error
            if isinstance(error, WorkerKilledError):
                raise WorkerKilledError(f"{error} It resumes where this run stopped.") from error
            # If a part has been masked, the input has passed all checks.
            if isinstance(error, InputError) and not glob.glob(f"{glob.escape(folder)}/part*"):
                remove(folder)
                for new_folder in new_folders:
                    with contextlib.suppress(OSError):  # a folder that is not empty is kept
                        new_folder.rmdir()
            raise
        remove(folder)


def remove(folder: str) -> None:
    """Removes a work folder; last the files that show that it is one."""
    with contextlib.suppress(FileNotFoundError):  # another process removes it too
        for name in set(os.listdir(folder)) - {_LOCK, outputs.IDENTITY}:
            os.remove(os.path.join(folder, name))
    shutil.rmtree(folder, ignore_errors=True)  # another process may wait for the lock


def check_folder(folder: str) -> None:
    """Checks that a folder, if it is local, has only intermediate files, which will be removed.

    Raises:
        InputError: It is a link or a file, or has other files.
    """
    if os.path.islink(folder):
        raise InputError(f"{folder} is a link. Remove it; the run needs a folder of its own there.")
    paths = {name: os.path.join(folder, name) for name in files.list_folder(folder)}
    others = [n for n, path in paths.items() if not (_NAMES.fullmatch(n) and os.path.isfile(path))]
    if others and "://" not in folder:
        raise InputError(
            f"{folder} contains {others[0]}, which no run wrote. Give another output_file, or move "
            "the folder."
        )


def _missing_output_folders(job: RecordsJob) -> list[pathlib.Path]:
    """Returns the local folders of the output that do not exist, inner folders first."""
    paths = [pathlib.Path(path).absolute() for path in job.shard_paths if "://" not in path]
    missing = {folder for path in paths for folder in path.parents if not folder.exists()}
    return sorted(missing, key=lambda folder: len(folder.parts), reverse=True)


def _remove_unusable_files(job: RecordsJob) -> None:
    """Removes the intermediate files of another job."""
    identity = pathlib.Path(job.work_folder, outputs.IDENTITY)
    if not identity.exists() or identity.read_bytes() != job.identity:
        for name in set(os.listdir(job.work_folder)) - {_LOCK, outputs.IDENTITY}:
            os.remove(os.path.join(job.work_folder, name))
        files.write_bytes(str(identity), job.identity)
