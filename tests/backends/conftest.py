"""The tests of this folder run on the backend that KERAS_BACKEND names.

On JAX, the CPU has eight virtual devices.
"""

import os

if os.environ.get("KERAS_BACKEND") == "jax":
    os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
    # The threads of XLA: with fewer, its devices can wait for each other forever.
    os.environ.setdefault("NPROC", "32")
