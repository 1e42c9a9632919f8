"""Writes checkpoints during training."""

from typing import Any

from bert_tf.training.callbacks.callback import Callback
from bert_tf.training.lifecycle.checkpoint_writer import CheckpointWriter
from bert_tf.training.lifecycle.run_state import RunState


class CheckpointSaving(Callback):
    """Saves a checkpoint every N steps, at the end of training, and after a stop signal.

    After a bad step, the checkpoint waits for the next good step. If training ends
    because of bad steps, the newest checkpoint is therefore from before the first of
    them.

    Args:
        writer: Writes the checkpoints.
        iterator: The iterator of the input pipeline; the position of the iterator is
            saved. None if the step determines the position.
        every_steps: Steps between checkpoints.
        saved_step: The step of the checkpoint from which the run was resumed; 0 for a
            new run.
    """

    def __init__(
        self, writer: CheckpointWriter, iterator: Any, every_steps: int, saved_step: int
    ) -> None:
        self._writer, self._iterator = writer, iterator
        self.every_steps, self._saved_step = every_steps, saved_step
        self._is_waiting = False

    def before_steps(self, state: RunState) -> None:
        """Raises the error of a failed write.

        Saves a checkpoint that waited for a good step.
        """
        self._writer.check()
        if self._is_waiting:
            self.act(state)

    def act(self, state: RunState) -> None:
        """Saves a checkpoint, or waits if the last step was bad."""
        self._is_waiting = state.bad_steps > 0
        if not self._is_waiting:
            self._save(state)

    def finish(self, state: RunState, interrupted: bool) -> None:
        """Saves a checkpoint, unless the last checkpoint was saved after the same step."""
        if state.step != self._saved_step:
            self._save(state)

    def _save(self, state: RunState) -> None:
        self._writer.save(state, self._iterator)
        self._saved_step = state.step
