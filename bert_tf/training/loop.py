"""The training loop: calls the compiled steps, and calls the callbacks between the steps."""

import contextlib
import logging
import signal
import time
from collections.abc import Callable, Sequence

from bert_tf.training.callbacks.callback import Callback
from bert_tf.training.lifecycle.pacing import Pacing
from bert_tf.training.lifecycle.run_state import RunState
from bert_tf.training.lifecycle.training_clock import TrainingClock
from bert_tf.training.step.step_runner import StepResult
from bert_tf.training.strategy import WorkerSync

_LOGGER = logging.getLogger(__name__)
RunSteps = Callable[[RunState, int], StepResult]


def run_loop(
    run_steps: RunSteps,
    state: RunState,
    last_step: int,
    callbacks: Sequence[Callback],
    pacing: Pacing,
    workers: WorkerSync,
    signals: Sequence[int],
    clock: TrainingClock,
) -> int:
    """Trains until `last_step` or the end of the time budget.

    A callback or a stop signal can end training earlier.

    Args:
        run_steps: Takes the state and a number of steps, and runs at most this number
            of steps.
        state: The progress of the run; updated in place.
        last_step: Training ends after this many steps.
        callbacks: The actions between calls of `run_steps`, in this order.
        pacing: Chooses the number of steps per call.
        workers: Exchanges numbers between the processes, so that all processes take the
            same number of steps per call and stop at the same step.
        signals: The numbers of the stop signals that this process has received so far.
        clock: Measures the seconds of training.

    Returns:
        The number of the signal that stopped training, or 0.
    """
    number = 0
    is_last = state.step >= last_step or state.time_is_up
    with contextlib.ExitStack() as stack:
        for callback in callbacks:
            stack.enter_context(callback)
        while not is_last and not any(each.should_stop(state) for each in callbacks):
            # Every process uses the chief's number of steps per call.
            number, steps = _agree(workers, signals, pacing.steps)
            if number:
                break
            for callback in callbacks:
                callback.before_steps(state)
            clock.update(state)
            limits = [
                last_step,
                *(b for each in callbacks for b in each.boundaries(state.step)),
            ]
            started = time.monotonic()
            result = run_steps(state, min(steps, min(limits) - state.step))
            secs = time.monotonic() - started
            state.step, state.bad_steps = state.step + result.steps, result.bad_in_a_row
            state.time_is_up = result.time_is_up
            is_last = state.step >= last_step or state.time_is_up
            clock.update(state)
            pacing.observe(result, secs)
            for callback in callbacks:
                callback.after_steps(result, secs)
            if state.time_is_up:
                _LOGGER.info(
                    "Training took %.1f s, %d steps.", state.elapsed_secs, state.step
                )
            _act(callbacks, state, is_last, clock)
        clock.update(state)
        for callback in callbacks:
            callback.finish(state, interrupted=bool(number))
    return number


def _agree(workers: WorkerSync, signals: Sequence[int], steps: int) -> tuple[int, int]:
    """Returns a stop signal (0 if no process received one), and the chief's `steps`."""
    number = (signals or [0])[0]
    any_signal, agreed_steps = workers.sum([number, steps if workers.is_chief else 0])
    return (number or int(signal.SIGTERM)) if any_signal else 0, round(agreed_steps)


def _act(
    callbacks: Sequence[Callback], state: RunState, is_last: bool, clock: TrainingClock
) -> None:
    """Calls the due callbacks.

    The state of each includes the seconds of the earlier ones.
    """
    for callback in callbacks:
        if is_last or _is_due(callback, state.step):
            clock.update(state)
            callback.act(state)


def _is_due(callback: Callback, step: int) -> bool:
    return bool(callback.every_steps) and step % callback.every_steps == 0
