"""A group of worker processes. With one worker, all functions run in this process."""

import concurrent.futures
import contextlib
import functools
import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.pool import ExceptionWithTraceback  # type: ignore[attr-defined]
from typing import Any

from bert_tf import startup
from bert_tf.errors import InputError


class WorkerKilledError(InputError):
    """A worker process was killed. The files that are already complete are kept."""


def use_one_core() -> None:
    """Imports TensorFlow without its start-up lines, and makes it use one core."""
    startup.quiet_tensorflow_import(report_unused_gpus=False)
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)


class Workers:
    """Runs functions in `count` processes, or in this process if `count` is 1.

    The processes are spawned, because a forked process hangs if TensorFlow was imported before the
    fork. The worker processes end when this process ends, even if this process is killed.

    Each worker process has its own connection to this process. The processes of a
    `ProcessPoolExecutor` share queues: if one of them is killed while it holds the lock of a queue
    or writes a result, the executor can wait for ever.

    Args:
        count: Number of processes, at least 1.
        set_up: A function at module level that each worker process calls first.
    """

    def __init__(self, count: int, set_up: Callable[[], None] = use_one_core) -> None:
        self.count = count
        self._processes: list[Any] = []
        self._idle: queue.SimpleQueue[Connection] = queue.SimpleQueue()
        self._threads = concurrent.futures.ThreadPoolExecutor(count)
        spawn = multiprocessing.get_context("spawn")
        # Ctrl-C also reaches the new processes, which ignore it only after their imports.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            for _ in range(count if count > 1 else 0):
                connection, other_end = spawn.Pipe()
                process = spawn.Process(target=_work, args=(other_end, set_up))
                process.start()
                self._processes.append(process)
                other_end.close()  # now only the process has it, and the connection ends with it
                self._idle.put(connection)
        except BaseException:  # such as Ctrl-C; Python would wait for the processes at its end
            self.stop()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])

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
        if not self._processes:
            return functools.partial(function, *arguments)
        return self._threads.submit(self._run, function, *arguments).result

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Runs one call and returns its result."""
        return self.submit(function, *arguments)()

    def stop(self) -> None:
        """Ends all worker processes at once. Functions that wait for a result raise an error."""
        is_done = False
        while not is_done:
            with contextlib.suppress(KeyboardInterrupt):  # a second Ctrl-C must not leave any
                for process in self._processes:
                    process.kill()
                for process in self._processes:
                    process.join()
                is_done = True

    def _run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        connection = self._idle.get()
        try:
            connection.send((function, arguments))
            result, error = connection.recv()
        except (EOFError, OSError) as killed:
            raise WorkerKilledError(
                "A worker process was killed, most likely because memory ran out (`dmesg` reports "
                "it then). Run the same command again with a smaller num_workers."
            ) from killed
        finally:
            self._idle.put(connection)  # also if the process was killed: then every call fails
        if error is not None:
            raise error
        return result

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, error_type: Any, error: Any, traceback: Any) -> None:
        try:
            if error is None:
                self._threads.shutdown(cancel_futures=True)
        finally:
            self.stop()
            self._threads.shutdown(cancel_futures=True)


def _work(connection: Connection, set_up: Callable[[], None]) -> None:
    """Runs the calls that arrive, until the parent process ends this process.

    The parent process handles the signals, which a terminal or a batch system sends to all.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    set_up()
    with contextlib.suppress(EOFError, OSError):  # the parent process was killed
        while True:
            function, arguments = connection.recv()
            try:
                reply = function(*arguments), None
            except Exception as error:
                reply = None, ExceptionWithTraceback(error, error.__traceback__)
            connection.send(reply)


def _exit_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
