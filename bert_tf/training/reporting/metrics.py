"""Averages of metrics over steps, and rates per second: `MetricAccumulator`."""

import time
from collections.abc import Mapping

from bert_tf.training.step import step_scalars
from bert_tf.training.step.objective import Objective, loss_and_metrics
from bert_tf.training.step.step_runner import StepResult
from bert_tf.training.step.step_scalars import StepTotals, add_to_totals


class MetricAccumulator:
    """Accumulates the results of the steps since the last log entry.

    Args:
        objective: Computes loss and metrics from totals.
        per_step: Maps the name of each logged rate to the quantity that one step
            processes. For example, with `{"tokens_per_sec": 4096}` each step processes
            4,096 tokens. The log entry `tokens_per_sec` is then 4,096 times the steps
            per second while steps run, and the entry `tokens_per_sec_wall_clock` is
            4,096 times the steps per second of the clock.
        totals: The steps since the last log entry, also those before a restart; updated
            in place. By default, there are none.
    """

    def __init__(
        self,
        objective: Objective,
        per_step: Mapping[str, float],
        totals: StepTotals | None = None,
    ) -> None:
        self._objective, self._per_step = objective, per_step
        self._totals = totals or StepTotals()
        self._has_traced = False
        self._restart_clocks()

    def _restart_clocks(self) -> None:
        self._steps = 0  # since the last log entry, in this process
        self._started = time.monotonic()
        self._timed_steps, self._timed_secs = 0, 0.0

    def clear(self) -> None:
        """Resets all totals to 0."""
        self._totals.clear()
        self._restart_clocks()

    @property
    def steps(self) -> int:
        """The number of steps since the last log entry, also of those before a restart."""
        return self._totals.steps

    def add(self, result: StepResult, secs: float) -> None:
        """Adds the result of one or more steps, and the seconds that these steps took."""
        totals = self._totals
        totals.steps += result.steps
        add_to_totals(totals.sums, result.sums)
        add_to_totals(totals.counts, result.counts)
        totals.scalars = step_scalars.combine(totals.scalars, result.scalars)
        self._steps += result.steps
        if self._has_traced:
            self._timed_steps += result.steps
            self._timed_secs += secs
        self._has_traced = True

    def values(self) -> dict[str, float]:
        """Returns the loss, the metrics, the other scalars, and the rates per second.

        The rates of the steps do not include the first call of the graph, which traces
        the graph. They are absent if there was no other call. The rates of the clock
        include everything since the last log entry: tracing, evaluations and
        checkpoints.
        """
        totals = self._totals
        values = {
            **loss_and_metrics(self._objective, totals.sums, totals.counts),
            **step_scalars.averages(totals.scalars, totals.steps),
        }
        wall_secs = time.monotonic() - self._started
        for name, quantity in self._per_step.items():
            if self._timed_secs:
                values[name] = self._timed_steps * quantity / self._timed_secs
            if wall_secs:
                values[f"{name}_wall_clock"] = self._steps * quantity / wall_secs
        return values
