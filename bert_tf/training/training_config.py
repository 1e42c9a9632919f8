"""The settings of a run; written as JSON into each checkpoint."""

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

from bert_tf.config_fields import documented, option
from bert_tf.errors import (
    InputError,
    check_at_least,
    check_between,
    check_choices,
    check_positive,
    store_plain_values,
)

STRATEGIES = ("one_device", "mirrored", "multi_worker_mirrored", "tpu")
PRECISIONS = ("float32", "bfloat16", "float16")
# Fields that differ between the processes of a run, or between two clusters.
_OF_PROCESSES = ("coordinator_address", "num_processes", "process_id")
OPTIMIZERS = ("adam_weight_decay", "adamw", "lamb")
SCHEDULES = ("released", "linear", "cosine", "constant")
# The largest float32 number below 1. A larger beta would be 1 in float32, and the
# optimizer would divide by 1 - beta.
MAX_BETA = 1.0 - 2.0**-24
# The released value, for all optimizers.
ADAM_EPSILON = 1e-6


@documented
@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """The settings that, together with the model, define the result of a run.

    These settings cannot change after the run has started.

    Raises:
        InputError: A value is out of range.

    Source: The defaults are those of google-research/bert
        `optimization.create_optimizer` and `run_pretraining.py`.
    """

    num_train_steps: int = option(
        100_000,
        "The number of optimizer steps. With a time budget, training does not end "
        "after this number of steps; the number then only defines the shape of the "
        "schedule.",
    )
    num_warmup_steps: int = option(
        10_000,
        "The number of steps in which the learning rate rises from 0 to its peak.",
    )
    seed: int = option(
        12345, "Seed of initial weights, dropout and the order of examples."
    )
    global_batch_size: int = option(
        32, "Examples per step, over all devices.", flag="train_batch_size"
    )
    learning_rate: float = option(5e-5, "Peak learning rate.")
    optimizer: str = option(
        "adam_weight_decay",
        "adam_weight_decay: the released one, Adam without bias correction. adamw: "
        "with bias correction. lamb: for large batches.",
        choices=OPTIMIZERS,
    )
    schedule: str = option(
        "released",
        "Learning rate after the warm-up. released: linear decay counted from step "
        "0. linear, cosine: decay from the peak to 0. constant: the peak.",
        choices=SCHEDULES,
    )
    adam_beta_1: float = option(
        0.9,
        "Decay of the first moment (the average of the gradients), for all optimizers.",
    )
    adam_beta_2: float = option(
        0.999, "Decay of the second moment (the average of the squared gradients)."
    )
    weight_decay_rate: float = option(
        0.01,
        "Decoupled weight decay of all weights except LayerNorm and biases. Each "
        "step multiplies this rate by the learning rate.",
    )
    clip_norm: float = option(1.0, "Maximum global norm of the gradients.")
    layer_decay: float = option(
        1.0,
        "Learning rate of a layer divided by that of the layer above it; 1 gives all "
        "layers the same rate.",
    )
    ema_decay: float = option(
        0.0,
        "Decay of an average of the weights over steps, such as 0.999. The average "
        "is evaluated, saved and exported instead of the trained weights. 0 keeps no "
        "average.",
    )
    time_budget_secs: float = option(
        0.0,
        "Train for this number of seconds, over all interruptions, and not for "
        "`num_train_steps`; 0 for no time budget. The learning rate follows the "
        "clock: when a share of the time has passed, it is the one after the same "
        "share of `num_train_steps`. Evaluations and checkpoints during training "
        "count; the final ones, and the time between two runs, do not. Two such runs "
        "give different results.",
    )
    precision: str = option(
        "float32",
        "Precision of the activations; weights are float32. bfloat16 and float16 are "
        "faster on devices that support them, and slower on others. float16 uses a "
        "loss scale.",
        choices=PRECISIONS,
    )
    data: Mapping[str, Any] = dataclasses.field(
        default_factory=dict,
        metadata={
            "text": "Values that identify the examples, such as a fingerprint, lengths "
            "and the task. A resumed run must have equal values."
        },
    )

    def __post_init__(self) -> None:
        store_plain_values(self)
        check_at_least(1, self, "global_batch_size", "num_train_steps")
        check_at_least(
            0, self, "seed", "num_warmup_steps", "weight_decay_rate", "time_budget_secs"
        )

        if self.num_warmup_steps > self.num_train_steps:
            raise InputError(
                "num_warmup_steps must be from 0 to num_train_steps "
                f"({self.num_train_steps}). Received: {self.num_warmup_steps}."
            )

        check_between(0, 1, self, "layer_decay")
        check_between(0, math.nextafter(1, 0), self, "ema_decay")
        check_between(0, MAX_BETA, self, "adam_beta_1", "adam_beta_2")
        check_positive(self, "learning_rate", "clip_norm")
        check_choices(self)


@documented
@dataclasses.dataclass(frozen=True)
class RuntimeConfig:
    """The settings of the computation; they may change when a run is resumed.

    Raises:
        InputError: A value is out of range, or needs another value of another field,
            such as `early_stopping_evals` without `eval_steps`.
    """

    distribution_strategy: str = option(
        "one_device",
        "one_device; mirrored over the GPUs of this machine; multi_worker_mirrored "
        "over the machines in the environment variable TF_CONFIG; tpu.",
        choices=STRATEGIES,
    )
    num_gpus: int = option(0, "Number of GPUs for mirrored; 0 means all.")
    coordinator_address: str = option(
        "",
        "With backend=jax and multi_worker_mirrored: HOST:PORT of the process with the "
        "number 0. Default: found by JAX, on clusters that it supports.",
    )
    num_processes: int = option(0, "Number of processes of a run on JAX.")
    process_id: int = option(-1, "Number of this process of a run on JAX, from 0.")
    tpu_name: str = option("", "Name of the TPU. Default: this machine's.")
    tpu_zone: str = option("", "Zone of the TPU. Default: this machine's.")
    gcp_project: str = option("", "Project of the TPU. Default: this machine's.")
    gradient_accumulation_steps: int = option(
        1,
        "Number of parts into which the batch of a device is split, to save memory. "
        "The result is the same except for dropout masks.",
    )
    iterations_per_loop: int = option(
        1000,
        "Maximum number of steps in one call of the graph. Slow steps run in shorter "
        "calls, so that the progress display moves.",
    )
    save_checkpoints_steps: int = option(1000, "Steps between checkpoints.")
    eval_steps: int = option(
        0,
        "Steps between evaluations on held-out examples; 0 evaluates at the end "
        "only. The weights of the best evaluation are kept in best/.",
    )
    log_steps: int = option(
        100, "Steps between entries in TensorBoard and metrics.jsonl."
    )
    keep_checkpoints: int = option(2, "Number of newest checkpoints to keep.")
    stop_at_step: int = option(
        0,
        "Stop after this many steps, before the end of the schedule; 0 trains to its "
        "end. A run with a larger value resumes.",
    )
    early_stopping_evals: int = option(
        0,
        "Stop after this many evaluations in a row without a new best one, and use "
        "the best weights; 0 never stops early. Needs `eval_steps`.",
    )
    jit_compile: bool = option(
        False,
        "Compile forward and backward pass with XLA; all sequences must then have "
        "the same length.",
    )
    recompute: bool = option(
        False,
        "Recompute activations in the backward pass (gradient checkpointing): a "
        "third more computation, much less memory.",
    )
    deterministic: bool = option(
        False,
        "Give the same bits in each run on the same machine and devices; slower. "
        "TensorFlow cannot undo this setting, which holds for the whole process.",
    )
    stop_on_signals: bool = option(
        False,
        "Whether SIGINT (Ctrl-C), SIGTERM and SIGHUP end training after the present "
        "step, with a checkpoint and `errors.TrainingInterrupted`. If False, the "
        "signal handlers of the caller stay in place. True needs training in the "
        "main thread.",
    )
    debug_nans: bool = option(
        False, "Run single steps, and name the first layer with a NaN or an infinity."
    )
    profile_steps: tuple[int, int] | None = option(
        None, "First and last step of a profile for TensorBoard, such as 100,110."
    )

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON values, without those of processes on JAX."""
        values = to_json_dict(self)
        return {name: values[name] for name in values if name not in _OF_PROCESSES}

    def __post_init__(self) -> None:
        store_plain_values(self)
        check_at_least(
            1,
            self,
            "iterations_per_loop",
            "save_checkpoints_steps",
            "log_steps",
            "keep_checkpoints",
            "gradient_accumulation_steps",
        )
        check_at_least(
            0,
            self,
            "num_gpus",
            "num_processes",
            "eval_steps",
            "early_stopping_evals",
            "stop_at_step",
        )
        check_choices(self)

        # Values that require certain values of other fields.
        if self.num_gpus and self.distribution_strategy != "mirrored":
            raise InputError(
                f"num_gpus={self.num_gpus} needs distribution_strategy=mirrored. "
                f"Received: distribution_strategy={self.distribution_strategy}."
            )

        of_processes = {name: getattr(self, name) for name in _OF_PROCESSES}
        if tuple(of_processes.values()) != ("", 0, -1) and (
            self.distribution_strategy != "multi_worker_mirrored"
            or not 0 <= self.process_id < self.num_processes
        ):
            given = ", ".join(f"{name}={each}" for name, each in of_processes.items())
            raise InputError(
                "The processes of a run on JAX need distribution_strategy="
                "multi_worker_mirrored, num_processes, and a process_id from 0 to "
                "num_processes - 1. Received: distribution_strategy="
                f"{self.distribution_strategy}, {given}."
            )

        if self.early_stopping_evals and not self.eval_steps:
            raise InputError(
                "early_stopping_evals needs evaluations during training: give "
                "eval_steps too."
            )

        first, last = self.profile_steps or (0, 1)
        if not 0 <= first < last:
            raise InputError(
                "profile_steps must be two steps, the first smaller than the second. "
                f"Received: {self.profile_steps}."
            )


@dataclasses.dataclass(frozen=True)
class RunPhases:
    """The phases of a program run.

    Attributes:
        train: Whether to train, or to resume training.
        evaluate: Whether to evaluate, and to write `eval_results.txt`.
        predict: Whether to write predictions for the test splits; fine-tuning only.
    """

    train: bool
    evaluate: bool
    predict: bool = False

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of splits that the phases read: "train", "dev" and "test"."""
        uses = {"train": self.train, "dev": self.evaluate, "test": self.predict}
        return tuple(kind for kind, use in uses.items() if use)


def to_json_dict(config: Any) -> dict[str, Any]:
    """Returns the fields of a dataclass as JSON values: tuples become lists."""
    return json.loads(json.dumps(dataclasses.asdict(config)))


def first_difference(
    before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = ""
) -> tuple[str, Any, Any] | None:
    """Returns the first difference, or None: (dotted name, value before, value now)."""
    for key in sorted({*before, *now}):
        old, new = before.get(key), now.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            if difference := first_difference(old, new, f"{prefix}{key}."):
                return difference
        elif old != new:
            return f"{prefix}{key}", old, new
    return None
