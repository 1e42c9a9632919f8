"""Runs commands in processes, some at a time, and forwards stop signals to them."""

import contextlib
import dataclasses
import os
import signal
import subprocess
import time
from collections.abc import Generator, Iterator, Sequence
from typing import IO, Any

from bert_tf import files

_POLL_SECS = 0.05


@dataclasses.dataclass(frozen=True)
class Job:
    """A command to run.

    Attributes:
        name: The name of the job.
        command: The words of the command.
        log: The file to which stdout and stderr are appended.
    """

    name: str
    command: Sequence[str]
    log: str


@dataclasses.dataclass(frozen=True)
class Finished:
    """A command that has ended.

    Attributes:
        name: The name of the job.
        code: The exit code; -N if signal N ended the process.
        secs: The run time in seconds.
        last_line: The line of its output that states the error, or else the last line.
    """

    name: str
    code: int
    secs: float
    last_line: str


class Processes:
    """Runs jobs in processes.

    Each process has a session of its own, so that Ctrl-C in a terminal reaches only the sweep,
    which forwards each signal once. For SIGHUP it sends SIGTERM, so that runs save a checkpoint.

    Args:
        parallel: The number of processes at a time.
        inherited: File descriptors that the processes inherit.

    Attributes:
        received: The stop signals that this process received while jobs were running. After the
            first one, no further job is started.
    """

    def __init__(self, parallel: int, inherited: Sequence[int] = ()) -> None:
        self._parallel, self._inherited = parallel, inherited
        self.received: list[int] = []

    def run(self, jobs: Sequence[Job]) -> Generator[Finished, None, None]:
        """Runs the jobs, and yields each one when it has ended.

        If the caller stops early or an exception occurs, the running processes are ended.
        """
        waiting, active, forwarded = list(jobs), list[_Active](), 0
        with _recorded_signals(self.received):
            try:
                while active or (waiting and not self.received):
                    while waiting and len(active) < self._parallel and not self.received:
                        active.append(self._start(waiting.pop(0)))
                    for number in self.received[forwarded:]:
                        _send(active, signal.SIGTERM if number == signal.SIGHUP else number)
                        forwarded += 1
                    for each in [each for each in active if each.process.poll() is not None]:
                        active.remove(each)
                        yield each.finish()
                    time.sleep(_POLL_SECS)
            finally:
                _send(active, signal.SIGTERM)
                for each in active:
                    each.process.wait()
                    each.output.close()

    def _start(self, job: Job) -> "_Active":
        os.makedirs(os.path.dirname(job.log), exist_ok=True)
        with files.explain_write_errors(job.log):
            output = open(job.log, "ab")  # noqa: SIM115 closed when the process has ended
        environment = dict(os.environ)
        if self._parallel > 1:  # by default, a process reserves the memory of all GPUs
            environment.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
        process = subprocess.Popen(
            job.command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment,
            start_new_session=True, pass_fds=self._inherited,
        )  # fmt: skip
        return _Active(job, process, output, output.tell(), time.monotonic())


@dataclasses.dataclass(frozen=True)
class _Active:
    """A running process; `start` is the size of the log before it."""

    job: Job
    process: subprocess.Popen[bytes]
    output: IO[bytes]
    start: int
    started: float

    def finish(self) -> Finished:
        self.output.close()
        secs = time.monotonic() - self.started
        with open(self.job.log, "rb") as file:
            file.seek(self.start)
            text = file.read().decode("utf-8", "replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("error: ")]
        last = (errors or lines or ["no output"])[-1]
        return Finished(self.job.name, self.process.returncode, secs, last)


def _send(active: Sequence[_Active], number: int) -> None:
    for each in active:
        each.process.send_signal(number)


@contextlib.contextmanager
def _recorded_signals(received: list[int]) -> Iterator[None]:
    """Appends the number of each stop signal to a list, instead of its normal effect."""

    def record(number: int, _: Any) -> None:
        received.append(number)

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup has it ignored
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, record) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
