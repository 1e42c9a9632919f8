"""`Trainer`: a run from its first step, or from its last checkpoint, to its end."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras
import tensorflow as tf

from bert_tf.errors import InputError, plain_message
from bert_tf.progress import Progress
from bert_tf.training import state
from bert_tf.training.config import RuntimeConfig, TrainingConfig, as_plain
from bert_tf.training.objective import Objective
from bert_tf.training.optimizer import make_optimizer
from bert_tf.training.peak import device_memory, matmul_flops_per_sec
from bert_tf.training.preflight import Cost, preflight
from bert_tf.training.saving import Saver
from bert_tf.training.state import ModelDescription
from bert_tf.training.step import MOST_BAD_STEPS, Result, Stepper
from bert_tf.training.strategy import Agreement, check_divisible, is_chief, make_strategy
from bert_tf.training.summaries import Profile, Summaries
from bert_tf.training.window import Best, Window, add_to

_POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}
_LOST_WORKERS = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError)
MakeDataset = Callable[[], tf.data.Dataset]


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
        strategy: Of `make_strategy(runtime)`, where it had to be made earlier.

    Attributes:
        objective: What is trained.
        is_chief: Whether this process is the one that writes files.
        replicas: Devices that share a step.
        results: The last held-out evaluation of `train`, by name; empty where there was none.

    Raises:
        InputError: The folder's checkpoints are of another model, or the batch cannot be divided
            among the devices.
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
        strategy: tf.distribute.Strategy | None = None,
    ) -> None:
        self._model, self._training, self._runtime = model, training, runtime
        self._dir, self._overwrite = output_dir, overwrite
        self._strategy = strategy or make_strategy(runtime)
        self.replicas = self._strategy.num_replicas_in_sync
        self.is_chief = is_chief(self._strategy)
        self._agreement = Agreement(self._strategy)
        parts = runtime.gradient_accumulation_steps
        check_divisible(self.replicas, training.global_batch_size, parts)
        keras.utils.set_random_seed(training.seed)
        keras.config.set_dtype_policy(_POLICIES[training.precision])
        with self._strategy.scope():
            self.objective = make_objective()
            depths = self.objective.depths if training.layer_decay != 1 else {}
            self._optimizer = make_optimizer(self.objective.variables, training, depths)
        self._stepper = Stepper(
            self.objective, self._optimizer, training, self._strategy, runtime.jit_compile, parts
        )
        self.results: dict[str, dict[str, float]] = {}
        self._checkpoint = None if overwrite else state.latest(output_dir)
        if self._checkpoint is None and initialize is not None:
            initialize(self.objective)

    def train(
        self,
        dataset: tf.data.Dataset,
        held_out: Mapping[str, MakeDataset] | None = None,
        explain: Callable[[Exception], str | None] = lambda error: None,
        describe: Callable[[Any], str] = lambda origin: "",
        cost: Cost | None = None,
        samples: Callable[[], str] | None = None,
    ) -> int:
        """Trains to `num_train_steps`, from the newest whole checkpoint if there is one.

        The first signal to stop (Ctrl-C or SIGTERM) saves a checkpoint and ends the process with
        128 + the signal's number. With `early_stopping_evals` the weights are the best ones at
        the end; with `ema_decay` they are the average.

        Args:
            dataset: Endless batches of `global_batch_size` examples, in an order that follows
                the seed; each process gets all of each batch.
            held_out: For each name, what makes the batches to evaluate on. The first one says
                which weights are the best.
            explain: Says which record an error of the input pipeline is about, if it knows.
            describe: Says where examples came from, given their `objective.ORIGIN`.
            cost: Of a step. It is said before the first one, and speed is logged by it.
            samples: Makes a text in Markdown to read beside each held-out evaluation.

        Returns:
            The step that the weights are of at the end.

        Raises:
            InputError: The folder holds a run with another config, a record cannot be read, or
                the gradients of `MOST_BAD_STEPS` steps in a row are not finite.
        """
        if not self._overwrite:
            state.check_run(self._dir, self._model, self._training)
        self._explain, self._describe, self._samples = explain, describe, samples
        self._saver = Saver(
            self._dir, self._model, self._training, self._runtime_facts(), self._optimizer,
            self._runtime.keep_checkpoints,
        )  # fmt: skip
        iterator, held_out = iter(dataset), held_out or {}
        if self.is_chief:
            state.begin_run(self._dir, self._model, self._training, self._overwrite)
        if self._checkpoint:
            now = self._restore(iterator)
        else:
            now = state.Position()
            self._optimizer.start_average()
        self._check_same_step(now.step)
        window = Window(self.objective, self._announce(cost))
        number = self._loop(iterator, now, held_out, window)
        if number:
            self._stop(now.step, number)
        return self._finish(now)

    def load_result(self) -> int:
        """Loads the weights that the run in the folder hands on, without training.

        Returns:
            Steps done by then; 0 where there is no checkpoint and the initial weights stay.

        Raises:
            InputError: The checkpoint is of another model, tokenizer or set of labels.
        """
        if self._checkpoint is None:
            return 0
        folder = state.handed_on(self._checkpoint)
        state.check_model(folder, self._model)
        return state.restore_weights(folder, self.objective.variables)

    def evaluate(self, dataset: tf.data.Dataset, what: str = "evaluating") -> dict[str, float]:
        """Metrics over all batches."""
        sums: dict[str, float] = {}
        counts: dict[str, float] = {}
        with Progress(what, None, "batches") as progress:
            for batch in dataset:
                batch_sums, batch_counts = self._stepper.evaluate(batch)
                add_to(sums, batch_sums)
                add_to(counts, batch_counts)
                progress.update(1)
        return self.objective.metrics(sums, counts)

    def _announce(self, cost: Cost | None) -> dict[str, float]:
        """Says what steps cost before the first one; what there is in a step, to tell its speed."""
        per_step: dict[str, float] = {"examples_per_sec": self._training.global_batch_size}
        if cost is None or not self.is_chief:
            return per_step
        precision, recompute = self._training.precision, self._runtime.recompute
        peak = matmul_flops_per_sec(precision)
        device, available = device_memory()
        said = preflight(cost, device, available, peak, self.replicas, precision, recompute)
        print(said, file=sys.stderr)
        share = cost.flops / (self.replicas * peak)
        return {**per_step, "tokens_per_sec": cost.tokens, "share_of_peak": share}

    def _loop(
        self,
        iterator: Any,
        now: state.Position,
        held_out: Mapping[str, MakeDataset],
        window: Window,
    ) -> int:
        """Goes on to the end of the run; the signal that stopped it, or 0."""
        summaries = Summaries(self._dir, now.step)
        if self.is_chief:
            hyperparameters = {**as_plain(self._training), "model": self._model.config}
            summaries.write_hyperparameters(hyperparameters)
        steps = self._training.num_train_steps
        saved, total, number = now.step, min(steps, self._runtime.stop_at_step or steps), 0
        profile = Profile(self._dir, self._runtime.profile_steps if self.is_chief else None)
        progress = Progress("training", total, "steps", now.step)
        with _stop_signals() as signals, profile, progress, self._saver:
            while now.step < total and not self._is_stale(now.best):
                self._saver.check()
                number, pace = self._agree(signals, window)
                if number:
                    break
                profile.at(now.step)
                end = min(now.step + pace, total, *self._next_stops(now.step))
                started = time.monotonic()
                result = self._run(iterator, now, end)
                window.add(result, time.monotonic() - started)
                progress.update(result.steps, f"loss {window.values()['loss']:.4f}")
                now.step, now.bad_steps = now.step + result.steps, result.bad_in_a_row
                last = now.step == total
                if last or _due(now.step, self._runtime.log_steps):
                    self._report(summaries, "train", now.step, window.values())
                    window.clear()
                if held_out and (last or _due(now.step, self._runtime.eval_steps)):
                    self._evaluate_all(held_out, now, summaries)
                if last or _due(now.step, self._runtime.save_checkpoints_steps):
                    self._save(now, iterator, summaries)
                    saved = now.step
            if window.steps and not number:  # it stopped early
                self._report(summaries, "train", now.step, window.values())
            if now.step != saved:
                self._save(now, iterator, summaries)
        return number

    def _is_stale(self, best: Best) -> bool:
        most = self._runtime.early_stopping_evals
        return bool(most) and best.evals_since >= most

    def _agree(self, signals: list[int], window: Window) -> tuple[int, int]:
        """The signal to stop, 0 for none, and how many steps to do; the same for all processes."""
        number, pace = (signals or [0])[0], window.pace(self._runtime.iterations_per_loop)
        stop, agreed = self._agreement.total([number, pace if self.is_chief else 0])
        return (number or int(signal.SIGTERM)) if stop else 0, round(agreed)

    def _check_same_step(self, step: int) -> None:
        workers, total = self._agreement.total([1, step])
        if round(total) != round(workers) * step:
            raise InputError(
                f"The workers do not see the same checkpoints in {self._dir}: this one is at step "
                f"{step}. Give an --output_dir on storage that all of them share."
            )

    def _run(self, iterator: Any, now: state.Position, end: int) -> Result:
        """Runs the steps up to `end`.

        Raises:
            InputError: A record cannot be read, a worker is gone, or too many steps were bad.
        """
        run = self._stepper.train_checked if self._runtime.debug_nans else self._stepper.train
        with self._explained(now.step):
            result = run(iterator, now.step, end - now.step, now.bad_steps)
        if not result.why_bad and result.bad_in_a_row < MOST_BAD_STEPS:
            return result
        origin = self._describe(result.bad_origin) if len(result.bad_origin) else ""
        step = f"step {now.step + result.steps}{origin and ', of '}{origin}"
        if result.why_bad:
            raise InputError(
                f"The gradient is not finite: {result.why_bad}. It was in {step}. {self._newest()}"
            )
        raise InputError(
            f"The gradients of {MOST_BAD_STEPS} steps in a row are not finite, the last of them "
            f"{step}. {self._newest()} Try --debug_nans=true to find the layer, or a lower "
            "--learning_rate."
        )

    @contextlib.contextmanager
    def _explained(self, step: int) -> Iterator[None]:
        """Turns errors of the input pipeline and of lost workers into lines that teach."""
        try:
            yield
        # A message of TensorFlow's that holds bytes of a record is no UTF-8.
        except (
            tf.errors.DataLossError,
            tf.errors.InvalidArgumentError,
            UnicodeDecodeError,
        ) as error:
            known = self._explain(error)
            if known is None and not isinstance(error, tf.errors.DataLossError):
                raise
            reason = known or f"A record cannot be read: {plain_message(error)}."
            raise InputError(f"After step {step}: {reason} {self._newest()}") from error
        except _LOST_WORKERS as error:
            raise InputError(
                f"After step {step}: another worker is gone ({plain_message(error)[:200]}). "
                f"Start all of them again to go on. {self._newest()}"
            ) from error

    def _newest(self) -> str:
        with contextlib.suppress(InputError):
            self._saver.wait()
        return f"The newest checkpoint is {state.latest(self._dir) or 'none'}."

    def _next_stops(self, step: int) -> Iterator[int]:
        """The next step at which the loop must be back in Python, for each reason there is."""
        runtime = self._runtime
        for every in (runtime.log_steps, runtime.save_checkpoints_steps, runtime.eval_steps):
            if every:
                yield (step // every + 1) * every
        yield from (at for at in runtime.profile_steps or () if at > step)

    def _evaluate_all(
        self, held_out: Mapping[str, MakeDataset], now: state.Position, summaries: Summaries
    ) -> None:
        metric, sign = self.objective.best_by
        with self._optimizer.averaged(), self._explained(now.step):
            if self._samples and self.is_chief:
                kind = next(iter(held_out))
                summaries.write_text(kind, now.step, "samples", self._samples())
            for name, make in held_out.items():
                values = self.evaluate(make(), what=f"evaluating {name}")
                shown = ", ".join(f"{key} {value:.4f}" for key, value in values.items())
                print(f"step {now.step}, {name}: {shown}", file=sys.stderr)
                self._report(summaries, name, now.step, values)
                self.results[name] = values
        values = self.results[next(iter(held_out))]
        if now.best.update(now.step, values[metric], sign) and self.is_chief:
            self._saver.save_best(now.step, values)

    def _report(
        self, summaries: Summaries, kind: str, step: int, values: Mapping[str, float]
    ) -> None:
        if self.is_chief:
            summaries.write(kind, step, values)
            summaries.flush()  # a run that breaks off must not take along what it said

    def _save(self, now: state.Position, iterator: Any, summaries: Summaries) -> None:
        if self.is_chief:
            self._saver.save(now, iterator)

    def _runtime_facts(self) -> dict[str, Any]:
        return {**as_plain(self._runtime), "replicas": self.replicas}

    def _restore(self, iterator: Any) -> state.Position:
        assert self._checkpoint
        now = state.restore(self._checkpoint, self._optimizer, iterator)
        print(f"Continuing from step {now.step} ({self._checkpoint}).", file=sys.stderr)
        for name, before, after in state.changed_layout(self._checkpoint, self._runtime_facts()):
            print(
                f"warning: it was computed with {name}={before}, now it is {after}: the same but "
                "for float error and dropout masks.",
                file=sys.stderr,
            )
        return now

    def _stop(self, step: int, number: int) -> None:
        again = "the same command without --overwrite" if self._overwrite else "the same command"
        print(f"Stopped at step {step}; {again} goes on from there.", file=sys.stderr)
        sys.exit(128 + number)

    def _finish(self, now: state.Position) -> int:
        """Leaves the weights in the model that the run is to hand on; the step they are of."""
        if not self._runtime.early_stopping_evals or now.best.value is None:
            self._optimizer.take_average()
            return now.step
        self._agreement.total([0])  # the first worker has written them
        best = os.path.join(self._dir, state.BEST)
        step = state.restore_weights(best, self.objective.variables)
        self.results.clear()  # They are of other weights.
        print(f"The best weights are those of step {step}.", file=sys.stderr)
        return step


def _due(step: int, every: int) -> bool:
    return bool(every) and step % every == 0


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
