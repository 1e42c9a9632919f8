"""Runs commands in processes, some at a time."""

import os
import subprocess
import time
from collections.abc import Generator, Iterable, Sequence

from bert_tf import files

_POLL_SECS = 0.05


class Job:
    """A command to run in a process.

    Args:
        name: The name of the job.
        command: The words of the command.
        log: The file to which stdout and stderr are appended.

    Attributes:
        name: The argument `name`.
        process: The process; exists after `start`.
        secs: The run time in seconds, for a job from `run_jobs`.
    """

    process: subprocess.Popen[bytes]
    secs: float

    def __init__(self, name: str, command: Sequence[str], log: str) -> None:
        self.name, self._command, self._log = name, command, log

    def start(self, environment: dict[str, str], inherited: Sequence[int]) -> None:
        """Starts the process, with these environment variables and open file descriptors.

        It has a session of its own, so that Ctrl-C in a terminal reaches only the sweep.
        """
        self._started = time.monotonic()
        files.make_folder(os.path.dirname(self._log))
        with files.explain_write_errors(self._log), open(self._log, "ab") as output:
            self._log_start = output.tell()
            self.process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                env=environment, start_new_session=True, pass_fds=inherited,
            )  # fmt: skip

    def has_ended(self) -> bool:
        """Returns whether the process has ended."""
        self.secs = time.monotonic() - self._started
        return self.process.poll() is not None

    def last_line(self) -> str:
        """Returns the line of the output that states the error, or else the last line."""
        with open(self._log, "rb") as file:
            file.seek(self._log_start)
            text = file.read().decode("utf-8", "replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("error: ")]
        return (errors or lines or ["no output"])[-1]


def run_jobs(
    jobs: Iterable[Job], parallel: int, inherited: Sequence[int] = ()
) -> Generator[Job, None, None]:
    """Runs jobs, and yields each one when its process has ended.

    If the sweep is stopped or an exception occurs, the running processes receive SIGTERM, after
    which a run saves a checkpoint.

    Args:
        jobs: The jobs, in the order in which they start.
        parallel: The number of processes at a time.
        inherited: File descriptors that the processes inherit.
    """
    waiting, active = list(jobs), list[Job]()
    environment = dict(os.environ)
    if parallel > 1:  # by default, a process reserves the memory of all GPUs
        environment.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    try:
        while waiting or active:
            while waiting and len(active) < parallel:
                job = waiting.pop(0)
                job.start(environment, inherited)
                active.append(job)
            for job in [job for job in active if job.has_ended()]:
                active.remove(job)
                yield job
            time.sleep(_POLL_SECS)
    finally:
        for job in active:
            job.process.terminate()
        for job in active:
            job.process.wait()
