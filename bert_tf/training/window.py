"""What the steps since the last entry in the log add up to, and which evaluation was the best."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from bert_tf.training.objective import Objective
from bert_tf.training.step import Result

_SECS_IN_GRAPH = 1.0  # the loop comes back to Python about this often


class Window:
    """Adds up steps.

    Args:
        objective: Makes metrics of the totals.
        per_step: Of what is reported by the second, by name, how much a step has.
    """

    def __init__(self, objective: Objective, per_step: Mapping[str, float]) -> None:
        self._objective, self._per_step = objective, per_step
        self._steps_per_sec: float | None = None
        self._first = True
        self.clear()

    def clear(self) -> None:
        """Starts anew."""
        self._sums: dict[str, float] = {}
        self._counts: dict[str, float] = {}
        self._norm = self._skipped = self._secs = self._rate = 0.0
        self._steps = 0

    @property
    def steps(self) -> int:
        """How many there are since the last entry."""
        return self._steps

    def pace(self, most: int) -> int:
        """How many steps to run in the graph before coming back to Python."""
        return max(1, min(most, int((self._steps_per_sec or 0) * _SECS_IN_GRAPH)))

    def add(self, result: Result, secs: float) -> None:
        """Adds what steps gave, and how long they took."""
        add_to(self._sums, result.sums)
        add_to(self._counts, result.counts)
        self._norm += result.gradient_norm
        self._skipped += result.skipped
        self._rate = result.learning_rate
        self._steps += result.steps
        self._secs += secs
        # The first call includes tracing: it says nothing of the pace.
        self._steps_per_sec = None if self._first else result.steps / secs
        self._first = False

    def values(self) -> dict[str, float]:
        """The metrics of these steps, the last learning rate, the mean gradient norm, speeds."""
        speeds = {name: self._steps * of / self._secs for name, of in self._per_step.items()}
        return {
            **self._objective.metrics(self._sums, self._counts),
            "learning_rate": self._rate,
            "gradient_norm": self._norm / max(self._steps - self._skipped, 1),
            "skipped_steps": self._skipped,
            **speeds,
        }


@dataclasses.dataclass
class Best:
    """The best held-out evaluation of a run.

    Attributes:
        value: Of the metric that selects, or None before the first evaluation. Any number is
            better than NaN.
        step: When that was.
        evals_since: Evaluations since then, none of them better.
    """

    value: float | None = None
    step: int = 0
    evals_since: int = 0

    def update(self, step: int, value: float, sign: int) -> bool:
        """Takes note of an evaluation; whether it is the best so far.

        Args:
            step: Steps done.
            value: Of the metric that selects.
            sign: 1 if higher is better, -1 if lower is.
        """
        before = self.value
        if before is None or sign * value > sign * before or math.isnan(before) > math.isnan(value):
            self.value, self.step, self.evals_since = value, step, 0
            return True
        self.evals_since += 1
        return False


def add_to(totals: dict[str, float], values: Mapping[str, Any]) -> None:
    """Adds values to totals of the same name."""
    for name, value in values.items():
        totals[name] = totals.get(name, 0.0) + float(value)
