"""`SweepStore`: the files of a sweep.

<output_dir>/sweep.json                program, flags and grid; values that were checked
<output_dir>/runs/<name>/              the --output_dir of each run
<output_dir>/outcomes/<name>.json      written when the process of the run has ended
<output_dir>/logs/<name>.log           stdout and stderr of the run
<output_dir>/sweep.csv, tensorboard/   the results, written at the end
<output_dir>/sweep.lock                locked by the sweep and its runs
"""

import contextlib
import dataclasses
import glob
import math
import os
import shlex
from collections.abc import Iterator
from typing import Any

from bert_tf import files, json_files
from bert_tf.errors import InputError
from bert_tf.run_scripts.sweeps.plan import Plan, PlannedRun
from bert_tf.tasks import dev_result
from bert_tf.tasks.task import RESULTS
from bert_tf.workspace import Workspace

SWEEP_FILE, LOCK, CSV, TENSORBOARD = "sweep.json", "sweep.lock", "sweep.csv", "tensorboard"
_WRITTEN = (TENSORBOARD, CSV, "runs", "outcomes", "logs")
# The files of a run that only its weights need.
_WITH_WEIGHTS = ("checkpoints", "best", "*.tf_record*", "features")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The end of a run.

    Attributes:
        code: The exit code; 0 if the run has a result.
        error: The line that states the error; "" if the run has a result.
        metric: The name of the metric that selects the best weights.
        higher_is_better: Whether higher values of the metric are better.
        value: The value of the metric on the dev split; NaN if the run failed.
        baseline: See `DevResult.baseline`.
        is_degenerate: See `DevResult.is_degenerate`.
    """

    code: int
    error: str = ""
    metric: str = ""
    higher_is_better: bool = True
    value: float = math.nan
    baseline: float | None = None
    is_degenerate: bool = False

    @property
    def has_result(self) -> bool:
        """Whether the run finished."""
        return self.code == 0

    @property
    def rank(self) -> float:
        """A number that is higher for better results; the lowest for NaN."""
        if math.isnan(self.value):
            return -math.inf
        return self.value if self.higher_is_better else -self.value


class SweepStore:
    """Reads and writes the files of a sweep. Nothing is written before `locked`.

    Args:
        plan: The runs of the sweep.

    Raises:
        InputError: The folder contains another sweep, or files of others that would be replaced.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan, self._dir = plan, plan.output_dir
        self._workspace = Workspace(self._dir, "sweep", "output_dir", LOCK)
        self._read()

    def _read(self) -> None:
        """Reads the plan of an earlier call, and compares it with the present one."""
        path = self.path(SWEEP_FILE)
        self._saved: dict[str, Any] = {}
        if os.path.exists(path):
            self._saved = json_files.read(path, own=True)
            self._check_same_sweep()
            return
        self._workspace.check_owned((LOCK,), _WRITTEN)

    def _check_same_sweep(self) -> None:
        """Checks that the earlier calls are a part of this sweep."""
        before, plan, grid = self._saved, self._plan, dict(self._saved["grid"])
        is_part = (
            before["program"] == plan.program
            and set(before["flags"]) == set(plan.flags)
            and list(grid) == list(plan.grid)
            and all(plan.grid[name][: len(grid[name])] == tuple(grid[name]) for name in grid)
            and before["seeds"] <= plan.seeds
            and (before["working_dir"] == os.getcwd() or not self._has_relative_paths())
        )
        if not is_part:
            words = [f"--grid={name}={','.join(values)}" for name, values in grid.items()]
            words += [f"--seeds={before['seeds']}", "--", before["program"], *before["flags"]]
            raise InputError(
                f"{self._dir} contains another sweep: {shlex.join(words)}, started in "
                f"{before['working_dir']}. Give another --output_dir, or that command in that "
                "folder, with further values at the end of --grid or more --seeds."
            )

    def _has_relative_paths(self) -> bool:
        """Returns whether a flag names a file in the folder in which the sweep was started."""
        values = [word.partition("=")[2] for word in self._plan.flags]
        values += [value for _, value in self._plan.values()]
        start = self._saved["working_dir"]
        relative = (value for value in values if value and not os.path.isabs(value))
        return any(os.path.exists(os.path.join(start, value)) for value in relative)

    def unchecked(self) -> list[tuple[str, str]]:
        """Returns the values of the grid that no earlier call of this sweep has checked."""
        known = {(name, value) for name, values in self._saved.get("grid", ()) for value in values}
        return [pair for pair in self._plan.values() if pair not in known]

    @contextlib.contextmanager
    def locked(self, keep_all: bool = False) -> Iterator[int | None]:
        """Creates and locks the folder, and saves the plan.

        Args:
            keep_all: Whether this and all later calls keep the weights of all runs.

        Yields:
            A file descriptor for the processes of the runs to inherit. It is locked as long as
            this process or one of them lives. None on a file system other than the local one.

        Raises:
            InputError: The folder cannot be written; or as in the constructor, because another
                sweep may have started here since then.
        """
        busy = (
            f"Another sweep writes {self._dir}, or runs that it started continue after it was "
            "killed."
        )
        with self._workspace.locked(busy, wait=True) as lock:
            self._read()
            self._saved = {
                "program": self._plan.program,
                "flags": list(self._plan.flags),
                "grid": [[name, list(values)] for name, values in self._plan.grid.items()],
                "seeds": self._plan.seeds,
                "keep_all": keep_all or bool(self._saved.get("keep_all")),
                "working_dir": os.getcwd(),
            }
            files.write_json(self.path(SWEEP_FILE), self._saved)
            yield lock

    def path(self, *names: str) -> str:
        """Returns the path of a file of the sweep."""
        return os.path.join(self._dir, *names)

    def log(self, name: str) -> str:
        """Returns the path of the log of a run."""
        return self.path("logs", f"{name}.log")

    def outcomes(self) -> dict[PlannedRun, Outcome]:
        """Returns the runs that have ended and still have their results, in the planned order."""
        found = {}
        for run in self._plan.runs():
            path = self.path("outcomes", f"{run.name}.json")
            if os.path.exists(path):
                outcome = Outcome(**json_files.read(path, own=True))
                if not outcome.has_result or os.path.exists(self.path("runs", run.name, RESULTS)):
                    found[run] = outcome
        return found

    def record(self, run: PlannedRun, code: int, last_line: str) -> Outcome:
        """Writes and returns the end of a run, from its exit code and its results.json."""
        outcome = Outcome(code, last_line)
        if code < 0:
            outcome = Outcome(code, f"ended by signal {-code}; last line: {last_line}")
        elif code == 0:
            result = dev_result.read(self._plan.folder(run))
            outcome = Outcome(1, "the program computed no metric on the dev split")
            if result is not None:
                outcome = Outcome(
                    0, "", result.metric, result.higher_is_better, result.value, result.baseline,
                    result.is_degenerate,
                )  # fmt: skip
        files.write_json(self.path("outcomes", f"{run.name}.json"), dataclasses.asdict(outcome))
        return outcome

    def remove_weights(self) -> None:
        """Removes the weights of all finished runs except the best one, unless all are kept."""
        if self._saved["keep_all"]:
            return
        outcomes = self.outcomes()
        best = best_run(outcomes)
        for run, outcome in outcomes.items():
            if outcome.has_result and run != best:
                folder = glob.escape(self._plan.folder(run))
                for pattern in _WITH_WEIGHTS:
                    for path in glob.glob(os.path.join(folder, pattern)):
                        files.remove(path)


def best_run(runs: dict[PlannedRun, Outcome]) -> PlannedRun | None:
    """Returns the finished run with the best value, the first of equal ones; None without any."""
    finished = [run for run, outcome in runs.items() if outcome.has_result]
    return max(finished, key=lambda run: runs[run].rank, default=None)
