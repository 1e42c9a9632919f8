"""`RunState`: the progress of a run, saved in each checkpoint as state.json."""

import dataclasses
import math


@dataclasses.dataclass
class BestEvaluation:
    """The best held-out evaluation of a run.

    Attributes:
        value: Value of the selecting metric, or None before the first evaluation. Any number is
            better than NaN.
        step: The step of this evaluation.
        evals_since: The number of evaluations after it.
    """

    value: float | None = None
    step: int = 0
    evals_since: int = 0

    def update(self, step: int, value: float, sign: int) -> bool:
        """Records an evaluation and returns whether it is the best so far.

        Args:
            step: The number of steps done.
            value: Value of the selecting metric.
            sign: 1 if higher is better, -1 if lower is better.
        """
        best = self.value
        if best is None or sign * value > sign * best or math.isnan(best) > math.isnan(value):
            self.value, self.step, self.evals_since = value, step, 0
            return True
        self.evals_since += 1
        return False


@dataclasses.dataclass
class RunState:
    """The progress of a run, except its weights, optimizer slots and data position.

    Attributes:
        step: The number of steps done.
        bad_steps: The number of consecutive bad steps just before; see `step_runner.StepResult`.
        best: The best held-out evaluation so far.
    """

    step: int = 0
    bad_steps: int = 0
    best: BestEvaluation = dataclasses.field(default_factory=BestEvaluation)
