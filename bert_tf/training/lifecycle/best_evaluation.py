"""`BestEvaluation`: decides which weights of a run are the best."""

import dataclasses
import math


@dataclasses.dataclass
class BestEvaluation:
    """The best held-out evaluation of a run.

    Attributes:
        value: The metric that selects the best weights; None before the first
            evaluation. Any number is better than NaN.
        evals_since: The number of evaluations after the best evaluation.
    """

    value: float | None = None
    step: int = 0
    evals_since: int = 0

    def update(self, step: int, value: float, sign: int) -> bool:
        """Records an evaluation and returns whether it is the best so far.

        `sign` is 1 if higher values are better, and -1 if lower values are better.
        """
        best = self.value
        if (
            best is None
            or sign * value > sign * best
            or math.isnan(best) > math.isnan(value)
        ):
            self.value = value
            self.step = step
            self.evals_since = 0
            return True
        self.evals_since += 1
        return False
