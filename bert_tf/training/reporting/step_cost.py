"""Describes the cost of a training step, with advice if the step does not fit into memory."""

import dataclasses
import logging
from collections.abc import Mapping

from bert_tf.training.reporting.devices import device_memory

_LOGGER = logging.getLogger(__name__)
# The step fits if the estimate is at most this share of the available memory. TensorFlow allocates
# more memory than the estimate.
_USABLE_MEMORY = 0.9


@dataclasses.dataclass(frozen=True)
class StepCost:
    """The cost of a training step.

    Attributes:
        parameters: The number of trainable parameters.
        tokens: Tokens per step that are computed, over all replicas and accumulation steps.
        flops: Floating-point operations per step, over all replicas; counts matrix products only.
        memory: Estimated bytes on each device, by their use: "weights", "moments", "gradients" and
            others.
        precision: Precision of the activations.
        recompute: Whether activations are recomputed in the backward pass.
    """

    parameters: int
    tokens: int
    flops: int
    memory: Mapping[str, int]
    precision: str = "float32"
    recompute: bool = False


def log_step_cost(cost: StepCost, replicas: int) -> dict[str, float]:
    """Logs the cost of a step and the memory of the device, at level INFO.

    Args:
        cost: The cost of a step.
        replicas: The number of devices among which each global batch is divided.

    Returns:
        The number of tokens in a step, by the name of the rate that training logs.
    """
    _LOGGER.info("%s", describe_step_cost(cost, replicas, *device_memory()))
    return {"tokens_per_sec": cost.tokens}


def describe_step_cost(
    cost: StepCost, replicas: int, device: str, available_bytes: int | None
) -> str:
    """Describes the cost of a step, and suggests flags if the step does not fit into memory.

    Args:
        cost: The cost of a step.
        replicas: The number of devices among which each global batch is divided.
        device: Name of the first device.
        available_bytes: Memory that the run can use on each device, or None if unknown.

    Returns:
        Three or four lines, without a line end after the last one.
    """
    parts = ", ".join(f"{name} {_format_bytes(value)}" for name, value in cost.memory.items())
    total = sum(cost.memory.values())
    lines = [
        f"{cost.parameters:,} parameters; {cost.tokens:,} tokens and {_format_flops(cost.flops)} "
        "per step",
        f"estimated memory on each device: {_format_bytes(total)} ({parts})",
        f"{replicas} x {device}" if replicas > 1 else device,
    ]
    if available_bytes is not None:
        lines[-1] += f": {_format_bytes(available_bytes)} available"
        if total > _USABLE_MEMORY * available_bytes:
            lines.append(_advise_on_memory(cost, available_bytes))
    return "\n".join(lines)


def _advise_on_memory(cost: StepCost, available_bytes: int) -> str:
    fixed = sum(cost.memory.get(name, 0) for name in ("weights", "moments", "gradients"))
    if fixed > _USABLE_MEMORY * available_bytes:
        return (
            f"This will probably not fit into memory: weights, moments and gradients alone need "
            f"{_format_bytes(fixed)}. Use a smaller model or a device with more memory."
        )
    flags = ["--gradient_accumulation_steps=2 or more"]
    flags += [] if cost.recompute else ["--recompute"]
    flags += ["a smaller --train_batch_size"]
    flags += ["--precision=bfloat16"] if cost.precision == "float32" else []
    return f"This will probably not fit into memory. Try {', '.join(flags)}."


def _format_bytes(value: float) -> str:
    return f"{value / 1e9:.1f} GB" if value >= 1e9 else f"{value / 1e6:.0f} MB"


def _format_flops(value: float) -> str:
    units = ((1e15, "PFLOP"), (1e12, "TFLOP"), (1e9, "GFLOP"))
    size, unit = next((pair for pair in units if value >= pair[0]), units[-1])
    return f"{value / size:.3g} {unit}"
