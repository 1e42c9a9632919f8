"""Stops training after several bad steps in a row."""

from bert_tf.training.callbacks.callback import Callback
from bert_tf.training.lifecycle.failures import FailureMessages
from bert_tf.training.lifecycle.run_state import RunState
from bert_tf.training.step.step_runner import StepResult


class BadSteps(Callback):
    """Ends training with an error if `step_runner.StepResult.is_failure` is true.

    In the list of callbacks it follows `MetricLogging` and precedes `CheckpointSaving`:
    the metrics up to the last step are logged, and no checkpoint is written.

    Args:
        failures: Provides the error message.
    """

    def __init__(self, failures: FailureMessages) -> None:
        self._failures = failures
        self._last: StepResult | None = None

    def after_steps(self, result: StepResult, secs: float) -> None:
        """Keeps the result."""
        self._last = result

    def should_stop(self, state: RunState) -> bool:
        """Returns whether too many steps in a row were bad."""
        return self._last is not None and self._last.is_failure

    def finish(self, state: RunState, interrupted: bool) -> None:
        """Raises an `InputError` if too many steps in a row were bad."""
        if self._last is not None and self._last.is_failure:
            raise self._failures.bad_steps(self._last, state.step)
