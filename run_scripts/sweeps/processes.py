"""Runs the commands of a sweep in processes, some at a time."""

import os
import subprocess
import time
from collections.abc import Callable, Generator, Mapping, Sequence

from bert_tf.run_scripts.sweeps.plan import PlannedRun
from bert_tf.storage import files

_POLL_SECS = 0.05


class _Job:
    """A command that runs in a process.

    The process has a session of its own, so that Ctrl-C in a terminal reaches only the
    sweep.

    Args:
        command: The words of the command.
        log: The file to which stdout and stderr are appended.
        environment: The environment variables.
        inherited: File descriptors that the process inherits.

    Attributes:
        process: The process.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: str,
        environment: Mapping[str, str],
        inherited: Sequence[int],
    ) -> None:
        files.make_folder(os.path.dirname(log))
        with files.explain_write_errors(log), open(log, "ab") as output:
            self._log, self._log_start = log, output.tell()
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
                pass_fds=inherited,
            )

    def error(self) -> str:
        """Returns the line that states why the process failed; "" if its exit code is 0."""
        code = self.process.returncode
        if not code:
            return ""
        with open(self._log, "rb") as file:
            file.seek(self._log_start)
            text = file.read().decode("utf-8", "replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("error: ")]
        line = (errors or lines or ["no output"])[-1]
        return f"ended by signal {-code}; last line: {line}" if code < 0 else line


def run_commands(
    commands: Mapping[PlannedRun, Sequence[str]],
    log: Callable[[PlannedRun], str],
    parallel: int,
    inherited: Sequence[int] = (),
) -> Generator[tuple[PlannedRun, str], None, None]:
    """Runs commands, and yields each run with its error when its process has ended.

    If the sweep is stopped or an exception occurs, the running processes receive
    SIGTERM, after which a run saves a checkpoint.

    Args:
        commands: The words of the command of each run, in the order in which they
            start.
        log: Returns the path of the log of a run.
        parallel: The number of processes at a time.
        inherited: File descriptors that the processes inherit.
    """
    waiting, active = list(commands), dict[PlannedRun, _Job]()
    environment = dict(os.environ)
    if parallel > 1:  # by default, a process reserves the memory of all GPUs
        environment.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    try:
        while waiting or active:
            while waiting and len(active) < parallel:
                run = waiting.pop(0)
                active[run] = _Job(commands[run], log(run), environment, inherited)
            for run in [
                run for run, job in active.items() if job.process.poll() is not None
            ]:
                yield run, active.pop(run).error()
            time.sleep(_POLL_SECS)
    finally:
        for job in active.values():
            job.process.terminate()
        for job in active.values():
            job.process.wait()
