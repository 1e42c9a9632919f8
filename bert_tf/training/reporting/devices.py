"""The limits of the device: speed of matrix products and memory."""

import subprocess
import time

import psutil
import tensorflow as tf

_SIZES = (1024, 2048, 4096, 8192)
_MIN_SECS_PER_PRODUCT = 0.02  # So long that the overhead of a call does not matter.
_SECS = 0.4


def matmul_flops_per_sec(precision: str) -> float:
    """Measures the speed of square matrix products on the first device, with all its cores.

    Repeats the product for 0.4 seconds and returns the speed of the fastest one. Training reports
    its own speed as a share of this peak.

    Args:
        precision: "float32", "bfloat16" or "float16".
    """
    product = tf.function(tf.matmul, autograph=False)
    for size in _SIZES:
        matrix = tf.cast(tf.random.stateless_normal((size, size), (0, 0)), precision)
        fastest = _time_product(product, matrix)
        if fastest > _MIN_SECS_PER_PRODUCT or size == _SIZES[-1]:
            break
    end = time.perf_counter() + _SECS
    while time.perf_counter() < end:
        fastest = min(fastest, _time_product(product, matrix))
    return 2 * size**3 / fastest


def _time_product(product: tf.types.experimental.PolymorphicFunction, matrix: tf.Tensor) -> float:
    """Returns the seconds of the second of two products; the first one is a warm-up."""
    for _ in range(2):
        start = time.perf_counter()
        # Copying one element waits until the device has finished.
        float(product(matrix, matrix)[0, 0])
        secs = time.perf_counter() - start
    return secs


def device_memory() -> tuple[str, int | None]:
    """Returns the name of the first device, and the bytes of memory that a run can use on it.

    For GPUs this is the total memory of the smallest one, for a CPU the available memory; None if
    unknown.
    """
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        details = tf.config.experimental.get_device_details(gpus[0])
        return details.get("device_name", "GPU"), _gpu_bytes()
    return "CPU", int(psutil.virtual_memory().available)


def _gpu_bytes() -> int | None:
    # TensorFlow reports the memory that it has allocated, not the memory of the device.
    command = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=10)
        return min(int(line) for line in done.stdout.split()) * 2**20
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
