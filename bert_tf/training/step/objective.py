"""The contract between the training engine and a loss function: `Objective`."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

Tensors = Mapping[str, Any]

# A feature of a batch that the engine does not pass to the objective: int64 [B, 2], the index of
# the file and the index of the record in that file that each example was read from.
ORIGIN = "origin"


class Objective(Protocol):
    """Forward pass, loss and metrics of one kind of training.

    Values are kept as sums and counts until they are totals over all replicas. The loss and its
    gradient therefore do not depend on how a batch is split: a masked-LM mean divides by the number
    of predictions in the global batch, not in the part of one replica.
    """

    @property
    def variables(self) -> Mapping[str, Any]:
        """The trainable variables by the names they are saved under."""

    @property
    def depths(self) -> Mapping[str, int]:
        """The number of layers below each variable, by variable name; 0 for embeddings."""

    @property
    def best_by(self) -> tuple[str, int]:
        """The metric that selects the best weights; 1 if higher is better, -1 if lower is."""

    def counts(self, batch: Tensors) -> dict[str, Any]:
        """Returns the denominators for this part of the batch: float32 scalars.

        They depend on the batch only, not on the model.
        """

    def sums(self, batch: Tensors, training: bool, seed: Any = None) -> dict[str, Any]:
        """Runs the model and returns the numerators of losses and metrics: float32 scalars.

        Args:
            batch: A part of a global batch.
            training: Whether dropout is on.
            seed: int32 [2], different for each step and replica; None if `training` is False.
        """

    def loss(self, sums: Tensors, counts: Tensors) -> Any:
        """Returns the loss to minimize: a scalar that is linear in `sums`.

        Args:
            sums: Of this part of the batch, or totals.
            counts: Of the global batch, or totals.
        """

    def metrics(self, sums: Mapping[str, float], counts: Mapping[str, float]) -> dict[str, float]:
        """Returns the reported metrics except the loss, from totals over any number of batches."""


def loss_and_metrics(
    objective: Objective, sums: Mapping[str, Any], counts: Mapping[str, Any]
) -> dict[str, float]:
    """Returns `loss` and the metrics of an objective from totals over any number of batches.

    Args:
        objective: Defines both.
        sums: Total numerators.
        counts: Total denominators. A value that would be divided by 0 is NaN.
    """
    total_sums, total_counts = (
        {name: np.float64(value) for name, value in totals.items()} for totals in (sums, counts)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = objective.loss(total_sums, total_counts) if any(total_counts.values()) else np.nan
        metrics = {"loss": loss, **objective.metrics(total_sums, total_counts)}
    return {name: float(value) for name, value in metrics.items()}
