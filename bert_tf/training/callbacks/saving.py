"""Writes checkpoints during training."""

from typing import Any

from bert_tf.training.callbacks.callback import Callback
from bert_tf.training.lifecycle.checkpoint_writer import CheckpointWriter
from bert_tf.training.lifecycle.run_state import RunState


class CheckpointSaving(Callback):
    """Saves a checkpoint every N steps, at the end of training, and after a stop signal.

    Args:
        writer: Writes the checkpoints.
        iterator: The iterator of the input pipeline; the position of the iterator is saved. None
            if the step determines the position.
        every_steps: Steps between checkpoints.
        saved_step: The step of the checkpoint from which the run was resumed; 0 for a new run.
    """

    def __init__(
        self, writer: CheckpointWriter, iterator: Any, every_steps: int, saved_step: int
    ) -> None:
        self._writer, self._iterator = writer, iterator
        self.every_steps, self._saved_step = every_steps, saved_step

    def before_steps(self, state: RunState) -> None:
        """Raises the error of the last checkpoint write if the write has already failed."""
        self._writer.check()

    def act(self, state: RunState) -> None:
        """Saves a checkpoint."""
        self._writer.save(state, self._iterator)
        self._saved_step = state.step

    def finish(self, state: RunState, interrupted: bool) -> None:
        """Saves a checkpoint, unless the last checkpoint was saved after the same step."""
        if state.step != self._saved_step:
            self.act(state)
