"""Determines the speed of matrix products on the device, and the memory of the device."""

import dataclasses
import math
import subprocess
import time

import psutil
import tensorflow as tf

_SIZES = (1024, 2048, 4096, 8192)
_MIN_SECS_PER_PRODUCT = 0.02  # Long enough that the overhead of a call is negligible.
_MEASUREMENTS = 5
_SECS_PER_MEASUREMENT = 0.1
# The measurements repeat if the slowest one reaches this share of the fastest one.
_MIN_AGREEMENT = 0.8


@dataclasses.dataclass(frozen=True)
class MatmulSpeed:
    """The speed of square matrix products on the first device, with all cores, in FLOPs per second.

    Attributes:
        slowest: The result of the slowest of five measurements.
        fastest: The result of the fastest one. If the measurements repeat, this is the peak speed;
            training logs its own FLOPs per second as a share of the peak.
    """

    slowest: float
    fastest: float

    @property
    def repeats(self) -> bool:
        """Whether the slowest measurement reaches 80 % of the fastest one.

        If not, other programs use the device, and its peak speed is unknown.
        """
        return self.slowest >= _MIN_AGREEMENT * self.fastest


def matmul_speed(precision: str) -> MatmulSpeed:
    """Measures the speed of matrix products five times, in about 0.6 seconds.

    Each measurement repeats the product for 0.1 seconds; its result is the fastest repetition.

    Args:
        precision: "float32", "bfloat16" or "float16".
    """
    product = tf.function(tf.matmul, autograph=False)
    for size in _SIZES:
        matrix = tf.cast(tf.random.stateless_normal((size, size), (0, 0)), precision)
        if _time_product(product, matrix) > _MIN_SECS_PER_PRODUCT:
            break
    secs = [_fastest_product(product, matrix) for _ in range(_MEASUREMENTS)]
    return MatmulSpeed(2 * size**3 / max(secs), 2 * size**3 / min(secs))


def _fastest_product(
    product: tf.types.experimental.PolymorphicFunction, matrix: tf.Tensor
) -> float:
    """Returns the seconds of the fastest product in one measurement."""
    fastest, end = math.inf, time.perf_counter() + _SECS_PER_MEASUREMENT
    while time.perf_counter() < end:
        fastest = min(fastest, _time_product(product, matrix))
    return fastest


def _time_product(product: tf.types.experimental.PolymorphicFunction, matrix: tf.Tensor) -> float:
    """Computes the product twice, first as a warm-up; returns the seconds of the second time."""
    for _ in range(2):
        start = time.perf_counter()
        # Copying one element to the host waits until the device has finished.
        float(product(matrix, matrix)[0, 0])
        secs = time.perf_counter() - start
    return secs


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
