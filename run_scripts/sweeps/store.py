"""`SweepStore`: the files of a sweep.

<output_dir>/sweep.json                program, flags and grid of the sweep
<output_dir>/runs/<name>/              the --output_dir of each run
<output_dir>/outcomes/<name>.json      written when the process of the run has ended
<output_dir>/logs/<name>.log           stdout and stderr of the run
<output_dir>/sweep.csv, tensorboard/   the results, written at the end
<output_dir>/sweep.lock                locked by the sweep and its runs
"""

import contextlib
import glob
import math
import os
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from bert_tf import files, json_files
from bert_tf.errors import InputError
from bert_tf.run_scripts.sweeps.plan import Plan, PlannedRun
from bert_tf.tasks import dev_result
from bert_tf.tasks.dev_result import DevResult
from bert_tf.workspace import Workspace

SWEEP_FILE, LOCK, CSV, TENSORBOARD = "sweep.json", "sweep.lock", "sweep.csv", "tensorboard"
_WRITTEN = (TENSORBOARD, CSV, "runs", "outcomes", "logs")
# The files of a run that only its weights need.
_WITH_WEIGHTS = ("checkpoints", "best", "*.tf_record*", "features")
# The values of a result in the file of its outcome.
_OF_RESULT = ("metric", "higher_is_better", "value", "baseline", "is_degenerate")
# The result of a run, or the line that states the error of a run that failed.
Outcome = DevResult | str


class SweepStore:
    """Reads and writes the files of a sweep. Nothing is written before `locked`.

    Args:
        plan: The runs of the sweep.

    Raises:
        InputError: The folder contains files of others that would be replaced.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan, self._dir = plan, plan.output_dir
        self._saved: dict[str, Any] = {}
        self._workspace = Workspace(self._dir, "sweep", "output_dir", LOCK)
        self._workspace.check_owned((SWEEP_FILE,), _WRITTEN)

    def _check_same_sweep(self) -> None:
        """Checks that the earlier calls are a part of this sweep."""
        before, plan, grid = self._saved, self._plan, dict(self._saved["grid"])
        is_part = (
            before["program"] == plan.program
            and set(before["flags"]) == set(plan.flags)
            and list(grid) == list(plan.grid)
            and all(plan.grid[name][: len(grid[name])] == tuple(grid[name]) for name in grid)
            and before["seeds"] <= plan.seeds
        )
        if not is_part:
            words = [f"--grid={name}={','.join(values)}" for name, values in grid.items()]
            words += [f"--seeds={before['seeds']}", "--", before["program"], *before["flags"]]
            raise InputError(
                f"{self._dir} contains another sweep: {shlex.join(words)}. Give another "
                "--output_dir, or that command, with further values at the end of --grid or more "
                "--seeds."
            )

    def unchecked(self) -> list[tuple[str, str]]:
        """Returns the values of the grid that no earlier call of this sweep has checked."""
        known = {(name, value) for name, values in self._saved.get("grid", ()) for value in values}
        return [pair for pair in self._plan.values() if pair not in known]

    @contextlib.contextmanager
    def locked(self) -> Iterator[int | None]:
        """Creates and locks the folder, and reads the plan of an earlier call.

        Yields:
            A file descriptor for the processes of the runs to inherit. It is locked as long as
            this process or one of them lives. None on a file system other than the local one.

        Raises:
            InputError: The folder contains another sweep, or cannot be written.
        """
        busy = (
            f"Another sweep writes {self._dir}, or runs that it started continue after it was "
            "killed."
        )
        with self._workspace.locked(busy, wait=True) as lock:
            path = self.path(SWEEP_FILE)
            if os.path.exists(path):
                self._saved = json_files.read(path, own=True)
                self._check_same_sweep()
            yield lock

    def save_plan(self, keep_all: bool) -> None:
        """Writes the plan.

        Args:
            keep_all: Whether this and all later calls keep the weights of all runs.
        """
        self._saved = {
            "program": self._plan.program,
            "flags": list(self._plan.flags),
            "grid": [[name, list(values)] for name, values in self._plan.grid.items()],
            "seeds": self._plan.seeds,
            "keep_all": keep_all or bool(self._saved.get("keep_all")),
        }
        files.write_json(self.path(SWEEP_FILE), self._saved)

    def path(self, *names: str) -> str:
        """Returns the path of a file of the sweep."""
        return os.path.join(self._dir, *names)

    def log(self, name: str) -> str:
        """Returns the path of the log of a run."""
        return self.path("logs", f"{name}.log")

    def outcomes(self) -> dict[PlannedRun, Outcome]:
        """Returns the runs that have ended and still have their results, in the planned order."""
        found = dict[PlannedRun, Outcome]()
        for run in self._plan.runs():
            path = self._outcome_file(run)
            if os.path.exists(path):
                error = str(json_files.read(path, own=True)["error"])
                outcome = error or dev_result.read(self._plan.folder(run))
                if outcome is not None:
                    found[run] = outcome
        return found

    def record(self, run: PlannedRun, code: int, last_line: str) -> Outcome:
        """Writes the end of a run, and returns its result or error."""
        error = f"ended by signal {-code}; last line: {last_line}" if code < 0 else last_line
        outcome: Outcome | None = error if code else dev_result.read(self._plan.folder(run))
        if outcome is None:
            outcome = "the program computed no metric on the dev split"
        values = {"code": code or 1, "error": outcome}
        if isinstance(outcome, DevResult):
            values = {"code": 0, "error": ""}
            values |= {name: getattr(outcome, name) for name in _OF_RESULT}
        files.write_json(self._outcome_file(run), values)
        return outcome

    def _outcome_file(self, run: PlannedRun) -> str:
        return self.path("outcomes", f"{run.name}.json")

    def remove_weights(self) -> None:
        """Removes the weights of all finished runs except the best one, unless all are kept."""
        results = with_result(self.outcomes())
        if self._saved["keep_all"] or not results:
            return
        for run in results.keys() - {best_run(results)}:
            for pattern in _WITH_WEIGHTS:
                for path in glob.glob(os.path.join(glob.escape(self._plan.folder(run)), pattern)):
                    files.remove(path)


def with_result(outcomes: Mapping[PlannedRun, Outcome]) -> dict[PlannedRun, DevResult]:
    """Returns the runs that have a result."""
    return {run: outcome for run, outcome in outcomes.items() if not isinstance(outcome, str)}


def best_run(results: Mapping[PlannedRun, DevResult]) -> PlannedRun:
    """Returns the run with the best value, the first of equal ones; NaN is the worst value."""

    def rank(run: PlannedRun) -> float:
        value = results[run].value
        if math.isnan(value):
            return -math.inf
        return value if results[run].higher_is_better else -value

    return max(results, key=rank)
