"""The precision of training: its dtype policy in Keras, and the support for bfloat16."""

import logging
import os

import keras
import tensorflow as tf

_LOGGER = logging.getLogger(__name__)
_CPU_INFO = "/proc/cpuinfo"
# The names in this file of instructions for bfloat16: those of x86-64, and that of ARM.
_BFLOAT16_FLAGS = {"avx512_bf16", "amx_bf16", "avx_ne_convert", "bf16"}


def dtype_policy(precision: str) -> str:
    """Returns Keras's dtype policy for a precision; warns if bfloat16 is emulated."""
    if precision == "bfloat16" and (emulation := emulation_of_bfloat16()):
        _LOGGER.warning("warning: %s Give precision=float32.", emulation)
    return precision if precision == "float32" else f"mixed_{precision}"


def emulation_of_bfloat16() -> str | None:
    """Returns a sentence that says why bfloat16 is emulated here; None if it is not.

    Processors with one of `_BFLOAT16_FLAGS` compute in bfloat16, if oneDNN is on.
    Others convert each number, which is slower than float32 and rounds more often.
    """
    if keras.backend.backend() == "jax":
        import jax

        has_accelerator = jax.default_backend() != "cpu"
    else:
        listed = tf.config.list_logical_devices
        has_accelerator = bool(listed("GPU") or listed("TPU"))
    if has_accelerator:
        return None

    # Linux lists the instructions of the processor in this file; other systems do not
    # have it.
    try:
        with open(_CPU_INFO, encoding="utf-8", errors="replace") as file:
            flags = set(file.read().split())
    except OSError:
        return None

    if not flags & _BFLOAT16_FLAGS:
        reason = "this processor has no bfloat16 instructions (AVX512-BF16 or AMX)"
    elif os.environ.get("TF_ENABLE_ONEDNN_OPTS") == "0":
        reason = "TF_ENABLE_ONEDNN_OPTS=0 switches oneDNN off"
    else:
        return None
    return (
        f"bfloat16 is emulated, because {reason}: slower than float32, and less exact."
    )
