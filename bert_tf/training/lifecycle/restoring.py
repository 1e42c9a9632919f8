"""Restores a checkpoint of a run: weights, optimizer state, data position and progress."""

import logging
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.errors import InputError
from bert_tf.storage import files, json_files, weights
from bert_tf.training.config import first_difference
from bert_tf.training.lifecycle.run_state import (
    OPTIMIZER_FILE,
    RUNTIME_FILE,
    RunState,
    read_state,
)
from bert_tf.training.step.optimizer import Optimizer

_LOGGER = logging.getLogger(__name__)
POSITION_FILE = "data_position"
# A value in `RUNTIME_FILE`: whether the position is one of parts of batches.
PARTS = "reads_parts"
# Settings that may change when a run is resumed. A change affects only rounding and
# dropout masks.
_LAYOUT = ("replicas", "gradient_accumulation_steps")


def restore_or_start(
    folder: str | None,
    optimizer: Optimizer,
    iterator: Any,
    runtime_settings: Mapping[str, Any],
) -> RunState:
    """Restores weights, optimizer state and data position, or starts a new run.

    Logs the step, and a warning if the number of replicas or accumulation steps has
    changed.

    Args:
        folder: A valid checkpoint, or None for a new run.
        optimizer: Receives the saved weights and slots (the variables of the
            optimizer's state).
        iterator: The iterator of the input pipeline. The function moves the iterator to
            the saved position. None if the position is not saved, because the step
            determines the position.
        runtime_settings: The settings of the computation for the resumed run.

    Returns:
        The progress of the run.

    Raises:
        InputError: The checkpoint is of a different model, or its state.json is
            damaged.
    """
    if folder is None:
        optimizer.start_average()
        return RunState()
    optimizer.load(*_read_optimizer_state(folder, optimizer.variables))
    if iterator is not None:
        position = tf.train.Checkpoint(iterator=iterator)
        with files.path_without_globs(os.path.join(folder, POSITION_FILE)) as path:
            position.read(path).assert_consumed()
    state = read_state(folder)
    _LOGGER.info("Continuing from step %d (%s).", state.step, folder)
    before = json_files.read(os.path.join(folder, RUNTIME_FILE), own=True)
    for name in _LAYOUT:
        if before.get(name) != runtime_settings[name]:
            _LOGGER.warning(
                "warning: %s was %s when the checkpoint was written and is %s now. The "
                "result is the same except for rounding and dropout masks.",
                name,
                before.get(name),
                runtime_settings[name],
            )
    return state


def has_parts(folder: str) -> bool:
    """Returns whether the data position of a checkpoint is one of parts of batches."""
    return bool(
        json_files.read(os.path.join(folder, RUNTIME_FILE), own=True).get(PARTS)
    )


def restore_weights(folder: str, variables: Mapping[str, Any]) -> int:
    """Restores the weights of a checkpoint, without optimizer state and data position.

    Args:
        folder: A valid checkpoint or a folder of best weights.
        variables: Keras variables by name.

    Returns:
        The step after which the weights were saved.

    Raises:
        InputError: The weights in the folder are of a different model.
    """
    saved = _read_weights(folder, variables)
    for name, variable in variables.items():
        variable.assign(saved.arrays[name])
    return int(saved.extra["step"])


def _read_optimizer_state(
    folder: str, variables: Mapping[str, Any]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Reads the saved result of `Optimizer.state`: the weights and the slots."""
    path = os.path.join(folder, OPTIMIZER_FILE)
    slots = weights.from_safetensors(files.read_bytes(path), path)
    return _read_weights(folder, variables).arrays, slots


def _read_weights(folder: str, variables: Mapping[str, Any]) -> weights.WeightsFolder:
    """Reads the weights, and compares their names and shapes with those of the variables."""
    saved = weights.read_weights_folder(folder)
    shapes = {name: array.shape for name, array in saved.arrays.items()}
    wanted = {name: tuple(variable.shape) for name, variable in variables.items()}
    if difference := first_difference(shapes, wanted):
        name, found, expected = difference
        raise InputError(
            f"{folder} is of another model: {name} has the shape {found} in the "
            f"checkpoint and {expected} in this model."
        )
    return saved
