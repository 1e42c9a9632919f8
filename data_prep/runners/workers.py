"""A group of worker processes. With one worker, all functions run in this process.

Imports `errors` and `startup`, and TensorFlow only in the worker processes.
"""

import concurrent.futures
import contextlib
import functools
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker
from typing import Any

from bert_tf import startup
from bert_tf.errors import InputError


class WorkerKilledError(InputError):
    """A worker process was killed. The files that are already complete are kept."""


class Workers:
    """Runs functions in `count` processes, or in this process if `count` is 1.

    The processes are spawned, because a forked process hangs if TensorFlow was imported before the
    fork. The worker processes end when this process ends, even if this process is killed.

    Args:
        count: Number of processes, at least 1.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool: concurrent.futures.ProcessPoolExecutor | None = None
        if count > 1:
            _start_resource_tracker()
            spawn = multiprocessing.get_context("spawn")
            self._pool = concurrent.futures.ProcessPoolExecutor(count, spawn, _initialize_worker)
            # When a call is submitted, the executor starts a process only if no process is idle.
            # The following calls start all processes at once, so that the processes import
            # TensorFlow in parallel.
            for _ in range(count):
                self._pool.submit(os.getpid)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
        """Starts a call in a worker process.

        With one worker, the call runs in this process when the returned function is called.

        Args:
            function: A function at module level.
            *arguments: The arguments of the function.

        Returns:
            A function that waits for the result of the call, and returns the result. The function
            may be called only once, and raises `WorkerKilledError` if a worker process was killed.
        """
        if self._pool is None:
            return functools.partial(function, *arguments)
        with _explain_killed_worker():
            return functools.partial(_wait, self._pool.submit(function, *arguments))

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Runs one call and returns its result."""
        return self.submit(function, *arguments)()

    def stop(self) -> None:
        """Ends all worker processes at once. Functions that wait for a result raise an error."""
        if self._pool is not None:
            for process in list((self._pool._processes or {}).values()):
                process.kill()
            # A thread may write a call to the pipe that these processes read. Before Python 3.11.5,
            # it would not end (CPython issue 94777), because this process can read the pipe too.
            if sys.version_info < (3, 11, 5):
                self._pool._call_queue._reader.close()  # type: ignore[attr-defined]

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, error_type: Any, error: Any, traceback: Any) -> None:
        if error is not None:
            self.stop()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)


def _start_resource_tracker() -> None:
    """Starts the helper process of multiprocessing, which would end when a terminal is closed."""
    if threading.current_thread() is not threading.main_thread():
        return
    handler = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the new process inherits it
    try:
        resource_tracker.ensure_running()
    finally:
        signal.signal(signal.SIGHUP, handler)


def _wait(future: "concurrent.futures.Future[Any]") -> Any:
    with _explain_killed_worker():
        return future.result()


@contextlib.contextmanager
def _explain_killed_worker() -> Iterator[None]:
    try:
        yield
    except concurrent.futures.process.BrokenProcessPool as error:
        raise WorkerKilledError(
            "A worker process was killed, most likely because memory ran out (`dmesg` reports it "
            "then). Run the same command again with a smaller num_workers: it resumes where this "
            "run stopped."
        ) from error


def _initialize_worker() -> None:
    """Makes a worker process ignore signals, exit with its parent process, and use one core.

    The parent process handles the signals, which a terminal or a batch system sends to all.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    startup.quiet_tensorflow_import(report_unused_gpus=False)
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)


def _exit_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
