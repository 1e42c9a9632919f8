"""The scalars that a step reports besides losses and metrics, and totals over steps.

To report a further scalar, add it to the dict in `StepRunner._replica_step`.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

# Scalars that are in neither of the two tuples are 0 in skipped steps. Their average is
# over the steps that are not skipped.
_LAST_VALUE = ("learning_rate", "time_budget_used")
_TOTAL = ("skipped_steps",)


@dataclasses.dataclass
class StepTotals:
    """Totals over steps, from which the loss, the metrics and the other averages are computed.

    Attributes:
        steps: The number of steps, including skipped ones.
        sums: Total numerators; see `Objective.sums`.
        counts: Total denominators; see `Objective.counts`.
        scalars: Further scalars, combined by `combine`.
    """

    steps: int = 0
    sums: dict[str, float] = dataclasses.field(default_factory=dict)
    counts: dict[str, float] = dataclasses.field(default_factory=dict)
    scalars: dict[str, float] = dataclasses.field(default_factory=dict)

    def clear(self) -> None:
        """Removes all steps."""
        self.steps, self.sums, self.counts, self.scalars = 0, {}, {}, {}


def combine(totals: Mapping[str, Any], scalars: Mapping[str, Any]) -> dict[str, Any]:
    """Adds the scalars of a later step, tensors or numbers, to the totals of earlier steps."""
    return {
        name: value if name in _LAST_VALUE else totals.get(name, 0.0) + value
        for name, value in scalars.items()
    }


def add_to_totals(totals: dict[str, float], values: Mapping[str, Any]) -> None:
    """Adds each value to the total of the same name, in place."""
    for name, value in values.items():
        totals[name] = totals.get(name, 0.0) + float(value)


def averages(totals: Mapping[str, float], steps: int) -> dict[str, float]:
    """Returns the values to report, from the totals of one or more steps.

    Args:
        totals: Combined scalars of these steps.
        steps: The number of steps, including skipped ones.
    """
    applied = max(steps - totals.get("skipped_steps", 0.0), 1)
    return {
        name: total if name in (*_LAST_VALUE, *_TOTAL) else total / applied
        for name, total in totals.items()
    }
