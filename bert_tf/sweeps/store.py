"""`SweepStore`: the files of a sweep.

<output_dir>/sweep.json                program, flags and grid of the sweep
<output_dir>/runs/<name>/              the --output_dir of each run
<output_dir>/logs/<name>.log           stdout and stderr of the run
<output_dir>/sweep.csv, tensorboard/   the results, written at the end
<output_dir>/sweep.lock                locked by the sweep and its runs
"""

import contextlib
import glob
import os
import shlex
from collections.abc import Iterator
from typing import Any

from bert_tf.errors import InputError
from bert_tf.runs import dev_split
from bert_tf.runs.dev_split import DevResult
from bert_tf.storage import files, json_files
from bert_tf.storage.workspace import Workspace
from bert_tf.sweeps.plan import Plan, PlannedRun
from bert_tf.sweeps.results import best_run

SWEEP_FILE = "sweep.json"
LOCK = "sweep.lock"
CSV = "sweep.csv"
TENSORBOARD = "tensorboard"
_WRITTEN = (TENSORBOARD, CSV, "runs", "logs")
# The files of a run that only its weights need.
_WITH_WEIGHTS = ("checkpoints", "best", "*.tf_record*", "features")


class SweepStore:
    """Reads and writes the files of a sweep. Writes nothing before `locked` is entered."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._dir = plan.output_dir
        self._saved: dict[str, Any] = {}
        self._workspace = Workspace(self._dir, "sweep", "output_dir", LOCK)
        self._workspace.check_owned((SWEEP_FILE,), _WRITTEN)

    def _check_same_sweep(self) -> None:
        """Checks that this plan extends the plan of the earlier calls in the same folder."""
        before = self._saved
        plan = self._plan
        grid = dict(before["grid"])
        # Further values may follow the earlier ones, and there may be more seeds.
        is_part = (
            before["program"] == plan.program
            and set(before["flags"]) == set(plan.flags)
            and list(grid) == list(plan.grid)
            and all(
                plan.grid[name][: len(grid[name])] == tuple(grid[name]) for name in grid
            )
            and before["seeds"] <= plan.seeds
        )

        if not is_part:
            words = [
                f"--grid={name}={','.join(values)}" for name, values in grid.items()
            ]
            words += [
                f"--seeds={before['seeds']}",
                "--",
                before["program"],
                *before["flags"],
            ]
            raise InputError(
                f"{self._dir} contains another sweep: {shlex.join(words)}. Give "
                "another --output_dir, or that command, with further values at the "
                "end of --grid or more --seeds."
            )

    def unchecked(self) -> list[tuple[str, str]]:
        """Returns the values of the grid that no earlier call has checked."""
        known = dict(self._saved.get("grid", ()))
        return [
            (name, value)
            for name, values in self._plan.grid.items()
            for value in values
            if value not in known.get(name, ())
        ]

    @contextlib.contextmanager
    def locked(self) -> Iterator[int | None]:
        """Creates and locks the folder, and reads the plan of an earlier call.

        Yields a file descriptor for the processes of the runs to inherit, or None if
        the file system is not local. The descriptor stays locked as long as this
        process or one of the processes that inherit it lives.
        """
        busy = (
            f"Another sweep writes {self._dir}, or runs that it started continue after "
            "it was killed."
        )
        with self._workspace.locked(busy, wait=True) as lock:
            path = self.path(SWEEP_FILE)
            if os.path.exists(path):
                self._saved = json_files.read(path, own=True)
                self._check_same_sweep()
            yield lock

    def save_plan(self, keep_all: bool) -> None:
        """Writes the plan, and whether the sweep keeps the weights of all its runs.

        If an earlier call had `keep_all`, the weights are still kept.
        """
        self._saved = {
            "program": self._plan.program,
            "flags": self._plan.flags,
            "grid": list(self._plan.grid.items()),
            "seeds": self._plan.seeds,
            "keep_all": keep_all or bool(self._saved.get("keep_all")),
        }
        files.write_json(self.path(SWEEP_FILE), self._saved)

    def path(self, *names: str) -> str:
        """Returns the path of a file of the sweep."""
        return os.path.join(self._dir, *names)

    def log(self, run: PlannedRun) -> str:
        """Returns the path of the log of a run."""
        return self.path("logs", f"{run.name}.log")

    def results(self) -> dict[PlannedRun, DevResult]:
        """Returns the results of the runs that have finished, in the planned order."""
        return {
            run: result
            for run in self._plan.runs()
            if (result := dev_split.read_result(self._plan.folder(run)))
        }

    def remove_weights(self) -> None:
        """Removes the weights of finished runs except the best run, unless all are kept."""
        results = self.results()
        if self._saved["keep_all"] or not results:
            return
        for run in results.keys() - {best_run(results)}:
            for pattern in _WITH_WEIGHTS:
                for path in glob.glob(
                    os.path.join(glob.escape(self._plan.folder(run)), pattern)
                ):
                    files.remove(path)
