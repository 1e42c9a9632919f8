"""`TrainingClock`: measures the seconds of training, if there is a time budget."""

import time

from bert_tf.training.lifecycle.run_state import RunState


class TrainingClock:
    """Measures the seconds of training, over all runs.

    Does nothing without a time budget.

    The clock does not follow changes of the system clock. It starts with the first call
    of `update`, at the seconds in the state, so that the time between two runs does not
    count.

    Args:
        has_time_budget: Whether the training has a time budget. Without one, all
            checkpoints have the same seconds, so that two runs write the same bytes.
    """

    def __init__(self, has_time_budget: bool) -> None:
        self._has_time_budget = has_time_budget
        self._started: float | None = None

    def update(self, state: RunState) -> None:
        """Updates `state.elapsed_secs`."""
        if not self._has_time_budget:
            return
        now = time.monotonic()
        if self._started is None:
            self._started = now - state.elapsed_secs
        state.elapsed_secs = now - self._started
