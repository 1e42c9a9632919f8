"""`Trainer`: trains and evaluates an objective in the folder of a run."""

import contextlib
import dataclasses
import functools
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import tensorflow as tf

from bert_tf.errors import InputError, TrainingInterrupted
from bert_tf.progress import Progress
from bert_tf.training.backend import make_devices, make_step_runner
from bert_tf.training.callbacks import (
    BadSteps,
    Callback,
    CheckpointSaving,
    Evaluate,
    HeldOutData,
    HeldOutEvaluation,
    MetricLogging,
    Profiling,
)
from bert_tf.training.lifecycle import checkpoint
from bert_tf.training.lifecycle.checkpoint import CheckpointWriter
from bert_tf.training.lifecycle.error_messages import (
    NO_LOOKUP,
    READ_ERRORS,
    FailureMessages,
    RecordLookup,
)
from bert_tf.training.lifecycle.run_folder import RunFolder
from bert_tf.training.lifecycle.run_state import RunState
from bert_tf.training.loop import Pacing, RunSteps, TrainingClock, run_loop
from bert_tf.training.mixed_precision import dtype_policy
from bert_tf.training.step.objective import (
    Metrics,
    Objective,
    add_to_totals,
    loss_and_metrics,
)
from bert_tf.training.step.step_result import StepResult
from bert_tf.training.stop_signals import record_stop_signals
from bert_tf.training.summaries import MetricAccumulator, Summaries
from bert_tf.training.training_config import RuntimeConfig, TrainingConfig

_LOGGER = logging.getLogger(__name__)
ObjectiveT = TypeVar("ObjectiveT", bound=Objective)


@dataclasses.dataclass(frozen=True)
class TrainingData:
    """The input pipeline of training.

    Attributes:
        batches: Infinite dataset of global batches, in an order that depends on the
            seed. Checkpoints contain the position of the dataset's iterator in the
            first process. Alternatively, a function that takes the number of finished
            steps and returns the dataset of the remaining batches; checkpoints then
            contain no position.
        records: Finds the record that caused an error, or the records in a batch.
        is_part: Whether `batches` has only the part `Trainer.part_of_batch()` of each
            global batch. It must then be possible to restore the saved position of one
            part in the dataset of any other part.
    """

    batches: tf.data.Dataset | Callable[[int], tf.data.Dataset]
    records: RecordLookup = NO_LOOKUP
    is_part: bool = False


class Trainer(Generic[ObjectiveT]):
    """Trains and evaluates an objective in the folder of a run.

    `Trainer` changes no global state: no random seed, dtype policy, signal handler or
    logger. Two settings are exceptions, see `RuntimeConfig.deterministic` and
    `RuntimeConfig.stop_on_signals`. It logs warnings and, at level INFO, reports; the
    loggers are children of the logger "bert_tf".

    Args:
        make_objective: Builds model and objective from the keyword arguments `seed` and
            `dtype`. `Trainer` calls it inside the strategy's scope, with the seed that
            `training` specifies and its Keras dtype policy: "float32", "mixed_bfloat16"
            or "mixed_float16". The initial weights must depend on `seed` only, so that
            they are the same in each process of the run and in each run with the same
            seed.
        folder: The folder of the run. Nothing is written before training begins.
        training: The settings that define the result.
        runtime: The settings of the computation.
        initialize: Assigns initial weights to the objective's variables; called if the
            folder has no checkpoint to resume from. If None, the initial weights are
            random.

    Attributes:
        objective: The objective, with the present weights.
        training: The argument `training`.
        devices: The devices and processes of the run.
        is_chief: Whether this process is the one that writes files.
        replicas: The number of devices among which each global batch is divided.
        resumes: Whether the folder has a checkpoint to resume from. `train` and
            `load_result` load its weights; the constructor does not.
        results: The metrics of the last held-out evaluation in `train`, by the name of
            the data set; empty if `train` did not evaluate the weights that the
            objective now has.

    Raises:
        InputError: The devices do not exist, the batch does not divide evenly among
            them, or `time_budget_secs` and `deterministic` are both given.

    Example:
        import keras
        import tensorflow as tf
        from keras import ops
        from bert_tf import (
            RunFolder, RuntimeConfig, Trainer, TrainingConfig, TrainingData
        )

        class Line:  # an `Objective`: learns the slope of y = 3x
            depths, best_by = {"slope": 0}, ("loss", -1)

            def __init__(self, seed, dtype):
                slope = keras.random.normal([], seed=seed)
                self.variables = {"slope": keras.Variable(slope)}

            def counts(self, batch):
                return {"examples": ops.cast(ops.size(batch["x"]), "float32")}

            def sums(self, batch, training, seed=None):
                errors = self.variables["slope"] * batch["x"] - batch["y"]
                return {"squares": ops.sum(errors**2)}

            def loss(self, sums, counts):
                return sums["squares"] / counts["examples"]

            def metrics(self, sums, counts):
                return {}

        x = tf.linspace(0.0, 1.0, 64)
        dataset = tf.data.Dataset.from_tensor_slices({"x": x, "y": 3 * x})
        data = TrainingData(dataset.repeat().batch(32))
        training = TrainingConfig(
            num_train_steps=300, num_warmup_steps=10, learning_rate=0.1
        )
        trainer = Trainer(Line, RunFolder("line_output"), training, RuntimeConfig())
        trainer.train(data)
        slope = float(trainer.objective.variables["slope"])
    """

    def __init__(
        self,
        make_objective: Callable[..., ObjectiveT],
        folder: RunFolder,
        training: TrainingConfig,
        runtime: RuntimeConfig,
        initialize: Callable[[ObjectiveT], None] | None = None,
    ) -> None:
        if training.time_budget_secs and runtime.deterministic:
            raise InputError(
                "time_budget_secs contradicts deterministic=True: the number of steps "
                "in a time differs from run to run. Give one of them."
            )
        self._folder = folder
        self.training = training
        self._runtime = runtime
        self.devices = make_devices(runtime)
        self.is_chief = self.devices.is_chief
        self.replicas = self.devices.replicas
        dtype = dtype_policy(training.precision)

        with self.devices.scope():
            self.objective = make_objective(seed=training.seed, dtype=dtype)
        self._runner = make_step_runner(self.objective, training, runtime, self.devices)
        self.results: dict[str, Metrics] = {}

        # With a time budget, the clock ends training, and not a number of steps.
        last_step = (
            sys.maxsize if training.time_budget_secs else training.num_train_steps
        )
        self._last_step = min(last_step, runtime.stop_at_step or last_step)

        # The weights are those of the newest checkpoint, or else the initial ones.
        self._found_checkpoints = folder.checkpoints()
        self._checkpoint = self._known_latest = folder.checkpoint_to_resume()
        self.resumes = self._checkpoint is not None
        if not self.resumes and initialize is not None:
            initialize(self.objective)

    def train(
        self,
        data: TrainingData,
        held_out: HeldOutData | None = None,
        per_step: Metrics | None = None,
    ) -> int:
        """Trains to `num_train_steps`, or until the time budget is used up.

        Training resumes from the newest valid checkpoint if there is one.

        At the end, the objective has the best weights if `early_stopping_evals` is set,
        else the average of the weights if `ema_decay` is set. After any exception, also
        KeyboardInterrupt, a new `Trainer` with the same arguments (but without
        `overwrite`) resumes from the newest checkpoint. This method can be called once.

        Args:
            data: The training data.
            held_out: The data for evaluations during training and at its end.
            per_step: Maps the name of each logged rate, such as `tokens_per_sec`, to
                the quantity that one step processes, such as the number of tokens.

        Returns:
            The number of steps after which the objective had its final weights.

        Raises:
            InputError: The folder contains a run with other settings, a record cannot
                be read, the gradients of several steps in a row are not finite, or
                another run trains in the folder or has trained in it since this object
                was created.
            TrainingInterrupted: `stop_on_signals` is True, and the process received
                SIGINT, SIGTERM or SIGHUP. A checkpoint was saved.
        """
        self._folder.check_same_run(self.training)
        if self.is_chief:
            _LOGGER.info("backend: %s", self.devices.kind)
        stop_on_signals = self._runtime.stop_on_signals
        with record_stop_signals(stop_on_signals) as signals, self.locked_folder():
            # Another run, or an earlier call, may have written checkpoints meanwhile.
            if self.is_chief and self._folder.checkpoints() != self._found_checkpoints:
                raise InputError(
                    f"Checkpoints were written in {self._folder.path} after this run "
                    "started. Start it again, or create a new Trainer, to resume from "
                    "the newest checkpoint."
                )
            signal_number, state = self._run(
                data, held_out or HeldOutData(), per_step or {}, signals
            )
        if signal_number:
            raise TrainingInterrupted(signal_number, state.step, self._folder.overwrite)
        return self._select_final_weights(state)

    def part_of_batch(self) -> tuple[int, int] | None:
        """Returns (n, N) if this process may read only part n of N of each batch.

        Returns None if it must read complete batches: in a new run of one process, and
        if the run resumes from a checkpoint with the position of complete batches.
        """
        count = self.devices.count
        divided = (
            checkpoint.has_parts(self._checkpoint) if self._checkpoint else count > 1
        )
        return (self.devices.index, count) if divided else None

    def locked_folder(self) -> contextlib.AbstractContextManager[None]:
        """Returns a context that locks the folder if this is the chief; see `RunFolder.locked`."""
        return self._folder.locked() if self.is_chief else contextlib.nullcontext()

    def _run(
        self,
        data: TrainingData,
        held_out: HeldOutData,
        per_step: Metrics,
        signals: Sequence[int],
    ) -> tuple[int, RunState]:
        """Trains to the last step or to a stop signal; returns the signal (or 0) and the state."""
        self._known_latest = None  # training writes newer checkpoints

        # Checkpoints contain the position of an iterator. A function from the step to
        # the remaining batches needs no position.
        batches = data.batches
        iterator = None if callable(batches) else iter(batches)

        if self.is_chief:
            self._folder.start_run(self.training)
        settings = {
            **self._runtime.to_dict(),
            **checkpoint.backend_settings(),
            "replicas": self.replicas,
            checkpoint.PARTS: data.is_part,
        }
        with CheckpointWriter(
            self._folder,
            self._runner.optimizer,
            training=self.training,
            runtime_settings=settings,
            keep_checkpoints=self._runtime.keep_checkpoints,
        ) as writer:
            state = checkpoint.restore_or_start(
                self._checkpoint, self._runner.optimizer, iterator, settings
            )
            self.devices.check_equal(state.step, self._folder.path)

            failures = FailureMessages(
                data.records, self._folder, writer, self.devices.connection_errors
            )
            remaining = iter(batches(state.step)) if callable(batches) else iterator
            signal_number = run_loop(
                self._steps_with_messages(remaining, failures, data.is_part),
                state,
                last_step=self._last_step,
                callbacks=self._callbacks(
                    state,
                    held_out,
                    per_step=per_step,
                    writer=writer,
                    failures=failures,
                    iterator=iterator,
                ),
                pacing=Pacing(self._runtime.iterations_per_loop),
                workers=self.devices,
                signals=signals,
                clock=TrainingClock(bool(self.training.time_budget_secs)),
            )
        return signal_number, state

    def _callbacks(
        self,
        state: RunState,
        held_out: HeldOutData,
        per_step: Metrics,
        writer: CheckpointWriter,
        failures: FailureMessages,
        iterator: Any,
    ) -> list[Callback]:
        """Returns the callbacks of the training loop; only those of the chief write files."""
        runtime = self._runtime
        is_chief = self.is_chief
        budget = self.training.time_budget_secs
        summaries = None
        if is_chief:
            summaries = Summaries(self._folder.path, state.step)
            settings = self._folder.settings(self.training)
            model = self._folder.metadata.config
            summaries.write_hyperparameters({**settings, "model": model})

        total = None if budget else self._last_step
        logging = MetricLogging(
            MetricAccumulator(self.objective, per_step, state.unlogged),
            summaries,
            progress=Progress("training", total, "steps", state.step),
            time_budget_secs=budget,
            every_steps=runtime.log_steps,
        )
        evaluation = HeldOutEvaluation(
            self._evaluations(held_out),
            held_out,
            best_by=self.objective.best_by,
            summaries=summaries,
            writer=writer if is_chief else None,
            failures=failures,
            max_evals=runtime.early_stopping_evals,
            every_steps=runtime.eval_steps,
            results=self.results,
        )
        callbacks: list[Callback] = [logging, BadSteps(failures), evaluation]
        if is_chief:
            callbacks += [
                CheckpointSaving(
                    writer, iterator, state.step, runtime.save_checkpoints_steps
                ),
                Profiling(self.devices, self._folder.path, runtime.profile_steps),
            ]
        return callbacks

    def load_result(self, required: bool = False) -> int:
        """Loads the final weights of the run from the folder.

        The final weights are the best weights if the run used early stopping, else the
        weights of the newest checkpoint.

        Args:
            required: Whether to raise an error if there is no checkpoint.

        Returns:
            The step after which the weights were saved. Without a checkpoint, the
            objective keeps its initial weights, and the result is 0.

        Raises:
            InputError: The checkpoint is of a different model, tokenizer or set of
                labels, or `required` is True and there is no checkpoint.
        """
        folder = self._folder.best_or_latest_checkpoint(self._known_latest)
        if folder is None:
            if not required:
                return 0
            raise InputError(
                f"There are no weights to use: {self._folder.path} has no checkpoint. "
                "Train first, or give init_checkpoint."
            )
        self._folder.check_metadata(folder)
        return checkpoint.restore_weights(folder, self.objective.variables)

    def evaluate(
        self,
        batches: tf.data.Dataset,
        description: str = "evaluating",
        records: RecordLookup = NO_LOOKUP,
    ) -> Metrics:
        """Returns loss and metrics over all batches.

        Args:
            batches: The batches.
            description: Text for the progress display.
            records: Finds the record that caused an error of the input pipeline.

        Raises:
            InputError: A record cannot be read; `records` provides the message.
        """
        sums: Metrics = {}
        counts: Metrics = {}
        try:
            with Progress(description, None, "batches") as progress:
                for batch in batches:
                    batch_sums, batch_counts = self._runner.evaluate(batch)
                    add_to_totals(sums, batch_sums)
                    add_to_totals(counts, batch_counts)
                    progress.update(1)

        except READ_ERRORS as error:
            reason = records.explain_error()
            if reason is None:
                raise
            raise InputError(reason) from error
        return loss_and_metrics(self.objective, sums, counts)

    def _evaluations(self, held_out: HeldOutData) -> dict[str, Evaluate]:
        """Returns the function of each data set; it evaluates the averaged weights, if any."""

        def on_dataset(
            name: str, make_dataset: Callable[[], tf.data.Dataset]
        ) -> Evaluate:
            return lambda: self.evaluate(make_dataset(), f"evaluating {name}")

        def on_average(evaluate: Evaluate) -> Metrics:
            with self._runner.optimizer.averaged():
                return evaluate()

        datasets = {
            name: on_dataset(name, make) for name, make in held_out.datasets.items()
        }
        return {
            name: functools.partial(on_average, evaluate)
            for name, evaluate in {**datasets, **held_out.evaluations}.items()
        }

    @contextlib.contextmanager
    def chief_first(self) -> Iterator[None]:
        """Executes a block in the chief, and after its end in all other processes."""
        if not self.is_chief:
            self._wait_for_workers()
        yield
        if self.is_chief:
            self._wait_for_workers()

    def _wait_for_workers(self) -> None:
        """Waits until all processes of the run have called this method."""
        self.devices.sum([0])

    def _steps_with_messages(
        self, iterator: Any, failures: FailureMessages, is_part: bool
    ) -> RunSteps:
        """Returns a function that runs steps and explains their errors with `failures`."""

        def run_steps(state: RunState, steps: int) -> StepResult:
            with failures.explain(state.step):
                return self._runner.train(
                    iterator,
                    state.step,
                    steps=steps,
                    bad_in_a_row=state.bad_steps,
                    elapsed_secs=state.elapsed_secs,
                    parts=self.devices.count if is_part else 1,
                )

        return run_steps

    def _select_final_weights(self, state: RunState) -> int:
        """Assigns the final weights that `train` describes, and returns their step."""
        if not self._runtime.early_stopping_evals or state.best.value is None:
            self._runner.optimizer.replace_weights_by_average()
            return state.step
        self._wait_for_workers()  # The chief has then written the best weights.
        step = checkpoint.restore_weights(self._folder.best, self.objective.variables)
        # The last evaluation was of the last weights, not of the best weights.
        self.results.clear()
        _LOGGER.info("The best weights are those of step %d.", step)
        return step
