"""Evaluates on held-out data during training, saves the best weights, and stops early."""

import dataclasses
import logging
from collections.abc import Callable, Mapping

import tensorflow as tf

from bert_tf.training.callbacks.callback import Callback
from bert_tf.training.callbacks.metric_logging import log
from bert_tf.training.lifecycle.checkpoint_writer import CheckpointWriter
from bert_tf.training.lifecycle.failures import FailureMessages
from bert_tf.training.lifecycle.run_state import RunState
from bert_tf.training.reporting.summaries import Summaries

_LOGGER = logging.getLogger(__name__)
Evaluate = Callable[[], dict[str, float]]


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
    """

    datasets: Mapping[str, Callable[[], tf.data.Dataset]] = dataclasses.field(
        default_factory=dict
    )
    samples: Callable[[], str] | None = None
    evaluations: Mapping[str, Evaluate] = dataclasses.field(default_factory=dict)


class HeldOutEvaluation(Callback):
    """Evaluates every N steps and at the end of training.

    Args:
        evaluations: Maps the name of each data set to a function that returns the
            metrics of the present weights. The metrics on the first data set select the
            best weights.
        samples: As in `HeldOutData`.
        best_by: The name of the metric that selects the best weights, and a sign: 1 if
            higher values of this metric are better, -1 if lower values are better.
        summaries: Receives metrics and samples; None in a process that writes no files.
        writer: Saves the best weights; None in a process that writes no files.
        failures: Explains errors of the input pipeline.
        every_steps: Steps between evaluations; with 0, evaluates only at the end of
            training.
        max_evals: The number of consecutive evaluations without a new best value after
            which training stops; 0 never stops training.

    Attributes:
        results: The metrics of the last evaluation on each data set, by the name of the
            data set.
    """

    def __init__(
        self,
        evaluations: Mapping[str, Evaluate],
        samples: Callable[[], str] | None,
        best_by: tuple[str, int],
        summaries: Summaries | None,
        writer: CheckpointWriter | None,
        failures: FailureMessages,
        every_steps: int,
        max_evals: int,
    ) -> None:
        self._evaluations, self._samples, self._best_by = evaluations, samples, best_by
        self._summaries, self._writer, self._failures = summaries, writer, failures
        self.every_steps, self._max_evals = every_steps, max_evals
        self.results: dict[str, dict[str, float]] = {}

    def should_stop(self, state: RunState) -> bool:
        """Returns whether there were `max_evals` evaluations after the best one."""
        return bool(self._max_evals) and state.best.evals_since >= self._max_evals

    def act(self, state: RunState) -> None:
        """Evaluates on all data sets, and saves the weights if they are the best so far."""
        if not self._evaluations:
            return
        with self._failures.explain(state.step):
            for name, evaluate in self._evaluations.items():
                values = evaluate()
                text = ", ".join(f"{key} {value:.4f}" for key, value in values.items())
                _LOGGER.info("step %d, %s: %s", state.step, name, text)
                log(self._summaries, name, state.step, values)
                self.results[name] = values
            self._write_samples(state.step)
        metric, sign = self._best_by
        values = self.results[next(iter(self._evaluations))]
        if (
            state.best.update(state.step, values[metric], sign)
            and self._writer is not None
        ):
            self._writer.save_best(state.step, values)

    def _write_samples(self, step: int) -> None:
        if self._samples is not None and self._summaries is not None:
            name = next(iter(self._evaluations))
            self._summaries.write_text(name, step, "samples", self._samples())
            self._summaries.flush()
