"""`Objective`: what a kind of training hands to the loop."""

from collections.abc import Mapping
from typing import Any, Protocol

Tensors = Mapping[str, Any]

# A feature of a batch that the loop keeps for itself: int64 [B, 2], the file and the record in it
# that each example came from.
ORIGIN = "origin"


class Objective(Protocol):
    """Forward pass, loss and metrics of one kind of training.

    Everything is kept as sums and counts until they are totals over all replicas, so that the
    loss and its gradient do not depend on how a batch is cut: a masked-LM mean divides by the
    number of predictions in the whole batch, not by that of one replica.
    """

    @property
    def variables(self) -> Mapping[str, Any]:
        """The trainable variables by the names they are saved under."""

    @property
    def depths(self) -> Mapping[str, int]:
        """How many layers each variable is above the input; 0 for embeddings."""

    @property
    def best_by(self) -> tuple[str, int]:
        """The metric that selects the best weights; 1 if higher is better, -1 if lower is."""

    def counts(self, batch: Tensors) -> dict[str, Any]:
        """The denominators of this part of the batch: float32 scalars, from the batch alone."""

    def sums(self, batch: Tensors, training: bool, seed: Any = None) -> dict[str, Any]:
        """Runs the model; the numerators of losses and metrics: float32 scalars.

        Args:
            batch: A part of a global batch.
            training: Whether dropout is on.
            seed: int32 [2], another one for each step and replica; None without training.
        """

    def loss(self, sums: Tensors, counts: Tensors) -> Any:
        """What is minimized: a float32 scalar, linear in `sums`.

        Args:
            sums: Of this part of the batch.
            counts: Of the whole batch.
        """

    def metrics(self, sums: Mapping[str, float], counts: Mapping[str, float]) -> dict[str, float]:
        """What is reported, from totals over any number of batches."""
