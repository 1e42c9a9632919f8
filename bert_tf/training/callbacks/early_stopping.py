"""Stops training when the held-out evaluations no longer improve."""

from bert_tf.training.callbacks.callback import Callback
from bert_tf.training.lifecycle.run_state import RunState


class EarlyStopping(Callback):
    """Stops training after `max_evals` consecutive evaluations without a new best value.

    Args:
        max_evals: The number of consecutive evaluations without a new best value after which
            training stops; 0 never stops training.
    """

    def __init__(self, max_evals: int) -> None:
        self._max_evals = max_evals

    def should_stop(self, state: RunState) -> bool:
        """Returns whether there were `max_evals` evaluations after the best one."""
        return bool(self._max_evals) and state.best.evals_since >= self._max_evals
