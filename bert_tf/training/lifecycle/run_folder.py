"""`RunFolder`: the files of a run, and checks before it is resumed or used.

<output_dir>/training_config.json  settings of the run; they must not change on resume
<output_dir>/bert_config.json
<output_dir>/checkpoints/step-00001000/
    model.safetensors, bert_config.json, vocab.txt, weights.json
                                   see `bert_tf.storage.weights`
    optimizer.safetensors          all variables of the optimizer's state
    data_position.*                position of the input pipeline
    training_config.json, runtime_config.json
    state.json                     progress of the run, and checksums; see `run_state`
<output_dir>/best/                 weights of the best held-out evaluation
<output_dir>/run.lock              locked by the process that trains or evaluates
"""

import contextlib
import dataclasses
import fnmatch
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from bert_tf.errors import InputError, Path
from bert_tf.storage import checkpoint_formats, files, json_files, weights
from bert_tf.storage.atomic_files import remove_leftovers
from bert_tf.storage.paths import check_file_system
from bert_tf.storage.workspace import Workspace
from bert_tf.training.lifecycle.run_state import (
    CHECKPOINT_NAME,
    RUNTIME_FILE,
    STATE_FILE,
    TRAINING_FILE,
    check_checkpoint,
    has_settings,
    read_own,
    run_of,
)
from bert_tf.training.training_config import (
    TrainingConfig,
    first_difference,
    to_json_dict,
)

_LOGGER = logging.getLogger(__name__)
# `TRAINING_FILE` is removed last: if the removal is interrupted, the folder still shows
# that it contains a run.
_FILES_OF_A_RUN = ("eval_results.txt", "metrics.jsonl", "best", TRAINING_FILE)
_SUMMARY_FOLDERS = ("train", "eval")
_SUMMARY_FILES = "events.out.tfevents.*"
_LOCK_FILE = "run.lock"
# Settings that programs compute, and the parameters or inputs that they come from.
_PARAMETERS = {
    "train_split.limit": "max_train_examples",
    "train_split.content": "training examples of the content",
    "dev_split.limit": "max_eval_examples",
    "dev_split.content": "dev examples of the content",
}


@dataclasses.dataclass(frozen=True)
class CheckpointMetadata:
    """Values that are saved with the weights; the engine does not interpret them.

    Attributes:
        config: The architecture of the model.
        vocabulary: The tokens in the order of their ids; None without a vocabulary.
        do_lower_case: Whether the tokenizer lower-cases text; None without a tokenizer.
        facts: Further values about the model by name, such as the labels.
        uncompared_facts: Values for information only; no check compares them.
    """

    config: Mapping[str, Any]
    vocabulary: Sequence[str] | None = None
    do_lower_case: bool | None = None
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    uncompared_facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)


class RunFolder:
    """The folder of a run.

    Args:
        path: The folder, local or gs://. Nothing is written before `start_run`.
        metadata: The model of this run; required for training and for `check_metadata`.
        overwrite: Whether `start_run` removes an earlier run instead of resuming the
            earlier run.
        outputs: Names of further files that the run writes, such as predictions.
        identity: Values that identify the examples and the initial weights. A resumed
            run must have equal values. They are saved as a part of
            `TrainingConfig.data`.

    Attributes:
        path: The argument `path`.
        metadata: The argument `metadata`, or empty metadata if the argument is None.
        overwrite: The argument `overwrite`.

    Raises:
        InputError: `path` is empty or in an unknown file system.
    """

    def __init__(
        self,
        path: Path,
        metadata: CheckpointMetadata | None = None,
        overwrite: bool = False,
        outputs: Sequence[str] = (),
        identity: Mapping[str, Any] = {},
    ) -> None:
        path = os.fspath(path)
        check_file_system(path)
        if not path:
            raise InputError("A run needs the path of a folder. Received: ''.")
        self.path = path
        self.overwrite = overwrite
        self._outputs = outputs
        self._identity = identity
        self.metadata = metadata or CheckpointMetadata({})
        self._workspace = Workspace(path, "run", "output_dir", _LOCK_FILE)
        self._checked: TrainingConfig | None = None

    @property
    def best(self) -> str:
        """The folder for the weights of the best held-out evaluation."""
        return os.path.join(self.path, "best")

    def checkpoint(self, step: int) -> str:
        """Returns the folder for the checkpoint of a step."""
        return os.path.join(self.path, "checkpoints", f"step-{step:08d}")

    def checkpoints(self) -> list[str]:
        """Returns the checkpoint folders, oldest first.

        The files in them may be damaged.
        """
        parent = os.path.join(self.path, "checkpoints")
        names = files.list_folder(parent) if tf.io.gfile.isdir(parent) else []
        paths = [
            os.path.join(parent, name) for name in names if CHECKPOINT_NAME.match(name)
        ]
        return sorted(paths, key=step_of_checkpoint)

    def latest_checkpoint(self) -> str | None:
        """Returns the newest valid checkpoint, or None.

        Warns about newer damaged checkpoints.
        """
        for folder in reversed(self.checkpoints()):
            try:
                check_checkpoint(folder)
                return folder
            except InputError as error:
                _LOGGER.warning("warning: ignoring %s: %s", folder, error)
        return None

    def checkpoint_to_resume(self) -> str | None:
        """Returns the newest valid checkpoint, or None.

        Always None if `overwrite` is True.
        """
        return None if self.overwrite else self.latest_checkpoint()

    def best_or_latest_checkpoint(self, latest: str | None = None) -> str | None:
        """Returns the folder with the final weights of the run.

        Returns None if there is no valid checkpoint.

        The final weights are the best weights if the run used early stopping, else the
        weights of the newest valid checkpoint.

        Args:
            latest: The result of `latest_checkpoint`, if it is known.
        """
        latest = latest or self.latest_checkpoint()
        if latest is None:
            return None
        runtime = read_own(latest, RUNTIME_FILE)
        use_best = runtime.get("early_stopping_evals") and weights.is_weights_folder(
            self.best
        )
        return self.best if use_best else latest

    def check_same_run(self, training: TrainingConfig | None = None) -> None:
        """Checks that this run has the model and settings of the run in the folder.

        Only a run that trains without `overwrite` needs the settings of the run in the
        folder. After a successful check, a call with equal `training` checks nothing.

        Args:
            training: The settings of this run; None if it only evaluates or predicts.

        Raises:
            InputError: A setting differs; the message names this setting and both
                values. Or the folder contains no run, but a file that this run would
                replace.
        """
        if training is not None and training == self._checked:
            return
        self._check_nothing_is_replaced(trains=training is not None)
        if training is not None and not self.overwrite and self._contains_run():
            self._check_settings(training)
        self._checked = training

    def _check_settings(self, training: TrainingConfig) -> None:
        """Compares the model and the settings with those of the run in the folder."""
        own = self.settings(training)
        config = self.read_settings(weights.CONFIG_FILE)
        # A run of an older version has no values for newer settings; it used their
        # defaults.
        settings = to_json_dict(TrainingConfig()) | self.read_settings()
        difference = first_difference(config, self.metadata.config) or first_difference(
            settings, own
        )
        if difference is None:
            return

        before, now = _settings_text(*difference)
        is_task = "train_split" in own["data"]
        is_computed = is_task and difference[0] == "num_train_steps"
        reason = ", which num_train_epochs determines" * is_computed
        raise InputError(
            f"{self.path} contains a run with {before}, but this run has "
            f"{now}{reason}. Give the same value to resume that run, or "
            "overwrite=True to start again. To train its model further, give "
            f"another output_dir and init_checkpoint={self.path}."
        )

    def settings(self, training: TrainingConfig) -> dict[str, Any]:
        """Returns `training` as JSON values, with the argument `identity` as a part of `data`."""
        data = {**training.data, **self._identity}
        return to_json_dict(dataclasses.replace(training, data=data))

    def read_settings(self, name: str = TRAINING_FILE) -> dict[str, Any]:
        """Returns the values in a JSON file of the run, or else of its newest checkpoint."""
        folder = self.path
        if not tf.io.gfile.exists(os.path.join(folder, name)):
            folder = self.latest_checkpoint() or folder
        return read_own(folder, name)

    def _check_nothing_is_replaced(self, trains: bool) -> None:
        """Raises `InputError` if this run would replace files that are not those of a run."""
        local = "://" not in self.path
        run = run_of(os.path.abspath(self.path) if local else self.path)
        if run is not None:
            raise InputError(
                f"{self.path} belongs to the run in {run}. Give another output_dir."
            )
        if self._contains_run():
            return

        # Files that training writes, and checkpoints of other programs.
        names = []
        if trains:
            names = ["metrics.jsonl", "best", TRAINING_FILE]
            if self.checkpoints():
                names.append("checkpoints")
            config = os.path.join(self.path, weights.CONFIG_FILE)
            if not files.exists(config) or (
                json_files.read(config) != dict(self.metadata.config)
            ):
                names.append(weights.CONFIG_FILE)
            # No run is started next to a checkpoint, so that files of several models
            # are not mixed.
            names += checkpoint_formats.marks_in(files.list_folder(self.path))

        # Evaluation alone and a run that ended early write files too, and leave the
        # lock file.
        if local and not os.path.exists(os.path.join(self.path, _LOCK_FILE)):
            names += ["eval_results.txt", *self._outputs]
            if trains:
                names += self._events()

        if not self._contains_run():  # the chief may have written it meanwhile
            self._workspace.check_owned((), names)

    def check_metadata(self, checkpoint: str) -> None:
        """Checks that a checkpoint has the model, tokenizer and labels of this run.

        Raises:
            InputError: The model, tokenizer or labels differ; the message names the
                difference and both values.
        """
        facts = read_own(checkpoint, weights.FACTS_FILE)
        config = read_own(checkpoint, weights.CONFIG_FILE)

        # Facts that this run does not have are not compared.
        metadata = self.metadata
        own_facts = {"do_lower_case": metadata.do_lower_case, **metadata.facts}
        if metadata.vocabulary is not None:
            own_facts["vocabulary_sha256"] = weights.vocabulary_sha256(
                metadata.vocabulary
            )
        own_facts = {
            key: value for key, value in own_facts.items() if value is not None
        }

        before = {
            **{key: config.get(key) for key in metadata.config},
            **{key: facts.get(key) for key in own_facts},
        }
        difference = first_difference(before, {**metadata.config, **own_facts})
        if difference:
            name, old, new = difference
            raise InputError(
                f"{checkpoint} was trained with {name}={old!r}, but {name}={new!r} was "
                "requested."
            )

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Locks the folder in a context, so that no second run writes to it.

        If this object has already locked it, an inner context has no effect. Object
        stores (`gs://`) have no locks: the user must not start two runs in one folder.

        Raises:
            InputError: Another run has locked the folder, or the folder cannot be
                written.
        """
        busy = f"Another run is training or evaluating in {self.path}."
        with self._workspace.locked(busy):
            yield

    def start_run(self, training: TrainingConfig) -> None:
        """Writes the settings of this run.

        With `overwrite`, removes an earlier run first.
        """
        if self.overwrite and self._contains_run():
            # All other files stay.
            names = (*self._events(), *self._outputs, *_FILES_OF_A_RUN)
            paths = (os.path.join(self.path, name) for name in names)
            for path in (*self.checkpoints(), *paths):
                files.remove(path)
        remove_leftovers(os.path.join(self.path, "checkpoints"))
        config = dict(self.metadata.config)
        files.write_json(os.path.join(self.path, weights.CONFIG_FILE), config)
        settings = self.settings(training)
        files.write_json(os.path.join(self.path, TRAINING_FILE), settings)

    def _contains_run(self) -> bool:
        """Returns whether the folder contains the settings or a checkpoint of a run."""
        if tf.io.gfile.exists(os.path.join(self.path, STATE_FILE)):
            return False
        return has_settings(self.path) or any(
            files.exists(os.path.join(folder, STATE_FILE))
            for folder in self.checkpoints()
        )

    def _events(self) -> list[str]:
        """Returns the event files of TensorBoard in the folders of a run."""
        return [
            os.path.join(folder, name)
            for folder in _SUMMARY_FOLDERS
            for name in fnmatch.filter(
                files.list_folder(os.path.join(self.path, folder)), _SUMMARY_FILES
            )
        ]


def _settings_text(name: str, old: Any, new: Any) -> tuple[str, str]:
    """Formats the old and the new value of a setting, such as ("seed=1", "no seed")."""
    # The values in `TrainingConfig.data` also come from flags.
    name = name.removeprefix("data.")
    name = _PARAMETERS.get(name, name)
    before, now = (
        f"no {name}" if value is None else f"{name}={value!r}" for value in (old, new)
    )
    return before, now


def step_of_checkpoint(folder: str) -> int:
    """Returns the step in the name of a checkpoint folder."""
    match = CHECKPOINT_NAME.search(folder)
    assert match, folder
    return int(match[1])
