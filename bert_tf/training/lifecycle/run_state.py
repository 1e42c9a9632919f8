"""`RunState`: the progress of a run, saved in each checkpoint as state.json."""

import dataclasses

from bert_tf.training.lifecycle.best_evaluation import BestEvaluation
from bert_tf.training.step.step_scalars import StepTotals


@dataclasses.dataclass
class RunState:
    """The progress of a run, without weights, optimizer state and data position.

    Attributes:
        step: The number of steps done.
        bad_steps: The number of consecutive bad steps up to `step`; `step_runner.StepResult`
            defines bad steps.
        best: The best held-out evaluation so far.
        elapsed_secs: Seconds of training, over all runs; 0 without a time budget.
        time_is_up: Whether the last step of the time budget is done. After a long evaluation, the
            budget may be used up before its last step.
        unlogged: The totals over the steps since the last log entry.
    """

    step: int = 0
    bad_steps: int = 0
    best: BestEvaluation = dataclasses.field(default_factory=BestEvaluation)
    elapsed_secs: float = 0.0
    time_is_up: bool = False
    unlogged: StepTotals = dataclasses.field(default_factory=StepTotals)
