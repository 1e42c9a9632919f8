"""Checks of a run's settings against its model, and advice."""

import logging
from typing import Any

import tensorflow as tf

from bert_tf.errors import InputError
from bert_tf.training.config import RuntimeConfig, TrainingConfig

_LOGGER = logging.getLogger(__name__)
# In shorter runs with higher rates, the updates without bias correction can spoil the
# result.
_HIGH_LEARNING_RATE, _FEW_STEPS = 5e-5, 2000


def advise_on_learning_rate(training: TrainingConfig) -> None:
    """Logs a line if the learning rate is probably too high for the released optimizer."""
    if (
        training.optimizer == "adam_weight_decay"
        and training.learning_rate > _HIGH_LEARNING_RATE
        and training.num_train_steps < _FEW_STEPS
    ):
        _LOGGER.info(
            "learning_rate=%g is high for the released optimizer in a run of %s steps: "
            "without bias correction, its first updates are two to five times as large "
            "as those of AdamW. For a rate from another program, use optimizer=adamw "
            "and schedule=linear.",
            training.learning_rate,
            f"{training.num_train_steps:,}",
        )


def check_compilation(model: Any, runtime: RuntimeConfig) -> None:
    """Checks that XLA can compile the head.

    Raises:
        InputError: It cannot: Keras runs LSTM layers on a GPU with cuDNN, which XLA
            lacks.
    """
    layers = getattr(model, "head_layers", None)
    if (
        layers
        and layers.lstms
        and runtime.jit_compile
        and tf.config.list_physical_devices("GPU")
    ):
        raise InputError(
            "jit_compile=True cannot compile the LSTM layers of the head for a GPU. "
            "Give jit_compile=False."
        )
