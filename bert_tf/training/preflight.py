"""What a run is about to do, said before its first step."""

import dataclasses
from collections.abc import Mapping

_SHARE_TO_USE = 0.9  # of the memory; the rest is for what an estimate does not know


@dataclasses.dataclass(frozen=True)
class Cost:
    """What a step costs.

    Attributes:
        parameters: Trainable numbers of the model.
        tokens: Tokens in a step, padding included, over all replicas and accumulated parts.
        flops: Operations of the matrix products of a step, likewise.
        memory: Estimated bytes on each device, by what they hold.
    """

    parameters: int
    tokens: int
    flops: int
    memory: Mapping[str, int]


def preflight(
    cost: Cost,
    device: str,
    available_bytes: int | None,
    peak_flops_per_sec: float | None = None,
    replicas: int = 1,
    precision: str = "float32",
    recompute: bool = False,
) -> str:
    """A block of a few lines: the size of a step, whether it fits, and if not what helps.

    Args:
        cost: Of a step.
        device: What the device is called.
        available_bytes: Memory that the run can take on it, or None if unknown.
        peak_flops_per_sec: Of matrix products on one device, or None if not measured.
        replicas: Devices that share a step.
        precision: Of the activations.
        recompute: Whether activations are computed anew on the way back.

    Returns:
        Lines without an end of line behind the last.
    """
    parts = ", ".join(f"{name} {_bytes(value)}" for name, value in cost.memory.items())
    lines = [
        f"{cost.parameters:,} parameters; {cost.tokens:,} tokens and {_flops(cost.flops)} a step",
        f"memory on each device, estimated: {_bytes(sum(cost.memory.values()))} ({parts})",
    ]
    facts = [] if available_bytes is None else [f"{_bytes(available_bytes)} available"]
    if peak_flops_per_sec:
        least = cost.flops / replicas / peak_flops_per_sec
        facts.append(
            f"matrix products at {_flops(peak_flops_per_sec)}/s in {precision}: a step takes "
            f"{_secs(least)} at least"
        )
    on = f"{replicas} x {device}" if replicas > 1 else device
    lines.append(f"{on}: {'; '.join(facts)}" if facts else on)
    if available_bytes and sum(cost.memory.values()) > _SHARE_TO_USE * available_bytes:
        lines.append(_what_helps(cost, available_bytes, precision, recompute))
    return "\n".join(lines)


def _what_helps(cost: Cost, available_bytes: int, precision: str, recompute: bool) -> str:
    """What would not fit, and which flags make it smaller."""
    fixed = sum(cost.memory.get(name, 0) for name in ("weights", "moments", "gradients"))
    if fixed > _SHARE_TO_USE * available_bytes:
        return (
            f"This will probably not fit: weights, moments and gradients alone take "
            f"{_bytes(fixed)}. Take a smaller model or a device with more memory."
        )
    flags = ["--gradient_accumulation_steps=2 or more"]
    flags += [] if recompute else ["--recompute"]
    flags += ["a smaller --train_batch_size"]
    flags += ["--precision=bfloat16"] if precision == "float32" else []
    return f"This will probably not fit. What helps: {', '.join(flags)}."


def _bytes(value: float) -> str:
    return f"{value / 1e9:.1f} GB" if value >= 1e9 else f"{value / 1e6:.0f} MB"


def _flops(value: float) -> str:
    units = ((1e15, "PFLOP"), (1e12, "TFLOP"), (1e9, "GFLOP"))
    size, unit = next((pair for pair in units if value >= pair[0]), units[-1])
    return f"{value / size:.3g} {unit}"


def _secs(value: float) -> str:
    return f"{value:.1f} s" if value >= 1 else f"{value * 1e3:.0f} ms"
