"""`Pacing`: chooses the number of training steps in one graph call."""

from bert_tf.training.step.step_runner import StepResult

_SECS_PER_CALL = 1.0


class Pacing:
    """Chooses the number of steps so that one graph call takes about one second.

    Args:
        max_steps: The maximum number of steps in one graph call.
    """

    def __init__(self, max_steps: int) -> None:
        self._max_steps = max_steps
        self._steps_per_sec: float | None = None
        self._calls = 0

    @property
    def steps(self) -> int:
        """The number of steps for the next graph call."""
        return max(
            1, min(self._max_steps, int((self._steps_per_sec or 0) * _SECS_PER_CALL))
        )

    def observe(self, result: StepResult, secs: float) -> None:
        """Updates the measured speed.

        Ignores the first graph call, because it includes tracing.
        """
        self._steps_per_sec = result.steps / secs if self._calls else None
        self._calls += 1
