"""`StepResult`, and the rules of a step that both backends share.

A step runner (`tensorflow_step.step_runner` or `jax_step.step_runner`) has an
`optimizer`, and the methods `train` and `evaluate`.
"""

import dataclasses
from typing import Any

import numpy as np
from keras import ops

from bert_tf.errors import InputError
from bert_tf.training.step.loss_scale import MINIMUM_SCALE
from bert_tf.training.step.objective import ORIGIN, Metrics, Tensors
from bert_tf.training.step.schedule import scheduled_rate
from bert_tf.training.training_config import RuntimeConfig, TrainingConfig

MAX_BAD_STEPS = 3


@dataclasses.dataclass(frozen=True)
class StepResult:
    """The result of one or more steps, as totals over all replicas.

    A step is bad if its gradient is not finite although the loss scale is already
    minimal. `StepTotals` describes `sums`, `counts` and `scalars`.

    Attributes:
        steps: The number of steps, including skipped ones.
        bad_in_a_row: The number of consecutive bad steps up to the last step. Bad steps
            of earlier calls count too.
        bad_origin: int64 [B, 2], the feature `objective.ORIGIN` of the examples that
            this process read for the last bad step; B is 0 if the batches do not have
            this feature.
        cause: Describes the first value that is not finite; only with
            `RuntimeConfig.debug_nans`.
    """

    steps: int
    sums: Metrics
    counts: Metrics
    scalars: Metrics
    bad_in_a_row: int
    bad_origin: np.ndarray
    cause: str = ""

    @property
    def is_failure(self) -> bool:
        """Whether training must end: too many steps in a row were bad, or one with `debug_nans`."""
        return bool(self.cause) or self.bad_in_a_row >= MAX_BAD_STEPS

    @property
    def time_is_up(self) -> bool:
        """Whether the time budget was used up when the last step started; equal on all workers."""
        return self.scalars.get("time_budget_used", 0.0) >= 1.0


def check_batch_size(
    config: TrainingConfig, runtime: RuntimeConfig, replicas: int
) -> None:
    """Raises `InputError` if a batch does not divide among replicas and accumulation steps."""
    size, steps = config.global_batch_size, runtime.gradient_accumulation_steps
    if size % (replicas * steps):
        each_in = f" in {steps} accumulation steps each" if steps > 1 else ""
        raise InputError(
            f"A batch of {size} examples does not divide evenly among {replicas} "
            f"replicas{each_in}. Give a multiple of {replicas * steps}."
        )


def learning_rate(schedule_step: Any, config: TrainingConfig) -> Any:
    """Returns the learning rate of a step, before the factor of each layer."""
    return scheduled_rate(
        schedule_step,
        config.learning_rate,
        num_train_steps=config.num_train_steps,
        num_warmup_steps=config.num_warmup_steps,
        decay=config.schedule,
    )


def clip_factor(norm: Any, clip_norm: float | None, loss_scale: Any) -> Any:
    """Returns the factor that clips gradients and divides them by the loss scale.

    `norm` is the global norm of the gradients, divided by the loss scale; None as
    `clip_norm` does not limit it.

    Source: google-research/bert `optimization.py`, `tf.clip_by_global_norm`.
    """
    clipping = 1.0 if clip_norm is None else clip_norm / ops.maximum(norm, clip_norm)
    return clipping / loss_scale


def reported(
    sums: Tensors,
    counts: Tensors,
    *,
    norm: Any,
    loss_scale: Any,
    rate: Any,
) -> tuple[Tensors, Tensors, dict[str, Any], Any]:
    """Returns what a step reports: sums, counts and scalars, and whether the step is bad.

    A step whose gradient `norm` is not finite is skipped: the reported means do not
    contain it. With a time budget, a runner adds its used share to the scalars, as
    `time_budget_used`.
    """
    finite = ops.isfinite(norm)
    sums, counts = (
        {name: ops.where(finite, value, 0.0) for name, value in values.items()}
        for values in (sums, counts)
    )
    scalars = {
        "learning_rate": rate,
        "gradient_norm": ops.where(finite, norm, 0.0),
        "skipped_steps": ops.cast(~finite, "float32"),
    }
    is_bad = ops.logical_and(~finite, loss_scale <= MINIMUM_SCALE)
    return sums, counts, scalars, is_bad


def without_origin(batch: Tensors) -> Tensors:
    """Returns the features of a batch that the objective gets."""
    return {name: value for name, value in batch.items() if name != ORIGIN}
