"""The training loop: calls the compiled steps, and the callbacks between them.

`run_loop` needs to know how many steps to run in one graph call, and how long training
has taken: `Pacing` and `TrainingClock`.
"""

import contextlib
import dataclasses
import itertools
import logging
import signal
import time
from collections.abc import Callable, Sequence

from bert_tf.training.callbacks import Callback
from bert_tf.training.devices import Devices
from bert_tf.training.lifecycle.run_state import RunState
from bert_tf.training.step.step_result import StepResult

_LOGGER = logging.getLogger(__name__)
_SECS_PER_CALL = 1.0
RunSteps = Callable[[RunState, int], StepResult]


@dataclasses.dataclass
class Pacing:
    """Chooses how many steps, at most `max_steps`, run in a graph call of about 1 s.

    While `steps_per_sec` is 0 (unknown), a graph call runs one step.
    """

    max_steps: int
    steps_per_sec: float = 0.0
    calls: int = 0

    @property
    def steps(self) -> int:
        """The number of steps for the next graph call."""
        return max(1, min(self.max_steps, int(self.steps_per_sec * _SECS_PER_CALL)))

    def observe(self, result: StepResult, secs: float) -> None:
        """Updates the measured speed, except after the first graph call, which includes tracing."""
        if self.calls:
            self.steps_per_sec = result.steps / secs
        self.calls += 1


@dataclasses.dataclass
class TrainingClock:
    """Measures the seconds of training, including those before a run was resumed.

    The clock does not follow changes of the system clock. It starts with the first call
    of `update`, at the seconds in the state, so that the time between two runs does not
    count. Without a time budget, the clock does nothing, so that two runs with equal
    settings write checkpoints with equal bytes.
    """

    has_time_budget: bool
    started: float | None = None

    def update(self, state: RunState) -> None:
        """Updates `state.elapsed_secs`."""
        if not self.has_time_budget:
            return
        now = time.monotonic()
        if self.started is None:
            self.started = now - state.elapsed_secs
        state.elapsed_secs = now - self.started


def run_loop(
    run_steps: RunSteps,
    state: RunState,
    last_step: int,
    callbacks: Sequence[Callback],
    pacing: Pacing,
    workers: Devices,
    signals: Sequence[int],
    clock: TrainingClock,
) -> int:
    """Trains until `last_step` or the end of the time budget.

    A callback or a stop signal can end training earlier. Returns the number of the stop
    signal, or 0.

    Args:
        run_steps: Takes the state and a number of steps, and runs at most this number
            of steps.
        state: The progress of the run; updated in place.
        workers: Makes all processes take the same number of steps per call and stop at
            the same step.
        signals: The stop signals that this process has received so far.
    """
    signal_number = 0
    is_last = state.step >= last_step or state.time_is_up
    with contextlib.ExitStack() as stack:
        for callback in callbacks:
            stack.enter_context(callback)

        while not is_last and not any(each.should_stop(state) for each in callbacks):
            # Every process uses the chief's number of steps per call.
            signal_number, steps = _agree(workers, signals, pacing.steps)
            if signal_number:
                break

            # The call of the graph ends at the next step at which a callback is due.
            for callback in callbacks:
                callback.before_steps(state)
            clock.update(state)
            ends = (each.boundaries(state.step) for each in callbacks)
            end = min(state.step + steps, last_step, *itertools.chain(*ends))
            started = time.monotonic()
            result = run_steps(state, end - state.step)
            secs = time.monotonic() - started

            state.step += result.steps
            state.bad_steps = result.bad_in_a_row
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

            # Each callback gets a state that includes the seconds of the earlier ones.
            for callback in callbacks:
                every_steps = callback.every_steps
                if is_last or (every_steps and state.step % every_steps == 0):
                    clock.update(state)
                    callback.act(state)

        clock.update(state)
        for callback in callbacks:
            callback.finish(state, interrupted=bool(signal_number))
    return signal_number


def _agree(workers: Devices, signals: Sequence[int], steps: int) -> tuple[int, int]:
    """Returns a stop signal if any process has one, else 0, and the `steps` of the chief."""
    signal_number = (signals or [0])[0]
    any_signal, agreed_steps = workers.sum(
        [signal_number, steps if workers.is_chief else 0]
    )
    if not any_signal:
        return 0, round(agreed_steps)
    return signal_number or int(signal.SIGTERM), round(agreed_steps)
