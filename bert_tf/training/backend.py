"""Selects the devices and the step of the backend that Keras uses."""

import functools
from typing import Any

import keras

from bert_tf.training.devices import Devices
from bert_tf.training.step.objective import Objective
from bert_tf.training.training_config import RuntimeConfig, TrainingConfig


@functools.cache
def make_devices(runtime: RuntimeConfig) -> Devices:
    """Returns the devices of a run.

    A process can connect to the other workers or to a TPU only once, and only before
    the backend runs its first operation. A main program therefore calls this function
    first; later calls with equal settings return the same object.

    Raises:
        InputError: This machine has fewer than `num_gpus` devices, the other processes
            cannot be found, or the TPU cannot be used.
    """
    devices: Devices
    if keras.backend.backend() == "jax":
        from bert_tf.training.jax_step.mesh import JaxDevices

        devices = JaxDevices(runtime)
    else:
        from bert_tf.training.tensorflow_step.strategy import TensorFlowDevices

        devices = TensorFlowDevices(runtime)
    return devices


def has_dynamic_shapes(runtime: RuntimeConfig) -> bool:
    """Returns whether batches may have different shapes.

    They may not on JAX, with XLA and on TPUs, which compile a step for each shape.
    """
    return (
        keras.backend.backend() == "tensorflow"
        and not runtime.jit_compile
        and runtime.distribution_strategy != "tpu"
    )


def make_step_runner(
    objective: Objective, training: TrainingConfig, runtime: RuntimeConfig, devices: Any
) -> Any:
    """Returns the step runner of the backend."""
    if keras.backend.backend() == "jax":
        from bert_tf.training.jax_step.step_runner import JaxStepRunner

        return JaxStepRunner(objective, training, runtime, devices)
    from bert_tf.training.tensorflow_step.step_runner import TensorFlowStepRunner

    return TensorFlowStepRunner(objective, training, runtime)
