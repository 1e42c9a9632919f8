"""The contract of an action between steps: `Callback`."""

import contextlib
from collections.abc import Iterator

from bert_tf.training.lifecycle.run_state import RunState
from bert_tf.training.step.step_runner import StepResult


class Callback(contextlib.AbstractContextManager[None]):
    """An action that the training loop performs every N steps and at the end of training.

    The loop enters all callbacks as context managers, and calls their methods in the
    order of the list. A subclass overrides the methods that it needs.

    Attributes:
        every_steps: Steps between calls of `act`; with 0, the loop calls `act` only at
            the end of training.
    """

    every_steps: int = 0

    def boundaries(self, step: int) -> Iterator[int]:
        """Yields the numbers of later steps after which a graph call must end."""
        if self.every_steps:
            yield (step // self.every_steps + 1) * self.every_steps

    def should_stop(self, state: RunState) -> bool:
        """Returns whether to end training now. Called before each graph call."""
        return False

    def before_steps(self, state: RunState) -> None:
        """Called before each graph call, which runs one or more steps."""

    def after_steps(self, result: StepResult, secs: float) -> None:
        """Called after each graph call, which runs one or more steps.

        Args:
            result: The result of the steps in the graph call.
            secs: The duration of the graph call in seconds.
        """

    def act(self, state: RunState) -> None:
        """Called after every `every_steps` steps and after the last step of training."""

    def finish(self, state: RunState, interrupted: bool) -> None:
        """Called when training ends, except after an error.

        Args:
            state: The progress of the run.
            interrupted: Whether a stop signal ended training.
        """

    def __exit__(self, *error: object) -> None:
        """Called after `finish`, or after an error."""
