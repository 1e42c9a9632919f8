"""`SweepStore`: the files of a sweep.

<output_dir>/sweep.json                program, flags and grid; values that were checked
<output_dir>/runs/<name>/              the --output_dir of each run
<output_dir>/outcomes/<name>.json      written when the process of the run has ended
<output_dir>/logs/<name>.log           stdout and stderr of the run
<output_dir>/sweep.csv, tensorboard/   the results, written at the end
<output_dir>/sweep.lock                locked by the sweep
<output_dir>/runs.lock                 locked by the sweep and its runs
"""

import contextlib
import dataclasses
import glob
import math
import os
from collections.abc import Iterator
from typing import IO, Any

from bert_tf import files, json_files
from bert_tf.errors import InputError
from bert_tf.locks import open_file, try_lock, wait_for_lock
from bert_tf.run_scripts.sweeps.plan import Plan, PlannedRun
from bert_tf.tasks import dev_result
from bert_tf.tasks.task import RESULTS

SWEEP_FILE, CSV, TENSORBOARD = "sweep.json", "sweep.csv", "tensorboard"
_SCHEMA = {
    "program": json_files.TEXT, "flags": json_files.TEXTS, "seeds": json_files.LENGTH,
    "grid": json_files.Rule("a list of names with values", (list,), items=(list,)),
    "keep_all": json_files.TRUTH, "working_dir": json_files.TEXT,
}  # fmt: skip
_OUTCOME_SCHEMA = {
    "code": json_files.Rule("a whole number", (int,)), "error": json_files.TEXT,
    "metric": json_files.TEXT, "higher_is_better": json_files.TRUTH, "value": dev_result.METRIC,
    "baseline": dev_result.METRIC, "is_degenerate": json_files.TRUTH,
}  # fmt: skip
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
    """

    def __init__(self, plan: Plan) -> None:
        self._plan, self._dir = plan, plan.output_dir
        self._read()

    def _read(self) -> None:
        """Reads the plan of an earlier call, and compares it with the present one."""
        path = self._path(SWEEP_FILE)
        self._saved = _read_plan(path) if os.path.exists(path) else {}
        self._check_same_sweep()

    def _check_nothing_is_replaced(self) -> None:
        others = [name for name in _WRITTEN if os.path.exists(self._path(name))]
        if others and not (self._saved or os.path.exists(self._path("sweep.lock"))):
            raise InputError(
                f"{self._path(others[0])} would be replaced, but {self._dir} contains no sweep. "
                "Give another --output_dir."
            )

    def _check_same_sweep(self) -> None:
        """Checks that the folder contains no sweep, or a part of this sweep.

        Raises:
            InputError: The folder contains another sweep; the message names the difference.
        """
        if not self._saved:
            return
        before, plan = self._saved, self._plan
        old, new = sorted(before["flags"]), sorted(plan.flags)
        difference = ""
        if before["program"] != plan.program:
            difference = f"of {before['program']}, not {plan.program}"
        elif old != new:
            changed = sorted(set(old) ^ set(new)) or new
            difference = f"with other flags: {' '.join(changed)} is only in one of the two"
        elif [name for name, _ in before["grid"]] != list(plan.grid):
            names = ", ".join(name for name, _ in before["grid"])
            difference = f"with the grid of {names}, not {', '.join(plan.grid)}"
        if difference:
            raise InputError(
                f"{self._dir} contains a sweep {difference}. Give another --output_dir, or the "
                "same command to continue that sweep."
            )
        self._check_same_place(before["working_dir"])
        for name, values in before["grid"]:
            now = plan.grid[name]
            if now[: len(values)] != tuple(values):
                raise InputError(
                    f"{self._dir} contains a sweep with --grid={name}={','.join(values)}. A "
                    f"larger grid starts with the same values. Received: {','.join(now)}."
                )
        if before["seeds"] > plan.seeds:
            raise InputError(
                f"{self._dir} contains a sweep with --seeds={before['seeds']}. Give at least this "
                f"number. Received: {plan.seeds}."
            )

    def _check_same_place(self, before: str) -> None:
        """Checks that relative paths in the flags are those of the earlier calls.

        Raises:
            InputError: They are not.
        """
        values = (f"--{name}={each}" for name, found in self._plan.grid.items() for each in found)
        paths = ((word, word.partition("=")[2]) for word in (*self._plan.flags, *values))
        relative = [
            word for word, path in paths
            if path and not os.path.isabs(path) and os.path.exists(os.path.join(before, path))
        ]  # fmt: skip
        if relative and before != os.getcwd():
            raise InputError(
                f"{self._dir} contains a sweep that was started in {before}, and {relative[0]} is "
                f"a path in that folder. Give the command there. Received: {os.getcwd()}."
            )

    def keeps_all(self, requested: bool) -> bool:
        """Returns whether the weights of all runs are kept: now, or in an earlier call."""
        return requested or bool(self._saved.get("keep_all"))

    def unchecked(self) -> list[tuple[str, str]]:
        """Returns the values of the grid that no earlier call of this sweep has checked."""
        known = {(name, value) for name, values in self._saved.get("grid", ()) for value in values}
        pairs = [(name, value) for name, values in self._plan.grid.items() for value in values]
        return [pair for pair in pairs if pair not in known]

    @contextlib.contextmanager
    def locked(self, keep_all: bool = False) -> Iterator[int]:
        """Creates and locks the folder, and saves the plan.

        Args:
            keep_all: See `keeps_all`.

        Yields:
            A file descriptor for the processes of the runs to inherit. It is locked as long as
            this process or one of them lives.

        Raises:
            InputError: Another sweep works in this folder, it cannot be written, or it contains
                files of others that would be replaced.
        """
        self._check_nothing_is_replaced()
        with self._open("sweep.lock") as own, self._open("runs.lock") as shared:
            if try_lock(own) is False:
                raise InputError(
                    f"Another sweep is running in {self._dir}. Wait for its end, or give another "
                    "--output_dir."
                )
            self._read()  # another sweep may have started here since the first reading
            wait_for_lock(
                shared,
                f"Waiting for the runs that an earlier sweep in {self._dir} started. They "
                "continued when the sweep was killed.",
            )
            grid = [[name, list(values)] for name, values in self._plan.grid.items()]
            plan = {
                "program": self._plan.program, "flags": list(self._plan.flags), "grid": grid,
                "seeds": self._plan.seeds, "keep_all": self.keeps_all(keep_all),
                "working_dir": os.getcwd(),
            }  # fmt: skip
            files.write_json(self._path(SWEEP_FILE), plan)
            yield shared.fileno()

    def _open(self, name: str) -> IO[str]:
        with files.explain_write_errors(self._dir):
            os.makedirs(self._dir, exist_ok=True)
            return open_file(self._path(name))

    def _path(self, *names: str) -> str:
        return os.path.join(self._dir, *names)

    def log(self, name: str) -> str:
        """Returns the path of the log of a run."""
        return self._path("logs", f"{name}.log")

    def outcome(self, run: PlannedRun) -> Outcome | None:
        """Returns the end of a run; None if the run has not ended, or its result is missing."""
        path = self._path("outcomes", f"{run.name}.json")
        if not os.path.exists(path):
            return None
        outcome = Outcome(**dev_result.read_fields(path, _OUTCOME_SCHEMA))
        result = os.path.join(self._plan.folder(run), RESULTS)
        return outcome if os.path.exists(result) or not outcome.has_result else None

    def outcomes(self) -> dict[PlannedRun, Outcome]:
        """Returns the runs that have ended, in the order of the plan."""
        found = ((run, self.outcome(run)) for run in self._plan.runs())
        return {run: outcome for run, outcome in found if outcome is not None}

    def record(self, run: PlannedRun, code: int, last_line: str) -> Outcome:
        """Writes and returns the end of a run, from its exit code and its results.json."""
        outcome = self._outcome_of(run, code, last_line)
        path = self._path("outcomes", f"{run.name}.json")
        files.write_json(path, dataclasses.asdict(outcome))
        return outcome

    def _outcome_of(self, run: PlannedRun, code: int, last_line: str) -> Outcome:
        if code < 0:
            return Outcome(code, f"ended by signal {-code}; last line: {last_line}")
        if code:
            return Outcome(code, last_line)
        result = dev_result.read(self._plan.folder(run))
        if result is None:
            return Outcome(1, "the program computed no metric on the dev split")
        return Outcome(
            0, "", result.metric, result.higher_is_better, result.value, result.baseline,
            result.is_degenerate,
        )  # fmt: skip

    def remove_weights(self, runs: dict[PlannedRun, Outcome]) -> None:
        """Removes the weights of all finished runs except the best one."""
        best = best_run(runs)
        for run, outcome in runs.items():
            if outcome.has_result and run != best:
                folder = glob.escape(self._plan.folder(run))
                for pattern in _WITH_WEIGHTS:
                    for path in glob.glob(os.path.join(folder, pattern)):
                        files.remove(path)

    def write_csv(self, text: str) -> None:
        """Writes sweep.csv atomically."""
        files.write_text(self._path(CSV), text)

    @property
    def tensorboard(self) -> str:
        """The folder of TensorBoard's HPARAMS page."""
        return self._path(TENSORBOARD)


def _read_plan(path: str) -> dict[str, Any]:
    """Reads sweep.json.

    Raises:
        InputError: The file is damaged.
    """
    saved = dev_result.read_fields(path, _SCHEMA)
    for pair in saved["grid"]:
        is_pair = len(pair) == 2 and isinstance(pair[0], str) and isinstance(pair[1], list)
        if not is_pair or not all(isinstance(value, str) for value in pair[1]):
            raise InputError(
                f"{path} is damaged: {json_files.shorten(pair)} is not a name with values. Give "
                "another --output_dir."
            )
    return saved


def best_run(runs: dict[PlannedRun, Outcome]) -> PlannedRun | None:
    """Returns the finished run with the best value, the first of equal ones; None without any."""
    finished = [run for run, outcome in runs.items() if outcome.has_result]
    return max(finished, key=lambda run: runs[run].rank, default=None)
