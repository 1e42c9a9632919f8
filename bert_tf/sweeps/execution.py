"""Checks the values of the grid, and executes the runs that have no result."""

import contextlib
import logging
import os
import subprocess
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from bert_tf.errors import InputError
from bert_tf.runs import dev_split
from bert_tf.storage import files
from bert_tf.sweeps.plan import Plan, PlannedRun
from bert_tf.sweeps.store import SweepStore

_LOGGER = logging.getLogger(__name__)
_POLL_SECS = 0.05


def execute(
    plan: Plan, store: SweepStore, parallel: int, keep_all: bool
) -> dict[PlannedRun, str]:
    """Executes the runs that have no result, after a check of the values of the grid.

    Returns the error message of each failed run. Unless `keep_all` is true, only the
    best run keeps its weights.
    """
    failed: dict[PlannedRun, str] = {}
    runs = plan.runs()
    with store.locked() as lock:
        # Nothing is written if the program refuses a value.
        _check_values(plan, store.unchecked(), parallel)
        store.save_plan(keep_all)

        finished = store.results()
        if finished:
            _LOGGER.info(
                "%d of %d runs are finished already.", len(finished), len(runs)
            )
        store.remove_weights()

        commands = {run: plan.command(run) for run in runs if run not in finished}
        inherited = [] if lock is None else [lock]
        ends = run_commands(commands, store.log, parallel, inherited)
        with contextlib.closing(ends):
            for number, (run, error) in enumerate(ends, len(finished) + 1):
                text = f"{number} of {len(runs)}: {run.name}"
                # A run that wrote its result has succeeded, whatever its exit code.
                result = dev_split.read_result(plan.folder(run))
                if result is None:
                    failed[run] = (
                        error or "the program computed no metric on the dev split"
                    )
                    _LOGGER.warning(
                        "warning: %s failed: %s (%s)", text, failed[run], store.log(run)
                    )
                else:
                    _LOGGER.info("%s: %s %.4f", text, result.metric, result.value)
                store.remove_weights()
    return failed


def _check_values(plan: Plan, pairs: Sequence[tuple[str, str]], parallel: int) -> None:
    """Checks that the program accepts each value, with the first value of each other flag.

    `pairs` are the names of flags, each with a value to check. Nothing is written into
    the folder of the sweep.
    """
    if pairs:
        _LOGGER.info("Checking the flags and the values of the grid.")

    first = {name: values[0] for name, values in plan.grid.items()}
    runs = (
        PlannedRun(tuple({**first, name: value}.items()), 1) for name, value in pairs
    )
    # The first values of all flags give the same run, which the dict contains once.
    commands = {run: [*plan.command(run), "--check_only=true"] for run in runs}

    with files.temporary_folder() as folder:
        ends = run_commands(
            commands, lambda run: os.path.join(folder, run.name), parallel
        )
        with contextlib.closing(ends):
            for run, error in ends:
                if error:
                    values = ", ".join(f"{name}={value}" for name, value in run.values)
                    reason = error.removeprefix("error: ")
                    raise InputError(f"{plan.program} refuses {values}: {reason}")


def _start(command: Sequence[str], log: str, **options: Any) -> tuple[Any, int]:
    """Starts a process whose stdout and stderr are appended to a log.

    Returns the process, and the size of the log before the process wrote to the log.
    The process has a session of its own, so that Ctrl-C in a terminal reaches only the
    sweep.
    """
    files.make_folder(os.path.dirname(log))
    with files.explain_write_errors(log), open(log, "ab") as output:
        log_start = output.tell()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            **options,
        )
        return process, log_start


def _error(code: int, log: str, log_start: int) -> str:
    """Returns the line of the log that states why a process failed; "" if it succeeded."""
    if not code:
        return ""
    with open(log, "rb") as file:
        file.seek(log_start)
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

    The error is "" if the run succeeded. The commands start in their order, `parallel`
    at a time, and inherit the file descriptors `inherited`. If the sweep is stopped or
    an exception occurs, the running processes receive SIGTERM, after which a run saves
    a checkpoint.
    """
    waiting = list(commands)
    active: dict[PlannedRun, tuple[Any, int]] = {}
    environment = dict(os.environ)
    if parallel > 1:  # by default, a process reserves the memory of all GPUs
        environment.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    try:
        while waiting or active:
            while waiting and len(active) < parallel:
                run = waiting.pop(0)
                active[run] = _start(
                    commands[run], log(run), env=environment, pass_fds=inherited
                )
            # In the order in which they started.
            for run, (process, log_start) in list(active.items()):
                if process.poll() is not None:
                    del active[run]
                    yield run, _error(process.returncode, log(run), log_start)
            time.sleep(_POLL_SECS)
    finally:
        for process, _ in active.values():
            process.terminate()
        for process, _ in active.values():
            process.wait()
