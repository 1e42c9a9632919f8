"""What the device can do at most: the speed of matrix products and its memory."""

import os
import subprocess
import time

import tensorflow as tf

_SIZES = (1024, 2048, 4096, 8192)
_SECS_A_PRODUCT = 0.02  # long enough that starting it takes no part
_SECS = 0.4


def matmul_flops_per_sec(precision: str) -> float:
    """Speed of square matrix products on the first device with all its cores, measured now.

    The fastest of some tenths of a second of products, of a size that takes a hundredth or more:
    what a training step is told as a share of.

    Args:
        precision: "float32", "bfloat16" or "float16".
    """
    product = tf.function(tf.matmul, autograph=False)
    for size in _SIZES:
        matrix = tf.cast(tf.random.stateless_normal((size, size), (0, 0)), precision)
        best = _secs(product, matrix)
        if best > _SECS_A_PRODUCT or size == _SIZES[-1]:
            break
    ends = time.perf_counter() + _SECS
    while time.perf_counter() < ends:
        best = min(best, _secs(product, matrix))
    return 2 * size**3 / best


def _secs(product: tf.types.experimental.PolymorphicFunction, matrix: tf.Tensor) -> float:
    """Seconds of one product; the second one, where the first was to warm up."""
    for _ in range(2):
        start = time.perf_counter()
        # One element is brought over, so that the device has to be done.
        float(product(matrix, matrix)[0, 0])
        secs = time.perf_counter() - start
    return secs


def device_memory() -> tuple[str, int | None]:
    """What the first device is called, and the bytes that a run can take on it.

    All that a GPU has, of several the smallest; of a machine without, what its system says is
    available. None where that is not known.
    """
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        details = tf.config.experimental.get_device_details(gpus[0])
        return details.get("device_name", "GPU"), _gpu_bytes()
    return "CPU", _available_bytes()


def _gpu_bytes() -> int | None:
    # TensorFlow says what it has taken, not what there is.
    command = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(command, capture_output=True, check=True, text=True, timeout=10)
        return min(int(line) for line in told.stdout.split()) * 2**20
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def _available_bytes() -> int | None:
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            fields = dict(line.split(":", 1) for line in lines)
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None
