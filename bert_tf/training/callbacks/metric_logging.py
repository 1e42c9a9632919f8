"""Shows the progress of training and logs its metrics."""

from collections.abc import Mapping

from bert_tf.progress import Progress
from bert_tf.training.callbacks.callback import Callback
from bert_tf.training.lifecycle.run_state import RunState
from bert_tf.training.reporting.metrics import MetricAccumulator
from bert_tf.training.reporting.summaries import Summaries
from bert_tf.training.step.step_runner import StepResult


class MetricLogging(Callback):
    """Averages metrics over N steps and logs them.

    Args:
        metrics: Averages the metrics.
        summaries: Receives the log entries; None in a process that writes no files.
        every_steps: Steps between log entries.
        progress: Shows the number of steps and the loss.
        time_budget_secs: The time budget, whose used part `progress` shows too; 0 for
            none.

    Attributes:
        summaries: The argument `summaries`.
    """

    def __init__(
        self,
        metrics: MetricAccumulator,
        summaries: Summaries | None,
        every_steps: int,
        progress: Progress,
        time_budget_secs: float = 0.0,
    ) -> None:
        self._metrics, self.summaries = metrics, summaries
        self.every_steps, self._progress = every_steps, progress
        self._time_budget_secs = time_budget_secs

    def __enter__(self) -> None:
        self._progress.__enter__()

    def after_steps(self, result: StepResult, secs: float) -> None:
        """Adds the steps to the averages."""
        self._metrics.add(result, secs)
        note = f"loss {self._metrics.values()['loss']:.4f}"
        if self._time_budget_secs:
            used = result.scalars["time_budget_used"] * self._time_budget_secs
            note = f"{used:,.0f} of {self._time_budget_secs:,.0f} s, {note}"
        self._progress.update(result.steps, note)

    def act(self, state: RunState) -> None:
        """Logs the averages over the steps since the previous log entry."""
        log(self.summaries, "train", state.step, self._metrics.values())
        self._metrics.clear()

    def finish(self, state: RunState, interrupted: bool) -> None:
        """Logs the steps since the previous log entry, unless a stop signal ended training.

        After a stop signal, the resumed run writes the next log entry at its regular
        step.
        """
        if self._metrics.steps and not interrupted:
            self.act(state)

    def __exit__(self, *error: object) -> None:
        """Ends the progress display."""
        self._progress.__exit__(*error)  # type: ignore[arg-type]


def log(
    summaries: Summaries | None, kind: str, step: int, values: Mapping[str, float]
) -> None:
    """Writes a log entry to disk at once, so that the entry is kept if the run fails later."""
    if summaries is not None:
        summaries.write(kind, step, values)
        summaries.flush()
