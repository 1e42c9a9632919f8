"""Averages of metrics over steps or batches: `MetricAccumulator`."""

from collections.abc import Mapping
from typing import Any

from bert_tf.training.step import step_scalars
from bert_tf.training.step.objective import Objective, loss_and_metrics
from bert_tf.training.step.step_runner import StepResult


class MetricAccumulator:
    """Accumulates the results of the steps since the last log entry.

    Args:
        objective: Computes loss and metrics from totals.
        per_step: Maps the name of each logged rate to the quantity that one step processes. For
            example, with `{"tokens_per_sec": 4096}` each step processes 4,096 tokens, and the log
            entry `tokens_per_sec` is 4,096 times the steps per second.
    """

    def __init__(self, objective: Objective, per_step: Mapping[str, float]) -> None:
        self._objective, self._per_step = objective, per_step
        self.clear()

    def clear(self) -> None:
        """Resets all totals to 0."""
        self._sums: dict[str, float] = {}
        self._counts: dict[str, float] = {}
        self._scalars: dict[str, float] = {}
        self._secs = 0.0
        self._steps = 0

    @property
    def steps(self) -> int:
        """The number of steps since the last `clear`."""
        return self._steps

    def add(self, result: StepResult, secs: float) -> None:
        """Adds the result of one or more steps, and the seconds that these steps took."""
        add_to_totals(self._sums, result.sums)
        add_to_totals(self._counts, result.counts)
        self._scalars = step_scalars.combine(self._scalars, result.scalars)
        self._steps += result.steps
        self._secs += secs

    def values(self) -> dict[str, float]:
        """Returns the loss, the metrics, the other scalars, and the rates per second."""
        return {
            **loss_and_metrics(self._objective, self._sums, self._counts),
            **step_scalars.averages(self._scalars, self._steps),
            **{name: self._steps * n / self._secs for name, n in self._per_step.items()},
        }


def add_to_totals(totals: dict[str, float], values: Mapping[str, Any]) -> None:
    """Adds each value to the total of the same name, in place."""
    for name, value in values.items():
        totals[name] = totals.get(name, 0.0) + float(value)
