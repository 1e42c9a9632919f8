"""Creates records on the workers of a Dask cluster. Needs the [dask] extra.

The workers call the same functions as `local`, so both write records with equal bytes.
Input, vocabulary, output and work folder must lie on a file system that all workers see
under the same paths.
"""

import dataclasses
import functools
import importlib.metadata
import os
import socket
import sys
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from bert_tf.errors import InputError
from bert_tf.optional_packages import import_package
from bert_tf.program import startup
from bert_tf.record_creation.records_config import RecordsConfig
from bert_tf.record_jobs import stages
from bert_tf.record_jobs.base import Runner
from bert_tf.record_jobs.local import use_one_core
from bert_tf.record_jobs.records_job import WorkerKilledError
from bert_tf.storage import files

_POLL_SECS = 5
_SAME_COMMAND = "Run the same command again."


def shared_paths(
    config: RecordsConfig, input_file: str, output_files: Sequence[str]
) -> tuple[RecordsConfig, str, list[str]]:
    """Makes paths absolute for workers in other folders; a remote path raises `InputError`."""
    paths = (config.vocab_file, input_file, *output_files)
    if remote := [path for path in paths if "://" in path]:
        raise InputError(
            "runner=dask needs files that all workers see under the same path. "
            f"Received: {remote[0]}. Give paths of a shared file system, or "
            "runner=beam."
        )
    vocabulary, *outputs = map(os.path.abspath, (config.vocab_file, *output_files))
    patterns = ",".join(
        os.path.abspath(pattern.strip()) for pattern in input_file.split(",") if pattern
    )
    return dataclasses.replace(config, vocab_file=vocabulary), patterns, outputs


class DaskRunner(Runner):
    """Runs the stages on the workers of a Dask cluster, and `call` in this process.

    Args:
        scheduler: Address of the scheduler, such as "tcp://host:8786", or its scheduler
            file.
        timeout_secs: Seconds that the run waits for the scheduler, or for a worker
            while the cluster has none.
    """

    def __init__(self, scheduler: str, timeout_secs: float) -> None:
        distributed = import_package("distributed", "dask", "runner=dask")
        self._dask = distributed
        self._timeout_secs = timeout_secs
        # If `scheduler` is the path of a file, this is a scheduler file.
        address = {
            "scheduler_file" if os.path.isfile(scheduler) else "address": scheduler
        }
        try:
            self._client = distributed.Client(
                **address, timeout=timeout_secs, set_as_default=False
            )
            self._client.wait_for_workers(1, timeout=timeout_secs)
        except (OSError, ValueError, distributed.TimeoutError) as error:
            if hasattr(self, "_client"):
                self._client.close()
            raise InputError(
                f"The Dask cluster of {scheduler} has no scheduler or no worker after "
                f"{timeout_secs:g} s: {error or 'no answer'}. Start them, or give "
                "another dask_scheduler."
            ) from error
        startup.import_tensorflow()

    def check_folder(self, folder: str) -> None:
        """Checks the versions and threads of all workers, and that they see the folder.

        A worker that joins later is checked before its first call, except for its
        threads. A failed check raises `WorkerKilledError`.
        """
        threads = self._client.nthreads()
        if many := [worker for worker, count in threads.items() if count > 1]:
            raise WorkerKilledError(
                f"The worker {many[0]} has {threads[many[0]]} threads. Start each "
                "worker with --nthreads=1, and with --nworkers for several cores. "
                f"{_SAME_COMMAND}"
            )

        # The workers read this file, which shows that they see the folder.
        self._marker = os.path.join(folder, f"program-{uuid.uuid4().hex}")
        files.write_text(self._marker, _versions())
        try:
            self._client.run(_begin_run, self._marker)
        except InputError:
            raise
        except Exception as error:  # such as a missing package
            raise WorkerKilledError(
                f"A worker of Dask cannot be used: {error}. {_SAME_COMMAND}"
            ) from error

    def submit(
        self, function: Callable[..., Any], *arguments: Any
    ) -> Callable[[], Any]:
        """Starts a call; if its worker is lost, the call runs again on another worker."""
        future = self._client.submit(
            _run, self._marker, function, *arguments, pure=False
        )
        return functools.partial(self._wait, future)

    def _wait(self, future: Any) -> Any:
        idle_secs = 0
        while idle_secs < self._timeout_secs:
            try:
                error = future.exception(timeout=_POLL_SECS)
                if error is None:
                    return future.result()
            except self._dask.TimeoutError:
                idle_secs = 0 if self._has_workers() else idle_secs + _POLL_SECS
                continue
            except (self._dask.CancelledError, OSError) as lost:
                raise WorkerKilledError(
                    f"The connection to the Dask scheduler was lost: {lost}. "
                    f"{_SAME_COMMAND}"
                ) from lost

            # The call has ended with an error.
            if isinstance(error, self._dask.KilledWorker):
                raise WorkerKilledError(
                    f"A call was lost with its worker again and again: {error}. Most "
                    "likely, memory ran out. Start the workers with a larger "
                    f"--memory-limit. {_SAME_COMMAND}"
                )
            raise error
        raise WorkerKilledError(
            f"The Dask cluster has had no worker for {idle_secs} s. Start workers. "
            f"{_SAME_COMMAND}"
        )

    def _has_workers(self) -> bool:
        try:
            return bool(self._client.nthreads())
        except (OSError, self._dask.TimeoutError):
            return False

    def __exit__(self, error_type: Any, error: Any, traceback: Any) -> None:
        """Closes the connection. The workers finish the calls that they have begun."""
        self._client.close()


# The workers run these functions ------------------------------------------------------


def _versions() -> str:
    python = ".".join(map(str, sys.version_info[:2]))
    return f"bert-tf {importlib.metadata.version('bert-tf')} with Python {python}"


def _run(marker: str, function: Callable[..., Any], *arguments: Any) -> Any:
    _begin_run(marker)
    return function(*arguments)


@functools.lru_cache(maxsize=1)
def _begin_run(marker: str) -> None:
    """Prepares this worker for a run, which is identified by the path of its marker file."""
    try:
        with open(marker, encoding="utf-8") as file:
            versions = file.read()
    except OSError as error:
        raise WorkerKilledError(
            f"The worker {socket.gethostname()} does not see "
            f"{os.path.dirname(marker)}: {error.strerror}. Give an output_file on "
            "storage that all workers share."
        ) from error
    if versions != _versions():
        raise WorkerKilledError(
            f"A worker of Dask has {_versions()}, but this program is {versions}. "
            f"Install the same versions everywhere. {_SAME_COMMAND}"
        )
    stages.forget_vocabulary()
    use_one_core()
