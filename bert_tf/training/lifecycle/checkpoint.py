"""Writes checkpoints while training continues, and restores a run from one.

A checkpoint contains weights, optimizer state, data position and progress.
"""

import concurrent.futures
import contextlib
import logging
import os
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_tf.errors import InputError
from bert_tf.storage import files, safetensors_format, weights
from bert_tf.training.lifecycle.run_folder import RunFolder, step_of_checkpoint
from bert_tf.training.lifecycle.run_state import (
    OPTIMIZER_FILE,
    RUNTIME_FILE,
    STATE_FILE,
    TRAINING_FILE,
    RunState,
    read_own,
    read_state,
    write_state,
)
from bert_tf.training.step.objective import Metrics, Tensors
from bert_tf.training.step.optimizer import Arrays, Optimizer
from bert_tf.training.training_config import (
    TrainingConfig,
    first_difference,
    to_json_dict,
)

_LOGGER = logging.getLogger(__name__)
POSITION_FILE = "data_position"
# A key in `RUNTIME_FILE`: whether the data position is that of parts of batches.
PARTS = "reads_parts"
# Settings that may change when a run is resumed, with the values of files that lack
# them. A change affects only rounding and dropout masks.
_LAYOUT = {
    "backend": "tensorflow",
    "replicas": None,
    "gradient_accumulation_steps": None,
}


def restore_or_start(
    folder: str | None,
    optimizer: Optimizer,
    iterator: Any,
    runtime_settings: Tensors,
) -> RunState:
    """Restores weights, optimizer state and data position, or starts a new run.

    Returns the progress of the run. Logs a warning if the number of replicas or
    accumulation steps has changed.

    Args:
        folder: A valid checkpoint, or None for a new run.
        optimizer: Receives the saved weights and slots (optimizer state).
        iterator: The iterator of the input pipeline, which is moved to the saved
            position; None if the number of the step determines the next batch.
        runtime_settings: The settings of the computation for the resumed run.

    Raises:
        InputError: The checkpoint is of a different model, or its state.json is
            damaged.
    """
    if folder is None:
        optimizer.start_average()
        return RunState()

    path = os.path.join(folder, OPTIMIZER_FILE)
    slots = safetensors_format.from_safetensors(files.read_bytes(path), path)
    optimizer.load(_read_weights(folder, optimizer.variables).arrays, slots)
    if iterator is not None:
        position = tf.train.Checkpoint(iterator=iterator)
        with files.path_without_globs(os.path.join(folder, POSITION_FILE)) as path:
            position.read(path).assert_consumed()

    state = read_state(folder)
    _LOGGER.info("Continuing from step %d (%s).", state.step, folder)

    # The layout may have changed, which changes the result a little.
    before = read_own(folder, RUNTIME_FILE)
    for name, default in _LAYOUT.items():
        old = before.get(name, default)
        new = runtime_settings.get(name, default)
        if old != new:
            _LOGGER.warning(
                "warning: %s was %s when the checkpoint was written and is %s now. The "
                "result is the same except for rounding and dropout masks.",
                name,
                old,
                new,
            )
    return state


def backend_settings() -> dict[str, str]:
    """Returns the name of the backend, unless it is TensorFlow, for `RUNTIME_FILE`."""
    name = keras.backend.backend()
    return {} if name == _LAYOUT["backend"] else {"backend": name}


def has_parts(folder: str) -> bool:
    """Returns whether each process of a checkpoint's run read only its part of each batch."""
    return bool(read_own(folder, RUNTIME_FILE).get(PARTS))


def restore_weights(folder: str, variables: Tensors) -> int:
    """Restores the weights in a checkpoint or `RunFolder.best`, and returns their step.

    Raises:
        InputError: The weights in the folder are of a different model.
    """
    saved = _read_weights(folder, variables)
    for name, variable in variables.items():
        variable.assign(saved.arrays[name])
    return int(saved.facts["step"])


def _read_weights(folder: str, variables: Tensors) -> weights.WeightsFolder:
    """Reads the weights; raises `InputError` if names or shapes differ from the variables."""
    saved = weights.read_weights_folder(folder)
    shapes = {name: array.shape for name, array in saved.arrays.items()}
    model_shapes = {name: tuple(variable.shape) for name, variable in variables.items()}
    if difference := first_difference(shapes, model_shapes):
        name, saved_shape, expected = difference
        raise InputError(
            f"{folder} is of another model: {name} has the shape {saved_shape} in the "
            f"checkpoint and {expected} in this model."
        )
    return saved


class CheckpointWriter:
    """Writes checkpoints in a background thread; `__exit__` waits for the last write.

    Training waits only if the previous write is not finished. If a write fails, the
    next method call raises the error of that write. Each checkpoint contains `training`
    and `runtime_settings`. Only the newest `keep_checkpoints` checkpoints are kept.
    """

    def __init__(
        self,
        folder: RunFolder,
        optimizer: Optimizer,
        training: TrainingConfig,
        runtime_settings: Tensors,
        keep_checkpoints: int,
    ) -> None:
        self._folder = folder
        self._optimizer = optimizer
        self._configs = {
            TRAINING_FILE: folder.settings(training),
            RUNTIME_FILE: dict(runtime_settings),
        }
        self._keep = keep_checkpoints
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "checkpoint_writer")
        self._pending: concurrent.futures.Future[None] | None = None

    def save(self, state: RunState, iterator: Any) -> None:
        """Writes the checkpoint of `state.step`, then removes the oldest checkpoints.

        A write fails if a value is not finite. The position of the input pipeline's
        `iterator` is saved, unless `iterator` is None.

        Raises:
            InputError: The previous write failed, or this write cannot start.
        """
        self.wait()
        arrays, slots = self._optimizer.state()
        facts = to_json_dict(state)
        step = state.step
        with contextlib.ExitStack() as stack:
            folder = self._folder.checkpoint(step)
            temporary = stack.enter_context(files.atomic_folder(folder, STATE_FILE))
            # The position is written before training continues, because the next step
            # changes the position.
            if iterator is not None:
                position = os.path.join(temporary, POSITION_FILE)
                with _root_logger_unchanged():
                    tf.train.Checkpoint(iterator=iterator).write(position)
            unfinished = stack.pop_all()

        def write() -> None:
            with unfinished:
                self._check_finite(step, arrays | slots)
                self._write_weights(temporary, arrays, {"step": step})
                path = os.path.join(temporary, OPTIMIZER_FILE)
                files.write_bytes(path, safetensors_format.to_safetensors(slots))
                for name, config in self._configs.items():
                    files.write_json(os.path.join(temporary, name), config)
                write_state(temporary, facts)
            self._remove_old_checkpoints(step)

        self._pending = self._thread.submit(write)

    def save_best(self, step: int, values: Metrics) -> None:
        """Replaces the saved best weights and their metrics by the present weights and `values`."""
        self.wait()
        arrays, _ = self._optimizer.state()
        facts = {"step": step, "eval": dict(values)}

        def write() -> None:
            self._check_finite(step, arrays)
            with files.atomic_folder(
                self._folder.best, weights.FACTS_FILE
            ) as temporary:
                self._write_weights(temporary, arrays, facts)

        self._pending = self._thread.submit(write)

    def check(self) -> None:
        """Raises the error of the last write if it has already failed; does not wait."""
        if self._pending is not None and self._pending.done():
            self.wait()

    def wait(self) -> None:
        """Waits until the pending write is finished, and raises its error."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def _check_finite(self, step: int, arrays: Arrays) -> None:
        for name, array in arrays.items():
            if not np.isfinite(array).all():
                newest = self._folder.latest_checkpoint() or "missing"
                raise InputError(
                    f"After step {step}, {name} contains values that are not finite. "
                    f"They were not saved; the newest checkpoint is {newest}. Try a "
                    "lower learning_rate."
                )

    def _remove_old_checkpoints(self, step: int) -> None:
        folders = self._folder.checkpoints()
        # A run resumes from its newest valid checkpoint. A checkpoint of a step after
        # the present step is damaged, because the run did not resume from this
        # checkpoint.
        valid = [path for path in folders if step_of_checkpoint(path) <= step]
        for folder in folders:
            if folder not in valid[-self._keep :]:
                tf.io.gfile.rmtree(folder)

    def _write_weights(self, place: str, arrays: Arrays, facts: Tensors) -> None:
        metadata = self._folder.metadata
        weights.write_into(
            place,
            arrays,
            config=metadata.config,
            vocabulary=metadata.vocabulary,
            do_lower_case=metadata.do_lower_case,
            facts={**metadata.facts, **metadata.uncompared_facts, **facts},
        )

    def __enter__(self) -> "CheckpointWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self._thread.shutdown()
        if kind is None:
            self.wait()


@contextlib.contextmanager
def _root_logger_unchanged() -> Iterator[None]:
    """Keeps TensorFlow from adding a handler to the root logger.

    When it writes a checkpoint, TensorFlow logs through absl, which calls
    `logging.basicConfig` if the root logger has no handler. The root logger therefore
    has Python's handler of last resort in the meantime.
    """
    handler = None if logging.root.handlers else logging.lastResort
    if handler is not None:
        logging.root.addHandler(handler)
    try:
        yield
    finally:
        if handler is not None:
            logging.root.removeHandler(handler)
