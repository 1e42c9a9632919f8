"""Profiles some steps for TensorBoard."""

from collections.abc import Iterator

import tensorflow as tf

from bert_tf.training.callbacks.callback import Callback
from bert_tf.training.lifecycle.run_state import RunState


class Profiling(Callback):
    """Profiles the steps between two step numbers.

    Args:
        folder: The folder that TensorBoard reads.
        steps: The step numbers at which the profile starts and ends; None for no
            profile.
    """

    def __init__(self, folder: str, steps: tuple[int, int] | None) -> None:
        self._folder, self._steps, self._running = folder, steps, False

    def boundaries(self, step: int) -> Iterator[int]:
        """Yields the start and the end of the profile, if they are greater than `step`."""
        yield from (boundary for boundary in self._steps or () if boundary > step)

    def before_steps(self, state: RunState) -> None:
        """Starts the profile at the first step number, and ends the profile at the second one."""
        if (
            self._steps
            and not self._running
            and self._steps[0] <= state.step < self._steps[1]
        ):
            tf.profiler.experimental.start(self._folder)
            self._running = True
        elif self._steps and state.step >= self._steps[1]:
            self._stop()

    def __exit__(self, *error: object) -> None:
        """Ends the profile if it is running."""
        self._stop()

    def _stop(self) -> None:
        if self._running:
            tf.profiler.experimental.stop()
            self._running = False
