"""Logs the cost of a training step."""

import logging
from collections.abc import Mapping

_LOGGER = logging.getLogger(__name__)


def log_step_cost(
    parameters: int, tokens: int, flops: int, memory: Mapping[str, int]
) -> dict[str, float]:
    """Logs the cost of a step, at level INFO.

    Args:
        parameters: The number of trainable parameters.
        tokens: Tokens per step that are computed, over all replicas and accumulation
            steps.
        flops: Floating-point operations per step, over all replicas; counts matrix
            products only.
        memory: Estimated bytes on each device, by their use, such as "weights" or
            "gradients".

    Returns:
        The number of tokens in a step, by the name of the rate that training logs.
    """
    parts = ", ".join(
        f"{name} {_format_bytes(value)}" for name, value in memory.items()
    )
    _LOGGER.info(
        "%s parameters; %s tokens and %s per step\nestimated memory on each device: %s "
        "(%s)",
        f"{parameters:,}",
        f"{tokens:,}",
        _format_flops(flops),
        _format_bytes(sum(memory.values())),
        parts,
    )
    return {"tokens_per_sec": tokens}


def _format_bytes(value: float) -> str:
    return f"{value / 1e9:.1f} GB" if value >= 1e9 else f"{value / 1e6:.0f} MB"


def _format_flops(value: float) -> str:
    units = ((1e15, "PFLOP"), (1e12, "TFLOP"), (1e9, "GFLOP"))
    size, unit = next((pair for pair in units if value >= pair[0]), units[-1])
    return f"{value / size:.3g} {unit}"
