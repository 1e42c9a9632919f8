"""What defines a run's result, and how it is computed; both are written beside each checkpoint."""

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

from bert_tf import files
from bert_tf.errors import InputError, check_at_least

STRATEGIES = ("one_device", "mirrored")
PRECISIONS = ("float32", "bfloat16")


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """All that defines the result of a run, the model apart. A run only continues unchanged.

    Attributes:
        seed: Seeds the initial weights, dropout and the order of the examples.
        global_batch_size: Examples in one optimizer step, over all replicas.
        num_train_steps: Optimizer steps in all.
        num_warmup_steps: Steps in which the learning rate rises.
        learning_rate: The peak.
        weight_decay_rate: Decoupled weight decay, per unit of learning rate.
        clip_norm: Gradients are scaled down to this global norm.
        precision: "float32", or "bfloat16" for activations with float32 weights.
        data: What the examples are: a fingerprint, lengths, task; compared as it is.

    Source: defaults of google-research/bert `optimization.create_optimizer`.
    """

    seed: int
    global_batch_size: int
    num_train_steps: int
    num_warmup_steps: int
    learning_rate: float
    weight_decay_rate: float = 0.01
    clip_norm: float = 1.0
    precision: str = "float32"
    data: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        check_at_least(1, self, "global_batch_size", "num_train_steps")
        check_at_least(0, self, "seed")
        if not 0 <= self.num_warmup_steps <= self.num_train_steps:
            raise InputError(
                f"num_warmup_steps must be from 0 to num_train_steps ({self.num_train_steps}). "
                f"Received: {self.num_warmup_steps}."
            )
        if not 0 < self.learning_rate < math.inf:
            raise InputError(f"learning_rate must be above 0. Received: {self.learning_rate}.")
        if self.precision not in PRECISIONS:
            raise InputError(
                f"precision must be one of {PRECISIONS}. Received: {self.precision!r}."
            )


@dataclasses.dataclass(frozen=True)
class RuntimeConfig:
    """How a run is computed; may change from one part of a run to the next.

    Attributes:
        distribution_strategy: "one_device", or "mirrored" over the GPUs of this machine.
        num_gpus: GPUs that "mirrored" uses; 0 means all.
        iterations_per_loop: Most steps that run in the graph without coming back to Python.
        save_checkpoints_steps: Steps between checkpoints.
        eval_steps: Steps between held-out evaluations; 0 evaluates at the end only.
        log_steps: Steps between entries in TensorBoard and metrics.jsonl.
        keep_checkpoints: How many of the newest checkpoints stay.
        jit_compile: Compile forward and backward with XLA; needs fixed lengths.
    """

    distribution_strategy: str = "one_device"
    num_gpus: int = 0
    iterations_per_loop: int = 1000
    save_checkpoints_steps: int = 1000
    eval_steps: int = 0
    log_steps: int = 100
    keep_checkpoints: int = 2
    jit_compile: bool = False

    def __post_init__(self) -> None:
        check_at_least(1, self, "iterations_per_loop", "save_checkpoints_steps", "log_steps")
        check_at_least(1, self, "keep_checkpoints")
        check_at_least(0, self, "num_gpus", "eval_steps")
        if self.distribution_strategy not in STRATEGIES:
            raise InputError(
                f"distribution_strategy must be one of {', '.join(STRATEGIES)}. "
                f"Received: {self.distribution_strategy!r}."
            )


def as_plain(config: Any) -> dict[str, Any]:
    """The fields as JSON gives them back: lists for tuples, string keys."""
    return json.loads(json.dumps(dataclasses.asdict(config)))


def first_difference(
    before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = ""
) -> tuple[str, Any, Any] | None:
    """The first field that differs, as (name with dots, value before, value now)."""
    for key in sorted({*before, *now}):
        old, new = before.get(key), now.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found = first_difference(old, new, f"{prefix}{key}.")
            if found:
                return found
        elif old != new:
            return f"{prefix}{key}", old, new
    return None


def read_json(path: str) -> dict[str, Any]:
    """A JSON object that we wrote.

    Raises:
        InputError: The file is missing or not JSON.
    """
    try:
        return json.loads(files.read_text(path))
    except json.JSONDecodeError as error:
        raise InputError(f"{path} is damaged: {error}.") from error
