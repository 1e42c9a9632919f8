"""Determines the memory of the device."""

import subprocess

import psutil
import tensorflow as tf


def device_memory() -> tuple[str, int | None]:
    """Returns the name of the first device, and the bytes that a run can use on each device.

    The memory is the total memory of the smallest GPU, or the available memory of the CPU if there
    is no GPU. The bytes are None if the GPU memory is unknown.
    """
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        details = tf.config.experimental.get_device_details(gpus[0])
        return details.get("device_name", "GPU"), _gpu_bytes()
    return "CPU", int(psutil.virtual_memory().available)


def _gpu_bytes() -> int | None:
    # TensorFlow reports only the memory that it has allocated; nvidia-smi reports all memory.
    command = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=10)
        return min(int(line) for line in done.stdout.split()) * 2**20
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
