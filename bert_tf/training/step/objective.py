"""The contract between the training engine and a loss function: `Objective`.

`StepTotals` adds the results of an objective over steps, with the scalars that a step
reports besides losses and metrics. To report a further scalar, add it to the dict in
`StepRunner._replica_step`.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol, TypeGuard

import numpy as np

# Tensors or numbers by name, and the metrics that are computed from them.
Tensors = Mapping[str, Any]
Metrics = dict[str, float]

# The name of a feature of a batch, int64 [B, 2]. For each example, the feature contains
# the index of the file and the index of the record in that file. The engine does not
# pass this feature to the objective.
ORIGIN = "origin"
# Scalars that are in neither of the two tuples are 0 in skipped steps. Their average is
# over the steps that are not skipped.
_LAST_VALUE = ("learning_rate", "time_budget_used")
_TOTAL = ("skipped_steps",)


class Objective(Protocol):
    """Forward pass, loss and metrics of one kind of training.

    A global batch is split into parts, for the replicas and for gradient accumulation.
    `loss` divides the numerators (`sums`) of one part by the denominators (`counts`) of
    the global batch. The sum of the losses of all parts, and its gradient, therefore do
    not depend on how the batch is split. For example, the mean masked-LM loss divides
    by the number of predictions in the global batch, not by the number of predictions
    in one part.

    The methods with tensors run in the graph of a step, without AutoGraph: where a
    Python statement would depend on a tensor, use an operation such as `tf.where` or
    `tf.cond`.
    """

    @property
    def variables(self) -> Tensors:
        """The trainable variables, keyed by the names under which they are saved."""

    @property
    def depths(self) -> Mapping[str, int]:
        """The number of layers below each variable's layer, by variable name.

        0 for embeddings.
        """

    @property
    def best_by(self) -> tuple[str, int]:
        """The name of the metric that selects the best weights; 1 if higher is better, else -1."""

    def counts(self, batch: Tensors) -> Tensors:
        """Returns the denominators for one part of a global batch: float32 scalars.

        The denominators depend on the batch only, not on the model.
        """

    def sums(self, batch: Tensors, training: bool, seed: Any = None) -> Tensors:
        """Runs the model; returns numerators of losses and metrics, float32 scalars.

        Args:
            batch: A part of a global batch.
            training: Whether dropout is on.
            seed: int32 [2], different for each step and replica; None if `training` is
                False.
        """

    def loss(self, sums: Tensors, counts: Tensors) -> Any:
        """Returns the loss to minimize: a scalar that is linear in `sums`.

        Args:
            sums: Numerators of one part of the batch, or total numerators.
            counts: Denominators of the global batch, or total denominators.
        """

    def metrics(self, sums: Tensors, counts: Tensors) -> Metrics:
        """Returns the reported metrics except the loss, from totals over batches."""


class ComparingObjective(Objective, Protocol):
    """An objective whose loss compares each example with all others of the global batch.

    For example, the other texts of a batch are the negatives of a contrastive loss. The
    engine first computes the values of all parts without gradients, then the loss of
    the global batch and its gradients with respect to these values, and then each part
    again, with the same dropout masks, for the gradients of the weights. A batch of one
    part needs no second computation.

    `sums` must return the sums of `row_sums(compared_values(batch, training, seed))`.

    Source: Gao et al. 2021 (arXiv:2101.06983), section 3.
    """

    compares_examples: bool = True

    def compared_values(
        self, batch: Tensors, training: bool, seed: Any = None
    ) -> Tensors:
        """Runs the model; returns all that `row_sums` needs, such as vectors: [B, ...] each.

        The shapes after the first axis must be the same in all parts of a batch.
        `Objective.sums` describes the arguments.
        """

    def row_sums(self, values: Tensors) -> Tensors:
        """Returns the share of each example in the numerators of `sums`: float32 [B] each.

        Args:
            values: The results of `compared_values` for all examples of a global batch.
        """


def compares_examples(objective: Any) -> TypeGuard[ComparingObjective]:
    """Returns whether an objective is a `ComparingObjective`."""
    return getattr(objective, "compares_examples", False)


def loss_and_metrics(objective: Objective, sums: Tensors, counts: Tensors) -> Metrics:
    """Returns `loss` and the metrics of an objective, from totals over batches.

    A loss or metric whose denominator, its total count, is 0 is NaN.
    """
    total_sums, total_counts = (
        {name: np.float64(value) for name, value in totals.items()}
        for totals in (sums, counts)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = (
            objective.loss(total_sums, total_counts)
            if any(total_counts.values())
            else np.nan
        )
        metrics = {"loss": loss, **objective.metrics(total_sums, total_counts)}
    return {name: float(value) for name, value in metrics.items()}


@dataclasses.dataclass
class StepTotals:
    """Totals over steps, from which the loss and all averages are computed.

    `sums` and `counts` are totals of `Objective.sums` and `Objective.counts`; `combine`
    adds the `scalars`. `steps` includes skipped steps.
    """

    steps: int = 0
    sums: Metrics = dataclasses.field(default_factory=dict)
    counts: Metrics = dataclasses.field(default_factory=dict)
    scalars: Metrics = dataclasses.field(default_factory=dict)

    def clear(self) -> None:
        """Resets all totals to those of 0 steps."""
        self.steps = 0
        self.sums = {}
        self.counts = {}
        self.scalars = {}


def combine(totals: Tensors, scalars: Tensors) -> dict[str, Any]:
    """Adds the scalars of a later step to totals; those in `_LAST_VALUE` replace the total."""
    return {
        name: value if name in _LAST_VALUE else totals.get(name, 0.0) + value
        for name, value in scalars.items()
    }


def add_to_totals(totals: Metrics, values: Tensors) -> None:
    """Adds each value to the total of the same name, in place."""
    for name, value in values.items():
        totals[name] = totals.get(name, 0.0) + float(value)


def averages(totals: Tensors, steps: int) -> Metrics:
    """Returns the values to report, from totals over `steps` steps, including skipped ones."""
    applied = max(steps - totals.get("skipped_steps", 0.0), 1)
    return {
        name: total if name in (*_LAST_VALUE, *_TOTAL) else total / applied
        for name, total in totals.items()
    }
