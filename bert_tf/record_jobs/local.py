"""Creates records on one machine, with several worker processes.

The results of all stages are files in a work folder next to the output, so that a
killed run can be resumed. With several workers, the main process does not import
TensorFlow, because the import takes seconds. A part is a range of the shuffled order
(see `shuffling`).
"""

import functools
import glob
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from bert_tf.program import startup
from bert_tf.record_creation.records_config import RecordsConfig
from bert_tf.record_jobs.base import Runner
from bert_tf.record_jobs.records_job import WorkerKilledError

# There is one worker, and one more for each full block of this many bytes of the input,
# times `dupe_factor`. For less text, a further worker would take more time to start
# (about 3 s) than the worker would save.
_BYTES_PER_WORKER = 16 << 20


def runner_for(
    config: RecordsConfig, input_file: str, num_workers: int
) -> "LocalRunner":
    """Returns a runner whose number of processes fits the input, at most `num_workers`."""
    size = _local_input_bytes(input_file) * config.dupe_factor
    return LocalRunner(min(num_workers, 1 + size // _BYTES_PER_WORKER))


def _local_input_bytes(patterns: str) -> int:
    """Returns the size of local input in bytes, and a large number for other input.

    Does not import TensorFlow, because the import takes seconds.
    """
    if not patterns or "://" in patterns:
        return 1 << 40
    return sum(
        os.path.getsize(path)
        for pattern in patterns.split(",")
        for path in glob.glob(pattern.strip())
        if os.path.isfile(path)
    )


# A terminal sends these signals to all processes. This process handles them for the
# workers.
_TERMINAL_SIGNALS = (signal.SIGINT, signal.SIGHUP)


def use_one_core() -> None:
    """Imports TensorFlow, and makes it use one core."""
    startup.import_tensorflow(report_unused_gpus=False)
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)


class LocalRunner(Runner):
    """Runs functions in `count` processes, or in this process if `count` is 1.

    The processes are spawned, because a forked process hangs if TensorFlow was imported
    before the fork. Each process first calls `set_up`, a function at module level. At
    the end of a `with` statement, the processes are killed, so that they write no more
    files after an error. They also end when this process ends, even if it is killed. If
    a worker process was killed, the `with` statement raises `WorkerKilledError`.
    """

    def __init__(self, count: int, set_up: Callable[[], None] = use_one_core) -> None:
        self._pool: ProcessPoolExecutor | None = None
        if count == 1:
            startup.import_tensorflow()
            return
        spawn = multiprocessing.get_context("spawn")
        # The new processes inherit the blocked signals.
        signal.pthread_sigmask(signal.SIG_BLOCK, _TERMINAL_SIGNALS)
        try:
            self._pool = ProcessPoolExecutor(count, spawn, _begin, (set_up,))
            # Python unblocked SIGINT when it started its process that tracks resources.
            signal.pthread_sigmask(signal.SIG_BLOCK, _TERMINAL_SIGNALS)
            for _ in range(count):
                self._pool.submit(int)  # starts a process
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _TERMINAL_SIGNALS)

    def submit(
        self, function: Callable[..., Any], *arguments: Any
    ) -> Callable[[], Any]:
        """Starts a call. Without worker processes, the call runs when its result is needed."""
        if self._pool is None:
            return functools.partial(function, *arguments)
        return self._pool.submit(function, *arguments).result

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Runs one call, in a worker process if there are any, and returns its result."""
        return self.submit(function, *arguments)()

    def __exit__(self, error_type: Any, error: Any, traceback: Any) -> None:
        # `with` statements with one runner can be nested: the first exit ends the pool.
        if self._pool is not None and self._pool._processes is not None:
            for process in list(self._pool._processes.values()):
                process.kill()
            # A process may have sent only a part of a large result. The thread that
            # reads results waits for the rest until the pipe has no writer.
            results: Any = self._pool._result_queue
            results._writer.close()
            self._pool.shutdown(cancel_futures=True)
        if isinstance(error, BrokenProcessPool):
            raise WorkerKilledError(
                "A worker process was killed, most likely because memory ran out "
                "(`dmesg` reports it then). Run the same command again with a smaller "
                "num_workers."
            ) from error


def _begin(set_up: Callable[[], None]) -> None:
    """Prepares a worker process, which will end when its parent process ends."""
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    set_up()


def _exit_with_parent() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)
