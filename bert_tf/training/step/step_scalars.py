"""The scalars that a step reports besides losses and metrics, and their totals over steps.

To report a further scalar, add it to the dict in `StepRunner._replica_step`.
"""

from collections.abc import Mapping
from typing import Any

# Scalars that are in neither of the two tuples are 0 in skipped steps. Their average is over the
# steps that are not skipped.
_LAST_VALUE = ("learning_rate", "time_budget_used")
_TOTAL = ("skipped_steps",)


def combine(totals: Mapping[str, Any], scalars: Mapping[str, Any]) -> dict[str, Any]:
    """Adds the scalars of a later step, tensors or numbers, to the totals of earlier steps."""
    return {
        name: value if name in _LAST_VALUE else totals.get(name, 0.0) + value
        for name, value in scalars.items()
    }


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
