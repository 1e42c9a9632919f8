"""`RunState`: the progress of a run, saved in each checkpoint as state.json.

state.json contains the SHA-256 of each other file of the checkpoint, and of its own
values. Earlier versions wrote no checksum of its own values, and none of the fields
`elapsed_secs`, `time_is_up` and `unlogged`.
"""

import contextlib
import dataclasses
import os
import re
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from bert_tf.errors import InputError
from bert_tf.storage import files, integrity, json_files
from bert_tf.training.lifecycle.best_evaluation import BestEvaluation
from bert_tf.training.step.objective import StepTotals

TRAINING_FILE = "training_config.json"
RUNTIME_FILE = "runtime_config.json"
STATE_FILE = "state.json"
OPTIMIZER_FILE = "optimizer.safetensors"
CHECKPOINT_NAME = re.compile(r"(?:^|/)step-(\d{8,})/?$")
# The settings of each run, also of an older version.
_SETTINGS_OF_RUNS = {
    "num_train_steps",
    "num_warmup_steps",
    "learning_rate",
    "global_batch_size",
}
# Size and time of the files whose SHA-256 was found to be right, by path and SHA-256.
_CHECKED: dict[tuple[str, str], tuple[int, int]] = {}


@dataclasses.dataclass
class RunState:
    """The progress of a run, without weights, optimizer state and data position.

    Attributes:
        bad_steps: The number of consecutive bad steps (see `StepResult`) up to `step`.
        elapsed_secs: Seconds of training, over all runs; 0 without a time budget.
        time_is_up: Whether the last step is done, which starts after the time budget is
            used up. After a long evaluation, `elapsed_secs` may exceed the budget
            before this step.
        unlogged: The totals over the steps since the last log entry.
    """

    step: int = 0
    bad_steps: int = 0
    best: BestEvaluation = dataclasses.field(default_factory=BestEvaluation)
    elapsed_secs: float = 0.0
    time_is_up: bool = False
    unlogged: StepTotals = dataclasses.field(default_factory=StepTotals)


def write_state(folder: str, state: Mapping[str, Any]) -> None:
    """Writes the state.json of a checkpoint, whose other files must be complete."""
    names = sorted(tf.io.gfile.listdir(folder))
    values = integrity.seal({**state, "files": integrity.checksums(folder, names)})
    files.write_json(os.path.join(folder, STATE_FILE), values)


def read_state(folder: str) -> RunState:
    """Reads the state.json of a checkpoint; raises `InputError` if it is missing or damaged."""
    values = _read_values(folder)
    return RunState(
        values["step"],
        values["bad_steps"],
        best=BestEvaluation(**values["best"]),
        elapsed_secs=values.get("elapsed_secs", 0.0),
        time_is_up=values.get("time_is_up", False),
        unlogged=StepTotals(**values.get("unlogged", {})),
    )


def run_of(folder: str) -> str | None:
    """Returns the run, if any, whose folder `best` or `checkpoints` is or contains `folder`."""
    run, name = os.path.split(folder.rstrip("/"))
    while name:
        if name in ("best", "checkpoints") and has_settings(run):
            return run
        run, name = os.path.split(run)
    return None


def has_settings(folder: str) -> bool:
    """Returns whether a folder contains the settings of a run.

    The keys are checked, because other programs use the same file name.
    """
    with contextlib.suppress(InputError):
        return read_own(folder, TRAINING_FILE).keys() >= _SETTINGS_OF_RUNS
    return False


def is_checkpoint(folder: str) -> bool:
    """Returns whether a folder has the name, or a file, of a checkpoint of training."""
    names = (STATE_FILE, OPTIMIZER_FILE, TRAINING_FILE, RUNTIME_FILE)
    in_run = os.path.basename(os.path.dirname(folder.rstrip("/"))) == "checkpoints"
    return (in_run and CHECKPOINT_NAME.search(folder) is not None) or any(
        files.exists(os.path.join(folder, name)) for name in names
    )


def check_checkpoint(folder: str) -> None:
    """Checks that the SHA-256 of each file of a checkpoint is the one in state.json.

    A file is not read again if its size and time are those of an earlier check.

    Raises:
        InputError: A file is missing, damaged, or of another checkpoint.
    """
    for name, checksum in _read_values(folder)["files"].items():
        path = os.path.join(folder, name)
        now = files.size_and_mtime(path) if files.exists(path) else None
        if now is None or now != _CHECKED.get((path, checksum)):
            actual = files.sha256_of_file(path)
            integrity.verify_checksum(path, actual, checksum, STATE_FILE)
            _CHECKED[path, checksum] = files.size_and_mtime(path)


def read_own(folder: str, name: str) -> dict[str, Any]:
    """Reads a JSON file of a run or checkpoint; raises `InputError` if it is missing or damaged."""
    return json_files.read(os.path.join(folder, name), own=True)


def _read_values(folder: str) -> dict[str, Any]:
    path = os.path.join(folder, STATE_FILE)
    if not files.exists(path):
        raise InputError(
            f"{folder} is incomplete: a checkpoint of training has the file "
            f"{STATE_FILE}. Copy the folder again from its source, or give another "
            "checkpoint."
        )
    values = read_own(folder, STATE_FILE)
    if integrity.FACTS_SHA256 in values:
        integrity.verify_facts(path, values)
    return values
