"""The actions between the steps of training, in the order in which the loop calls them.

`Callback` is the base class. The actions are logging, ending training after bad steps,
held-out evaluation with early stopping, saving checkpoints, and profiling.
"""

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.progress import Progress
from bert_tf.training.devices import Devices
from bert_tf.training.lifecycle.checkpoint import CheckpointWriter
from bert_tf.training.lifecycle.error_messages import FailureMessages
from bert_tf.training.lifecycle.run_state import RunState
from bert_tf.training.step.objective import Metrics
from bert_tf.training.step.step_result import StepResult
from bert_tf.training.summaries import MetricAccumulator, Summaries

_LOGGER = logging.getLogger(__name__)
Evaluate = Callable[[], Metrics]


class Callback(contextlib.AbstractContextManager[None]):
    """An action of the training loop every N steps and at the end of training.

    The loop enters all callbacks as context managers, and calls their methods in the
    order of the list. A subclass overrides the methods that it needs. If `every_steps`
    is 0, the loop calls `act` only at the end of training.
    """

    every_steps: int = 0

    def boundaries(self, step: int) -> Iterator[int]:
        """Yields numbers of steps after `step` at which the current graph call must end."""
        if self.every_steps:
            yield (step // self.every_steps + 1) * self.every_steps

    def should_stop(self, state: RunState) -> bool:
        """Returns whether to end training now. Called before each graph call."""
        return False

    def before_steps(self, state: RunState) -> None:
        """Called before each graph call, which runs one or more steps."""

    def after_steps(self, result: StepResult, secs: float) -> None:
        """Called after each graph call of one or more steps, which took `secs` seconds."""

    def act(self, state: RunState) -> None:
        """Called after every `every_steps` steps and after the last step."""

    def finish(self, state: RunState, interrupted: bool) -> None:
        """Called when training ends without an error; `interrupted` is True after a stop signal."""

    def __exit__(self, *error: object) -> None:
        """Called after `finish`, or after an error."""


@dataclasses.dataclass
class MetricLogging(Callback):
    """Averages metrics over `every_steps` steps and logs them.

    In a process that writes no files, `summaries` is None. Without a time budget,
    `time_budget_secs` is 0.
    """

    metrics: MetricAccumulator
    summaries: Summaries | None
    progress: Progress
    time_budget_secs: float
    every_steps: int

    def __enter__(self) -> None:
        self.progress.__enter__()

    def after_steps(self, result: StepResult, secs: float) -> None:
        """Adds the steps to the averages."""
        self.metrics.add(result, secs)
        note = f"loss {self.metrics.values()['loss']:.4f}"
        if self.time_budget_secs:
            used = result.scalars["time_budget_used"] * self.time_budget_secs
            note = f"{used:,.0f} of {self.time_budget_secs:,.0f} s, {note}"
        self.progress.update(result.steps, note)

    def act(self, state: RunState) -> None:
        """Logs the averages over the steps since the previous log entry."""
        log(self.summaries, "train", state.step, self.metrics.values())
        self.metrics.clear()

    def finish(self, state: RunState, interrupted: bool) -> None:
        """Logs the steps since the last log entry, except after a stop signal.

        After a stop signal, the resumed run logs these steps in its next regular entry.
        """
        if self.metrics.totals.steps and not interrupted:
            self.act(state)

    def __exit__(self, *error: object) -> None:
        """Ends the progress display."""
        self.progress.__exit__(*error)  # type: ignore[arg-type]


def log(summaries: Summaries | None, kind: str, step: int, values: Metrics) -> None:
    """Writes a log entry to disk at once, so that it is kept if the run fails."""
    if summaries is not None:
        summaries.write(kind, step, values)
        summaries.flush()


@dataclasses.dataclass
class BadSteps(Callback):
    """Ends training with an error if `StepResult.is_failure` is true.

    In the list of callbacks it follows `MetricLogging` and precedes `CheckpointSaving`:
    the metrics up to the last step are logged, and no checkpoint is written.
    """

    failures: FailureMessages
    bad_result: StepResult | None = None

    def after_steps(self, result: StepResult, secs: float) -> None:
        """Stores the result if too many steps in a row were bad; training then ends."""
        if result.is_failure:
            self.bad_result = result

    def should_stop(self, state: RunState) -> bool:
        """Returns whether too many steps in a row were bad."""
        return self.bad_result is not None

    def finish(self, state: RunState, interrupted: bool) -> None:
        """Raises an `InputError` if too many steps in a row were bad."""
        if self.bad_result is not None:
            raise self.failures.bad_steps(self.bad_result, state.step)


@dataclasses.dataclass(frozen=True)
class HeldOutData:
    """The data for evaluations during training.

    Attributes:
        datasets: Maps the name of each data set to a function that builds the batches
            of the data set. The metrics on the first data set select the best weights.
        evaluations: Maps the name of each further data set to a function that computes
            metrics with the present weights. If there are no `datasets`, the first of
            these functions provides the metric that selects the best weights.
        samples: A function that returns the predictions for a few examples, or details
            of the last evaluation, as Markdown text. It is called after the
            evaluations. If None, no text is logged.
        image: A function that returns a picture of the last evaluation, uint8 [H, W,
            3], or None. It is called after the evaluations.
    """

    datasets: Mapping[str, Callable[[], tf.data.Dataset]] = dataclasses.field(
        default_factory=dict
    )
    samples: Callable[[], str] | None = None
    evaluations: Mapping[str, Evaluate] = dataclasses.field(default_factory=dict)
    image: Callable[[], np.ndarray | None] = lambda: None


@dataclasses.dataclass
class HeldOutEvaluation(Callback):
    """Evaluates every `every_steps` steps and at the end of training.

    Attributes:
        evaluations: Maps the name of each data set to a function that returns the
            metrics of the present weights. The metrics on the first data set select the
            best weights.
        held_out: Its `samples` and `image` are logged after the evaluations.
        best_by: The name of the metric that selects the best weights, and a sign: 1 if
            higher values of this metric are better, -1 if lower values are better.
        summaries, writer: None in a process that writes no files.
        max_evals: The number of consecutive evaluations without a new best value after
            which training stops; 0 never stops training.
        results: The metrics of the last evaluation, by the name of the data set.
        every_steps: 0 evaluates only at the end of training.
    """

    evaluations: Mapping[str, Evaluate]
    held_out: HeldOutData
    best_by: tuple[str, int]
    summaries: Summaries | None
    writer: CheckpointWriter | None
    failures: FailureMessages
    max_evals: int
    results: dict[str, Metrics]
    every_steps: int

    def should_stop(self, state: RunState) -> bool:
        """Returns whether `max_evals`, unless it is 0, evaluations have followed the best one."""
        return 0 < self.max_evals <= state.best.evals_since

    def act(self, state: RunState) -> None:
        """Evaluates on all data sets, and saves the weights if they are the best."""
        if not self.evaluations:
            return
        step = state.step
        first = next(iter(self.evaluations))
        with self.failures.explain(step):
            for name, evaluate in self.evaluations.items():
                values = evaluate()
                text = ", ".join(f"{key} {value:.4f}" for key, value in values.items())
                _LOGGER.info("step %d, %s: %s", step, name, text)
                log(self.summaries, name, step, values)
                self.results[name] = values
            if self.held_out.samples is not None and self.summaries is not None:
                samples = self.held_out.samples()
                self.summaries.write_text(first, step, "samples", samples)
                if (image := self.held_out.image()) is not None:
                    self.summaries.write_image(first, step, "confusion", image)
                self.summaries.flush()

        # The first data set selects the best weights.
        metric, sign = self.best_by
        values = self.results[first]
        is_best = state.best.update(step, values[metric], sign)
        if is_best and self.writer is not None:
            self.writer.save_best(step, values)


@dataclasses.dataclass
class CheckpointSaving(Callback):
    """Saves a checkpoint every `every_steps` steps, at the end and after a stop signal.

    If a checkpoint is due after a bad step, it is saved after the next good step. If
    training ends because of bad steps, the newest checkpoint is therefore from before
    the first of these bad steps.

    Attributes:
        iterator: The iterator of the input pipeline, whose position is saved; None if
            the number of the step determines the next batch.
        saved_step: The step of the newest checkpoint; 0 for a new run.
    """

    writer: CheckpointWriter
    iterator: Any
    saved_step: int
    every_steps: int
    is_waiting: bool = False

    def before_steps(self, state: RunState) -> None:
        """Raises the error of a failed write; saves a checkpoint that waited for a good step."""
        self.writer.check()
        if self.is_waiting:
            self.act(state)

    def act(self, state: RunState) -> None:
        """Saves a checkpoint, or waits if the last step was bad."""
        self.is_waiting = state.bad_steps > 0
        if not self.is_waiting:
            self._save(state)

    def finish(self, state: RunState, interrupted: bool) -> None:
        """Saves a checkpoint, unless there is one of the same step."""
        if state.step != self.saved_step:
            self._save(state)

    def _save(self, state: RunState) -> None:
        self.writer.save(state, self.iterator)
        self.saved_step = state.step


@dataclasses.dataclass
class Profiling(Callback):
    """Profiles the steps from `steps[0]` to `steps[1]`; without `steps` it does nothing."""

    devices: Devices
    folder: str
    steps: tuple[int, int] | None
    is_running: bool = False

    def boundaries(self, step: int) -> Iterator[int]:
        """Yields the start and the end of the profile that are after `step`."""
        yield from (boundary for boundary in self.steps or () if boundary > step)

    def before_steps(self, state: RunState) -> None:
        """Starts the profile at the first step number, ends it at the second one."""
        if not self.steps or state.step < self.steps[0]:
            return
        if state.step >= self.steps[1]:
            self._stop()
        elif not self.is_running:
            self.devices.start_profile(self.folder)
            self.is_running = True

    def __exit__(self, *error: object) -> None:
        """Ends the profile if it is running."""
        self._stop()

    def _stop(self) -> None:
        if self.is_running:
            self.devices.stop_profile()
            self.is_running = False
