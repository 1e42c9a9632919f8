"""Checks the values of the grid, and executes the runs that have no result."""

import contextlib
import logging
import os
import tempfile
from collections.abc import Sequence

from bert_tf.errors import InputError
from bert_tf.run_scripts.sweeps.plan import Plan, PlannedRun
from bert_tf.run_scripts.sweeps.processes import Job, run_jobs
from bert_tf.run_scripts.sweeps.store import Outcome, SweepStore, with_result

_LOGGER = logging.getLogger(__name__)


def execute(plan: Plan, store: SweepStore, parallel: int, keep_all: bool) -> None:
    """Executes the runs that have no result, after a check of the values of the grid.

    Args:
        plan: The runs.
        store: The files of the sweep.
        parallel: The number of processes at a time, at least 1.
        keep_all: Whether to keep the weights of all runs; otherwise, only those of the best one.

    Raises:
        InputError: The program refuses a value or a flag, or the folder contains another sweep or
            files of others, or cannot be written.
    """
    with store.locked() as lock:
        _check_values(plan, store.unchecked(), parallel)
        store.save_plan(keep_all)
        done = with_result(store.outcomes())
        runs = {run.name: run for run in plan.runs() if run not in done}
        total = len(done) + len(runs)
        if done:
            _LOGGER.info("%d of %d runs are finished already.", len(done), total)
        store.remove_weights()
        jobs = [Job(name, plan.command(run), store.log(name)) for name, run in runs.items()]
        with contextlib.closing(run_jobs(jobs, parallel, [] if lock is None else [lock])) as ends:
            for number, job in enumerate(ends, len(done) + 1):
                outcome = store.record(runs[job.name], job.process.returncode, job.last_line())
                _report(f"{number} of {total}: {job.name}", job.secs, outcome, store.log(job.name))
                store.remove_weights()


def _report(run: str, secs: float, outcome: Outcome, log: str) -> None:
    """Logs the end of a run."""
    if isinstance(outcome, str):
        _LOGGER.warning("%s failed: %s (%s)", run, outcome, log)
    else:
        note = ", no better than a constant prediction" if outcome.is_degenerate else ""
        _LOGGER.info("%s: %s %.4f%s (%.0f s)", run, outcome.metric, outcome.value, note, secs)


def _check_values(plan: Plan, pairs: Sequence[tuple[str, str]], parallel: int) -> None:
    """Checks that the program accepts each value, together with the first values of other flags.

    Nothing is written into the folder of the sweep.

    Args:
        plan: The runs.
        pairs: The values to check, with the names of their flags.
        parallel: The number of processes at a time.

    Raises:
        InputError: The program refuses a value or a flag.
    """
    if pairs:
        _LOGGER.info("Checking the flags and the values of the grid.")
    first = {name: values[0] for name, values in plan.grid.items()}
    # Of the first values, only one run is needed.
    cells = dict.fromkeys(tuple({**first, name: value}.items()) for name, value in pairs)
    with tempfile.TemporaryDirectory() as folder:
        jobs = [
            Job(
                ", ".join(f"{name}={value}" for name, value in cell),
                [*plan.command(PlannedRun(cell, 1)), "--check_only=true"],
                os.path.join(folder, str(number)),
            )
            for number, cell in enumerate(cells)
        ]
        with contextlib.closing(run_jobs(jobs, parallel)) as ends:
            for job in ends:
                if job.process.returncode:
                    message = job.last_line().removeprefix("error: ")
                    raise InputError(f"{plan.program} refuses {job.name}: {message}")
