"""Checks the values of the grid, and executes the runs that have no result."""

import contextlib
import logging
import os
import tempfile
from collections.abc import Sequence

from bert_tf.errors import InputError
from bert_tf.fine_tuning import dev_result
from bert_tf.run_scripts.sweeps.plan import Plan, PlannedRun
from bert_tf.run_scripts.sweeps.processes import run_commands
from bert_tf.run_scripts.sweeps.store import SweepStore

_LOGGER = logging.getLogger(__name__)


def execute(
    plan: Plan, store: SweepStore, parallel: int, keep_all: bool
) -> dict[PlannedRun, str]:
    """Executes the runs that have no result, after a check of the values of the grid.

    Args:
        plan: The runs.
        store: The files of the sweep.
        parallel: The number of processes at a time, at least 1.
        keep_all: Whether to keep the weights of all runs; otherwise, only those of the
            best one.

    Returns:
        For each run that failed, the line that states the error.

    Raises:
        InputError: The program refuses a value or a flag, or the folder contains
            another sweep or files of others, or cannot be written.
    """
    failed: dict[PlannedRun, str] = {}
    with store.locked() as lock:
        _check_values(plan, store.unchecked(), parallel)
        store.save_plan(keep_all)
        finished = store.results()
        if finished:
            _LOGGER.info(
                "%d of %d runs are finished already.", len(finished), len(plan.runs())
            )
        store.remove_weights()
        commands = {
            run: plan.command(run) for run in plan.runs() if run not in finished
        }
        ends = run_commands(
            commands, store.log, parallel, [] if lock is None else [lock]
        )
        with contextlib.closing(ends):
            for number, (run, error) in enumerate(ends, len(finished) + 1):
                text = f"{number} of {len(plan.runs())}: {run.name}"
                result = dev_result.read(plan.folder(run))
                if result is None:
                    failed[run] = (
                        error or "the program computed no metric on the dev split"
                    )
                    _LOGGER.warning(
                        "%s failed: %s (%s)", text, failed[run], store.log(run)
                    )
                else:
                    _LOGGER.info("%s: %s %.4f", text, result.metric, result.value)
                store.remove_weights()
    return failed


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
    cells = dict.fromkeys(
        tuple({**first, name: value}.items()) for name, value in pairs
    )
    runs = (PlannedRun(cell, 1) for cell in cells)
    commands = {run: [*plan.command(run), "--check_only=true"] for run in runs}
    with tempfile.TemporaryDirectory() as folder:
        ends = run_commands(
            commands, lambda run: os.path.join(folder, run.name), parallel
        )
        with contextlib.closing(ends):
            for run, error in ends:
                if error:
                    values = ", ".join(f"{name}={value}" for name, value in run.values)
                    reason = error.removeprefix("error: ")
                    raise InputError(f"{plan.program} refuses {values}: {reason}")
