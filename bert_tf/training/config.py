"""What defines a run's result, and how it is computed; both are written beside each checkpoint."""

import dataclasses
import json
import math
import sys
from collections.abc import Mapping
from typing import Any

from bert_tf.errors import InputError, check_at_least

STRATEGIES = ("one_device", "mirrored", "multi_worker_mirrored", "tpu")
PRECISIONS = ("float32", "bfloat16", "float16")
OPTIMIZERS = ("adam_weight_decay", "adamw", "lamb")
SCHEDULES = ("released", "linear", "cosine", "constant")


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """All that defines the result of a run, the model apart. A run only continues unchanged.

    Attributes:
        seed: Seeds the initial weights, dropout and the order of the examples.
        global_batch_size: Examples in one optimizer step, over all replicas.
        num_train_steps: Optimizer steps in all.
        num_warmup_steps: Steps in which the learning rate rises.
        learning_rate: The peak.
        optimizer: One of `OPTIMIZERS`; see `optimizer`.
        schedule: One of `SCHEDULES`; see `schedule`.
        weight_decay_rate: Decoupled weight decay, per unit of learning rate.
        clip_norm: Gradients are scaled down to this global norm.
        layer_decay: Each layer learns at this many times the rate of the layer above it; 1 is the
            same rate for all.
        ema_decay: Weights are averaged over steps with this decay, and the average is what is
            evaluated and handed on; 0 is no average.
        precision: "float32", or "bfloat16" or "float16" for activations with float32 weights.
        data: What the examples are: a fingerprint, lengths, task; compared as it is.

    Source: defaults of google-research/bert `optimization.create_optimizer`.
    """

    seed: int
    global_batch_size: int
    num_train_steps: int
    num_warmup_steps: int
    learning_rate: float
    optimizer: str = "adam_weight_decay"
    schedule: str = "released"
    weight_decay_rate: float = 0.01
    clip_norm: float = 1.0
    layer_decay: float = 1.0
    ema_decay: float = 0.0
    precision: str = "float32"
    data: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        check_at_least(1, self, "global_batch_size", "num_train_steps")
        _check_between(self, "seed", 0, 2**31 - 1)
        if not 0 <= self.num_warmup_steps <= self.num_train_steps:
            raise InputError(
                f"num_warmup_steps must be from 0 to num_train_steps ({self.num_train_steps}). "
                f"Received: {self.num_warmup_steps}."
            )
        _check_between(self, "layer_decay", 0, 1)
        _check_between(self, "ema_decay", 0, math.nextafter(1, 0))
        _check_between(self, "weight_decay_rate", 0, sys.float_info.max)
        for name in ("learning_rate", "clip_norm"):
            if not 0 < getattr(self, name) < math.inf:
                raise InputError(f"{name} must be above 0. Received: {getattr(self, name)}.")
        _check_choice(self, "optimizer", OPTIMIZERS)
        _check_choice(self, "schedule", SCHEDULES)
        _check_choice(self, "precision", PRECISIONS)


@dataclasses.dataclass(frozen=True)
class RuntimeConfig:
    """How a run is computed; may change from one part of a run to the next.

    Attributes:
        distribution_strategy: One of `STRATEGIES`; see `strategy`.
        num_gpus: GPUs that "mirrored" uses; 0 means all.
        tpu_name: TPU that "tpu" uses; "" is that of this machine.
        tpu_zone: Its zone, or "".
        gcp_project: Its project, or "".
        gradient_accumulation_steps: Parts that a replica's share of a batch is computed in, one
            after the other: less memory, the same result but for dropout.
        iterations_per_loop: Most steps that run in the graph without coming back to Python.
        save_checkpoints_steps: Steps between checkpoints.
        eval_steps: Steps between held-out evaluations; 0 evaluates at the end only.
        log_steps: Steps between entries in TensorBoard and metrics.jsonl.
        keep_checkpoints: How many of the newest checkpoints stay.
        stop_at_step: Stop when this many steps are done, before the schedule ends; 0 goes on to
            its end.
        early_stopping_evals: Stop after this many held-out evaluations in a row that are not
            better than the best one; 0 never stops early.
        jit_compile: Compile forward and backward with XLA; needs fixed lengths.
        recompute: Compute each block's activations a second time on the way back instead of
            keeping them.
        deterministic: The same bits each time on the same machine and layout, at some cost.
        debug_nans: Run step by step, and name the layer in which a number stops being finite.
        profile_steps: First and last step of a profile for TensorBoard, or None.
    """

    distribution_strategy: str = "one_device"
    num_gpus: int = 0
    tpu_name: str = ""
    tpu_zone: str = ""
    gcp_project: str = ""
    gradient_accumulation_steps: int = 1
    iterations_per_loop: int = 1000
    save_checkpoints_steps: int = 1000
    eval_steps: int = 0
    log_steps: int = 100
    keep_checkpoints: int = 2
    stop_at_step: int = 0
    early_stopping_evals: int = 0
    jit_compile: bool = False
    recompute: bool = False
    deterministic: bool = False
    debug_nans: bool = False
    profile_steps: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        check_at_least(1, self, "iterations_per_loop", "save_checkpoints_steps", "log_steps")
        check_at_least(1, self, "keep_checkpoints", "gradient_accumulation_steps")
        check_at_least(0, self, "num_gpus", "eval_steps", "early_stopping_evals", "stop_at_step")
        _check_choice(self, "distribution_strategy", STRATEGIES)
        if self.early_stopping_evals and not self.eval_steps:
            raise InputError("early_stopping_evals needs evaluations on the way: give eval_steps.")
        if self.profile_steps and not 0 <= self.profile_steps[0] < self.profile_steps[1]:
            raise InputError(
                "profile_steps must be two steps, the first below the second. "
                f"Received: {self.profile_steps}."
            )


def _check_choice(config: Any, name: str, choices: tuple[str, ...]) -> None:
    value = getattr(config, name)
    if value not in choices:
        raise InputError(f"{name} must be one of {', '.join(choices)}. Received: {value!r}.")


def _check_between(config: Any, name: str, least: float, most: float) -> None:
    value = getattr(config, name)
    if not least <= value <= most:
        raise InputError(f"{name} must be from {least} to {most}. Received: {value}.")


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
