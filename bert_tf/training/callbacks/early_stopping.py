"""Stops training when the held-out evaluations do not improve any more."""

from bert_tf.training.callbacks.callback import Callback
from bert_tf.training.lifecycle.run_state import RunState


class EarlyStopping(Callback):
    """Stops after some evaluations without a new best one.

    Args:
        max_evals: The number of consecutive evaluations that are not better; 0 never stops.
    """

    def __init__(self, max_evals: int) -> None:
        self._max_evals = max_evals

    def should_stop(self, state: RunState) -> bool:
        """Returns whether the best evaluation is too long ago."""
        return bool(self._max_evals) and state.best.evals_since >= self._max_evals
