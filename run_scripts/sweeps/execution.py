"""Checks the values of the grid, and executes the runs that have no result."""

import contextlib
import logging
import os
import tempfile
from collections.abc import Sequence

from bert_tf.errors import InputError
from bert_tf.run_scripts.sweeps.plan import Plan, PlannedRun
from bert_tf.run_scripts.sweeps.processes import Finished, Job, Processes
from bert_tf.run_scripts.sweeps.store import Outcome, SweepStore

_LOGGER = logging.getLogger(__name__)


class SweepStopped(Exception):  # noqa: N818 it is not an error
    """A stop signal ended the sweep.

    Args:
        signal_number: The number of the signal.

    Attributes:
        signal_number: The argument `signal_number`.
    """

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number


def execute(plan: Plan, store: SweepStore, parallel: int, keep_all: bool) -> None:
    """Executes the runs that have no result, after a check of the values of the grid.

    Args:
        plan: The runs.
        store: The files of the sweep.
        parallel: The number of processes at a time, at least 1.
        keep_all: Whether to keep the weights of all runs; otherwise, only those of the best one.

    Raises:
        InputError: The program refuses a value or a flag, or another sweep works in the folder.
        SweepStopped: This process received a stop signal.
    """
    check_values(plan, store.unchecked(), parallel)
    keep_all = store.keeps_all(keep_all)
    with store.locked(keep_all) as descriptor:
        outcomes = store.outcomes()
        by_name = {run.name: run for run in plan.runs()}
        done = [run for run, outcome in outcomes.items() if outcome.has_result]
        if done:
            _LOGGER.info("%d of %d runs are finished already.", len(done), len(by_name))
        jobs = [
            Job(name, plan.command(run), store.log(name))
            for name, run in by_name.items()
            if run not in done
        ]
        processes = Processes(parallel, [descriptor])
        ended = len(done)
        if not keep_all:
            store.remove_weights(outcomes)
        with contextlib.closing(processes.run(jobs)) as ends:
            for finished in ends:
                if finished.code and processes.received:
                    continue  # the signal ended it, so it did not fail
                ended += 1
                outcome = store.record(by_name[finished.name], finished.code, finished.last_line)
                _report(f"{ended} of {len(by_name)}", finished, outcome, store.log(finished.name))
                if not keep_all:
                    store.remove_weights(store.outcomes())
        if processes.received:
            raise SweepStopped(processes.received[0])


def _report(count: str, finished: Finished, outcome: Outcome, log: str) -> None:
    """Logs the end of a run."""
    if not outcome.has_result:
        _LOGGER.warning("%s: %s failed: %s (%s)", count, finished.name, outcome.error, log)
        return
    note = ", no better than a constant prediction" if outcome.is_degenerate else ""
    _LOGGER.info(
        "%s: %s: %s %.4f%s (%.0f s)",
        count, finished.name, outcome.metric, outcome.value, note, finished.secs,
    )  # fmt: skip


def check_values(
    plan: Plan, pairs: Sequence[tuple[str, str]], parallel: int, check: str = "--check_only=true"
) -> None:
    """Checks that the program accepts the given values, without writing into the folder.

    The first values of all flags are checked together, and then each other value with the first
    values of the other flags.

    Args:
        plan: The runs.
        pairs: The values to check, with the names of their flags.
        parallel: The number of processes at a time.
        check: The flag with which the program only checks its flags.

    Raises:
        InputError: The program refuses a value or a flag.
        SweepStopped: This process received a stop signal.
    """
    first = {name: values[0] for name, values in plan.grid.items()}
    others = {f"{name}={value}": {**first, name: value} for name, value in pairs}
    together = [name for name, values in others.items() if values == first]
    if pairs:
        _LOGGER.info("Checking the flags and the values of the grid.")
    if together:
        _check(plan, {f"the flags with {', '.join(together)}": first}, parallel, check)
    _check(plan, {k: v for k, v in others.items() if k not in together}, parallel, check)


def _check(
    plan: Plan, values_by_name: dict[str, dict[str, str]], parallel: int, check: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        jobs = []
        for number, (name, values) in enumerate(values_by_name.items()):
            command = plan.command(PlannedRun(tuple(values.items()), 1))
            log = os.path.join(folder, str(number))
            jobs.append(Job(name, [*command, check], log))
        processes = Processes(parallel)
        with contextlib.closing(processes.run(jobs)) as ends:
            for finished in ends:
                if finished.code and not processes.received:
                    message = finished.last_line.removeprefix("error: ")
                    raise InputError(f"{plan.program} refuses {finished.name}: {message}")
    if processes.received:
        raise SweepStopped(processes.received[0])
