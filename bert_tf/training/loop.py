"""`Trainer`: a run from its first step, or from its last checkpoint, to its end."""

import contextlib
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras
import tensorflow as tf

from bert_tf.errors import InputError
from bert_tf.progress import Progress
from bert_tf.training import state
from bert_tf.training.config import RuntimeConfig, TrainingConfig
from bert_tf.training.objective import Objective
from bert_tf.training.optimizer import AdamWeightDecay
from bert_tf.training.state import ModelDescription
from bert_tf.training.step import Stepper, make_strategy
from bert_tf.training.summaries import Summaries

_SECS_IN_GRAPH = 1.0  # the loop comes back to Python about this often


class Trainer:
    """Trains and evaluates an objective in the folder of a run.

    Args:
        make_objective: Builds model and objective; called inside the strategy's scope, with the
            random seed and the precision of `training` set.
        model: What travels with the weights.
        training: What defines the result.
        runtime: How it is computed.
        output_dir: Folder of the run. Nothing is written to it before training begins.
        initialize: Puts initial weights into the objective; called where the folder has no
            checkpoint. None leaves them as they were drawn.
        overwrite: Start anew, whatever the folder holds.

    Raises:
        InputError: The folder's checkpoints are of another model.
    """

    def __init__(
        self,
        make_objective: Callable[[], Objective],
        model: ModelDescription,
        training: TrainingConfig,
        runtime: RuntimeConfig,
        output_dir: str,
        initialize: Callable[[Objective], None] | None = None,
        overwrite: bool = False,
    ) -> None:
        self._model, self._training, self._runtime = model, training, runtime
        self._dir, self._overwrite = output_dir, overwrite
        keras.utils.set_random_seed(training.seed)
        bfloat16 = training.precision == "bfloat16"
        keras.config.set_dtype_policy("mixed_bfloat16" if bfloat16 else "float32")
        strategy = make_strategy(runtime, training.global_batch_size)
        with strategy.scope():
            self.objective = make_objective()
            self._optimizer = AdamWeightDecay(
                self.objective.variables, weight_decay_rate=training.weight_decay_rate
            )
        self._stepper = Stepper(
            self.objective, self._optimizer, training, strategy, jit_compile=runtime.jit_compile
        )
        self._checkpoint = None if overwrite else state.latest(output_dir)
        if self._checkpoint is None and initialize is not None:
            initialize(self.objective)

    def train(
        self,
        dataset: tf.data.Dataset,
        held_out: Mapping[str, Callable[[], tf.data.Dataset]] | None = None,
    ) -> int:
        """Trains to `num_train_steps`, from the newest whole checkpoint if there is one.

        The first signal to stop (Ctrl-C or SIGTERM) saves a checkpoint and ends the process with
        128 + the signal's number.

        Args:
            dataset: Endless batches of `global_batch_size` examples, in an order that follows
                the seed.
            held_out: For each name, what makes the batches to evaluate on.

        Returns:
            Steps done.

        Raises:
            InputError: The folder holds a run with another config.
        """
        if not self._overwrite:
            state.check_run(self._dir, self._model, self._training)
        iterator, step = iter(dataset), 0
        state.begin_run(self._dir, self._model, self._training, self._overwrite)
        if self._checkpoint:
            step = state.restore(self._checkpoint, self._optimizer, iterator)
            print(f"Continuing from step {step} ({self._checkpoint}).", file=sys.stderr)
        summaries = Summaries(self._dir, step)
        saved, total = step, self._training.num_train_steps
        window = _Window(self.objective, self._training.global_batch_size)
        with _stop_signals() as stopped, Progress("training", total, "steps", step) as progress:
            while step < total and not stopped:
                end = min(step + window.pace(self._runtime.iterations_per_loop), total,
                          *self._next_stops(step))  # fmt: skip
                window.add(end - step, *self._run(iterator, step, end))
                progress.update(end - step, f"loss {window.values()['loss']:.4f}")
                step = end
                if step == total or _due(step, self._runtime.log_steps):
                    summaries.write("train", step, window.values())
                    window.clear()
                if held_out and (step == total or _due(step, self._runtime.eval_steps)):
                    self._evaluate_all(held_out, step, summaries)
                if step == total or _due(step, self._runtime.save_checkpoints_steps):
                    self._save(step, iterator, summaries)
                    saved = step
            if step != saved:
                self._save(step, iterator, summaries)
        if stopped:
            again = (
                "the same command without --overwrite" if self._overwrite else "the same command"
            )
            print(f"Stopped at step {step}; {again} goes on from there.", file=sys.stderr)
            sys.exit(128 + stopped[0])
        return step

    def _run(
        self, iterator: Any, step: int, end: int
    ) -> tuple[tuple[dict[str, float], ...], float]:
        """Runs the steps from `step` to `end`.

        Returns:
            What `Stepper.train` returns, as floats, and the seconds it took.

        Raises:
            InputError: A record cannot be read.
        """
        started = time.monotonic()
        ahead = tf.constant(end - step, tf.int64)
        try:
            totals = self._stepper.train(iterator, tf.constant(step, tf.int64), ahead)
        except tf.errors.DataLossError as error:
            newest = state.latest(self._dir)
            raise InputError(
                f"A record cannot be read after step {step}: {error.message}. Make the records "
                f"anew; the newest checkpoint is {newest or 'none'}."
            ) from error
        return tf.nest.map_structure(float, totals), time.monotonic() - started

    def load_newest(self) -> int:
        """Loads the weights of the newest checkpoint, without training.

        Returns:
            Steps done; 0 where there is no checkpoint and the initial weights stay.

        Raises:
            InputError: The checkpoint is of another model, tokenizer or set of labels.
        """
        if self._checkpoint is None:
            return 0
        state.check_model(self._checkpoint, self._model)
        return state.restore_weights(self._checkpoint, self.objective.variables)

    def evaluate(self, dataset: tf.data.Dataset, what: str = "evaluating") -> dict[str, float]:
        """Metrics over all batches."""
        sums: dict[str, float] = {}
        counts: dict[str, float] = {}
        with Progress(what, None, "batches") as progress:
            for batch in dataset:
                batch_sums, batch_counts = self._stepper.evaluate(batch)
                _add(sums, batch_sums)
                _add(counts, batch_counts)
                progress.update(1)
        return self.objective.metrics(sums, counts)

    def _next_stops(self, step: int) -> Iterator[int]:
        """The next step at which the loop must be back in Python, for each reason there is."""
        runtime = self._runtime
        for every in (runtime.log_steps, runtime.save_checkpoints_steps, runtime.eval_steps):
            if every:
                yield (step // every + 1) * every

    def _evaluate_all(
        self,
        held_out: Mapping[str, Callable[[], tf.data.Dataset]],
        step: int,
        summaries: Summaries,
    ) -> None:
        for name, make in held_out.items():
            values = self.evaluate(make(), what=f"evaluating {name}")
            shown = ", ".join(f"{key} {value:.4f}" for key, value in values.items())
            print(f"step {step}, {name}: {shown}", file=sys.stderr)
            summaries.write(name, step, values)

    def _save(self, step: int, iterator: Any, summaries: Summaries) -> None:
        summaries.flush()
        state.save(
            self._dir, step, self._model, self._training, self._runtime, self._optimizer, iterator
        )


class _Window:
    """What the steps since the last entry add up to, and how fast they went."""

    def __init__(self, objective: Objective, batch_size: int) -> None:
        self._objective, self._batch_size = objective, batch_size
        self._steps_per_sec: float | None = None
        self._first = True
        self.clear()

    def clear(self) -> None:
        """Starts anew."""
        self._sums: dict[str, float] = {}
        self._counts: dict[str, float] = {}
        self._norm = self._skipped = self._secs = 0.0
        self._steps = 0

    def pace(self, most: int) -> int:
        """How many steps to run in the graph before coming back to Python."""
        return max(1, min(most, int((self._steps_per_sec or 0) * _SECS_IN_GRAPH)))

    def add(self, steps: int, totals: tuple[dict[str, float], ...], secs: float) -> None:
        """Adds what steps gave, and how long they took."""
        sums, counts, extra = totals
        _add(self._sums, sums)
        _add(self._counts, counts)
        self._norm += extra["gradient_norm"]
        self._skipped += extra["skipped"]
        self._rate = extra["learning_rate"]
        self._steps += steps
        self._secs += secs
        # The first call includes tracing: it says nothing of the pace.
        self._steps_per_sec = None if self._first else steps / secs
        self._first = False

    def values(self) -> dict[str, float]:
        """The metrics of these steps, the last learning rate and the mean gradient norm."""
        return {
            **self._objective.metrics(self._sums, self._counts),
            "learning_rate": self._rate,
            "gradient_norm": self._norm / max(self._steps - self._skipped, 1),
            "skipped_steps": self._skipped,
            "examples_per_sec": self._steps * self._batch_size / self._secs,
        }


def _due(step: int, every: int) -> bool:
    return bool(every) and step % every == 0


def _add(totals: dict[str, float], values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        totals[name] = totals.get(name, 0.0) + float(value)


@contextlib.contextmanager
def _stop_signals() -> Iterator[list[int]]:
    """A list that a signal to stop puts its number into; a second signal acts at once."""
    received: list[int] = []

    def note(number: int, _: Any) -> None:
        received.append(number)
        signal.signal(number, before[number])
        print("Stopping after this step; once more stops at once.", file=sys.stderr)

    numbers = (int(signal.SIGINT), int(signal.SIGTERM))
    before = {number: signal.signal(number, note) for number in numbers}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
