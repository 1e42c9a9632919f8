"""A pool of processes for CPU work, and the same calls without one.

Imports `errors`; TensorFlow only in the processes.
"""

import collections
import concurrent.futures
import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from bert_tf.errors import InputError

Task = tuple[Callable[..., Any], tuple[Any, ...]]


class WorkerKilledError(InputError):
    """A process ended that was not to end; what was made until then is kept."""


class Workers:
    """Runs functions in `count` processes, or in this one if `count` is 1.

    Processes are spawned, not forked: a fork after TensorFlow was imported hangs. They end with
    this process, however it ends.

    Args:
        count: Number of processes, at least 1.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool = (
            concurrent.futures.ProcessPoolExecutor(
                count, multiprocessing.get_context("spawn"), initializer=_start
            )
            if count > 1
            else None
        )
        # The pool starts a process when a call finds none idle; this starts all at once, so that
        # they import TensorFlow side by side.
        if self._pool is not None:
            for _ in range(count):
                self._pool.submit(os.getpid)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The result of one call."""
        return next(self.run(collections.deque([(function, arguments)])))[1]

    def run(self, tasks: "collections.deque[Task]") -> Iterator[tuple[Task, Any]]:
        """Runs tasks until none is left; who consumes the results may add more.

        Args:
            tasks: Functions at module level with their arguments; emptied.

        Yields:
            Each task with its result, in the order in which they end.

        Raises:
            WorkerKilledError: A process was killed.
            Exception: What a task raises.
        """
        if self._pool is None:
            while tasks:
                task = tasks.popleft()
                yield task, task[0](*task[1])
            return
        running: dict[concurrent.futures.Future[Any], Task] = {}
        while tasks or running:
            while tasks and len(running) < 2 * self.count:
                task = tasks.popleft()
                with _named_if_killed():
                    running[self._pool.submit(task[0], *task[1])] = task
            done, _ = concurrent.futures.wait(
                running, return_when=concurrent.futures.FIRST_COMPLETED
            )
            for future in done:
                with _named_if_killed():
                    result = future.result()
                yield running.pop(future), result

    def __enter__(self) -> "Workers":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._pool is None:
            return
        if kind is not None:
            for process in list((self._pool._processes or {}).values()):
                process.terminate()
        self._pool.shutdown(wait=True, cancel_futures=True)


@contextlib.contextmanager
def _named_if_killed() -> Iterator[None]:
    try:
        yield
    except concurrent.futures.process.BrokenProcessPool as error:
        raise WorkerKilledError(
            "A worker process was killed, most likely because memory ran out (`dmesg` says so "
            "then). Give the same command again, with a smaller --num_workers: it goes on where "
            "this run stopped."
        ) from error


def _start() -> None:
    """In each process: leave Ctrl-C to the parent, end with it, and use one core."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
