"""The work folder: what a run leaves for the next one, and the lock that keeps runs apart.

Imports `outputs`, `shuffling`; `files`, `errors`.
"""

import contextlib
import fcntl
import glob
import os
import shutil
from collections.abc import Iterator

from bert_tf import files
from bert_tf.errors import InputError
from data_prep.runners import outputs, shuffling
from data_prep.runners.outputs import Job
from data_prep.runners.workers import WorkerKilledError

_OWN_FILES = {"lock", outputs.IDENTITY}


@contextlib.contextmanager
def opened(job: Job) -> Iterator[None]:
    """Opens the work folder for this run alone; removes it when the records are done.

    After an error what can be gone on with stays; of input that is refused, nothing.

    Raises:
        InputError: It cannot be made, or another process has it.
    """
    folder = job.work_folder
    made = _missing_folders(job)
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise InputError(f"The folder {folder} cannot be made: {error.strerror}.") from error
    with open(os.path.join(folder, "lock"), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InputError(
                f"Another process is writing {job.base}. Wait for it, or give another output_file."
            ) from error
        try:
            _prepare(job)
            yield
        except BaseException as error:
            refused = isinstance(error, InputError) and not isinstance(error, WorkerKilledError)
            if _is_empty(folder) or (refused and not glob.glob(f"{glob.escape(folder)}/rows-*")):
                shutil.rmtree(folder)
                for path in made:
                    # One that holds anything stays.
                    with contextlib.suppress(OSError):
                        os.rmdir(path)
            raise
        shutil.rmtree(folder)


def _missing_folders(job: Job) -> list[str]:
    """The local folders that are to be made for the output, inner ones first."""
    missing = set()
    for name in job.names:
        folder = os.path.dirname(os.path.abspath(name))
        while "://" not in name and not os.path.exists(folder):
            missing.add(folder)
            folder = os.path.dirname(folder)
    return sorted(missing, key=len, reverse=True)


def _prepare(job: Job) -> None:
    """Empties the folder, if it is not for this job, of all but the lock."""
    _remove_leftovers(job)
    if not outputs.is_ours(job, job.work_folder):
        for entry in os.scandir(job.work_folder):
            if entry.name != "lock":
                os.remove(entry.path)
        shuffling.write_small(
            os.path.join(job.work_folder, outputs.IDENTITY), job.identity.encode()
        )


def _is_empty(folder: str) -> bool:
    return set(os.listdir(folder)) <= _OWN_FILES


def _remove_leftovers(job: Job) -> None:
    """Removes temporary files of a killed run, here and beside the output."""
    for path in glob.glob(f"{glob.escape(job.work_folder)}/.*.tmp"):
        os.remove(path)
    for name in [*job.names, *(job.base + end for end in (".stats.json", ".manifest.json"))]:
        folder, base = os.path.split(name)
        for path in glob.glob(
            glob.escape(os.path.join(folder, files.temporary_prefix(base))) + "*.tmp"
        ):
            os.remove(path)
