"""Measures the peak speed of square matrix products on the first device, on all cores.

    python benchmarks/matmul_speed.py bfloat16

The share of the peak that a training run reaches is the FLOPs of a step, which the run
logs before its first step, times its steps per second, divided by this speed.
"""

import math
import sys
import time

import tensorflow as tf

SIZES = (1024, 2048, 4096, 8192)
MIN_SECS_PER_PRODUCT = 0.02  # long enough that the overhead of a call is negligible
MEASUREMENTS = 5
SECS_PER_MEASUREMENT = 0.1
# The measurements repeat if the slowest one reaches this share of the fastest one.
MIN_AGREEMENT = 0.8


def main(precision="float32"):
    slowest, fastest = (flops / 1e9 for flops in measure(precision))
    print(
        f"{precision}: {fastest:.0f} GFLOP/s, the slowest of {MEASUREMENTS}: "
        f"{slowest:.0f}"
    )
    if slowest < MIN_AGREEMENT * fastest:
        print("The measurements did not repeat: other programs use the device.")


def measure(precision):
    """Returns the FLOPs per second of the slowest and of the fastest measurement."""
    product = tf.function(tf.matmul, autograph=False)
    for size in SIZES:
        matrix = tf.cast(tf.random.stateless_normal((size, size), (0, 0)), precision)
        if time_product(product, matrix) > MIN_SECS_PER_PRODUCT:
            break
    secs = [fastest_product(product, matrix) for _ in range(MEASUREMENTS)]
    return 2 * size**3 / max(secs), 2 * size**3 / min(secs)


def fastest_product(product, matrix):
    fastest, end = math.inf, time.perf_counter() + SECS_PER_MEASUREMENT
    while time.perf_counter() < end:
        fastest = min(fastest, time_product(product, matrix))
    return fastest


def time_product(product, matrix):
    for _ in range(2):  # the first time is a warm-up
        start = time.perf_counter()
        # Copying one element to the host waits until the device has finished.
        float(product(matrix, matrix)[0, 0])
        secs = time.perf_counter() - start
    return secs


if __name__ == "__main__":
    main(*sys.argv[1:])
