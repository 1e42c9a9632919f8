"""The phases of a fine-tuning run: training, evaluation and prediction."""

import dataclasses
import functools
import logging
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.errors import InputError
from bert_tf.modeling.initial_weights import drawn_late
from bert_tf.runs import batches, dev_split, record_files
from bert_tf.runs.class_weights import (
    describe_weights,
    weights_of_records,
    with_label_weights,
)
from bert_tf.runs.distillation import DistillationObjective, Teacher, cache_teacher
from bert_tf.runs.evaluation import SplitEvaluator
from bert_tf.runs.fine_tuning_config import RunSettings
from bert_tf.runs.output_cache import cache_features, freeze_encoder
from bert_tf.runs.run_data import RunData, SplitData
from bert_tf.runs.step_costs import log_costs
from bert_tf.storage import files
from bert_tf.tasks.results import TaskResults, with_baselines
from bert_tf.tasks.task import RESULTS
from bert_tf.training.callbacks import HeldOutData
from bert_tf.training.lifecycle import checkpoint
from bert_tf.training.lifecycle.error_messages import RecordLookup
from bert_tf.training.lifecycle.run_folder import RunFolder
from bert_tf.training.step.objective import Metrics
from bert_tf.training.summaries import write_results
from bert_tf.training.trainer import Trainer, TrainingData
from bert_tf.training.training_config import RuntimeConfig, TrainingConfig

_LOGGER = logging.getLogger(__name__)
# In shorter runs with higher rates, the updates without bias correction can spoil the
# result.
_HIGH_LEARNING_RATE = 5e-5
_FEW_STEPS = 2000
_SHOWN_ERRORS = 20  # in TensorBoard


@dataclasses.dataclass(frozen=True)
class PhaseResults:
    """The results of a run.

    Attributes:
        values: The results on the dev splits, and on test splits whose predictions have
            metrics.
        summary: A sentence with the metric that selects the best weights; "" if there
            is none.
        is_chief: Whether this process is the one that writes files.
    """

    values: Metrics
    summary: str
    is_chief: bool


@dataclasses.dataclass
class FineTuningRun:
    """Starts or resumes training, then evaluates and predicts.

    Attributes:
        settings: The settings of the run. With `features`, only the head is trained, on
            hidden states of the frozen encoder, which are computed once for the train
            and dev splits. The head must then not be the default.
        data: The examples of the task.
        config: The architecture.
        folder: The output folder of the run.
        initialize: Function that assigns pretrained weights to the model of a given
            objective. The function is called only if the run does not resume. None
            keeps the random weights.
        teacher: If not None, the model also learns the outputs of the teacher, which
            are computed once for the train split.

    Raises:
        InputError: An earlier run in the output folder has different settings.
    """

    settings: RunSettings
    data: RunData
    config: BertConfig
    folder: RunFolder
    initialize: Callable[[Any], None] | None = None
    teacher: Teacher | None = None

    def __post_init__(self) -> None:
        settings = self.settings
        if settings.runtime.eval_steps and not settings.phases.evaluate:
            raise InputError(
                "eval_steps evaluates on the dev split: give do_eval=True too."
            )
        self.folder.check_same_run(settings.training if settings.phases.train else None)

        # The model, on its devices, with its initial weights.
        with drawn_late() as leave:
            self._trainer = Trainer(
                self._make_objective,
                self.folder,
                training=settings.training,
                runtime=settings.runtime,
                initialize=self.initialize,
            )
            if self._trainer.resumes:
                leave(self._trainer.objective.variables.values())
        objective: Any = self._trainer.objective
        self._first_step = 0  # known only with a frozen encoder
        if settings.features and (newest := self.folder.checkpoint_to_resume()):
            self._first_step = checkpoint.restore_weights(newest, objective.variables)

        # What makes batches, and evaluates the model on them.
        table = self.data.task.table
        sizes = self.data.sizes
        self._parse = batches.make_parser(table, sizes, self._skips_padding)
        self._evaluator = SplitEvaluator(self.data, objective.outputs, self._parse)
        # Of each evaluated split, by its name.
        self._baselines: dict[str, Metrics] = {}

    def run(self, check_only: bool = False) -> PhaseResults:
        """Runs the phases.

        Args:
            check_only: Whether to stop after all checks, before anything is written.

        Raises:
            InputError: Another run writes to the output folder, or there are no weights
                to evaluate.
        """
        is_chief = self._trainer.is_chief
        step = 0
        if not self.settings.phases.train:
            step = self._trainer.load_result(required=self.initialize is None)
        if check_only:
            self.data.report()
            return PhaseResults({}, "", is_chief)

        with self._trainer.locked_folder():
            values = self._run_phases(step)
            summary = self._conclude(values)
        self.data.report_warnings()  # again, next to the results
        return PhaseResults(values, summary, is_chief)

    def _run_phases(self, step: int) -> Metrics:
        """Returns the results.

        `step` is that of the weights, if the run does not train.
        """
        phases = self.settings.phases
        splits = self.data.splits
        is_chief = self._trainer.is_chief
        if phases.train and is_chief:
            # The result of an earlier run must not be taken for that of this run.
            files.remove(os.path.join(self.folder.path, RESULTS))
        self._write_records()

        if phases.train:
            self._cache_outputs()
            step = self._train()

        # The predictions of a labelled dev split contain its metrics.
        same_splits = phases.predict and splits["dev"] == splits["test"]
        results = self._evaluate(step) if phases.evaluate and not same_splits else {}
        if phases.predict and is_chief:
            results |= self._predict(step)
        return results

    def _make_objective(self, *, seed: int, dtype: str) -> Any:
        """Builds the model and its loss, and the teacher, on the devices of the run."""
        settings = self.settings
        objective = self.data.task.make_objective(
            self.config, seed=seed, dtype=dtype, recompute=settings.runtime.recompute
        )
        if settings.features:
            freeze_encoder(objective.model)
        check_compilation(objective.model, settings.runtime)

        # Batches are cut to their longest sequence, unless shapes must be equal.
        self._skips_padding = (
            settings.runtime.has_dynamic_shapes and not objective.full_length
        )
        objective.model.skip_padding = self._skips_padding
        if not self.teacher:
            return objective

        self._teacher_objective = self.teacher.make_objective(dtype=dtype)
        self._teacher_objective.model.skip_padding = self._skips_padding
        return DistillationObjective(objective, self.teacher.config)

    def _cache_outputs(self) -> None:
        """Computes what the training reads from caches.

        The chief computes it first, as in `_write_records`.
        """
        features = self.settings.features
        training = self.settings.training
        if not (features or self.teacher):
            return
        if not self._trainer.is_chief:
            self._trainer.wait_for_workers()

        # The teacher first: it would read hidden states of the student that exist
        # already.
        if self.teacher:
            (split,) = self.data.splits["train"]
            cache_teacher(
                self.teacher.cache,
                self._teacher_objective,
                split=split,
                parse=self._parse,
                precision=training.precision,
            )
            del self._teacher_objective

        # If all steps are done, the hidden states of the train split are not needed.
        if features:
            needed = [*self.data.splits["dev"]]
            if self._first_step < training.num_train_steps:
                needed += self.data.splits["train"]
            objective: Any = self._trainer.objective
            for split in needed:
                cache_features(
                    features,
                    objective.model,
                    split=split,
                    parse=self._parse,
                    precision=training.precision,
                )
        if self._trainer.is_chief:
            self._trainer.wait_for_workers()

    def _write_records(self) -> None:
        """Moves the records of all splits to the folder.

        The chief moves them first. Other processes then move only those that they do
        not find, because they have a folder of their own.
        """
        if self._trainer.is_chief:
            self.data.write_all_records()
        self._trainer.wait_for_workers()
        self.data.write_all_records()

    def _train(self) -> int:
        """Trains, and returns the step of the final weights."""
        data = self.data
        settings = self.settings
        data.warn_about_equal_sources()
        if settings.features is None:
            advise_on_learning_rate(settings.training)

        # The order of the records.
        (split,) = data.splits["train"]
        records = split.records
        lengths = split.records.index.num_tokens
        order = batches.TrainingOrder(
            lengths if data.task.groups_by_length else np.zeros_like(lengths),
            settings.training.global_batch_size,
            settings.training.seed,
        )

        # The size of a step, by the name of its rate.
        rates: Metrics = {"examples_per_sec": settings.training.global_batch_size}
        if self._trainer.is_chief and not settings.features:
            rates |= log_costs(
                settings, data, config=self.config, trainer=self._trainer, order=order
            )

        parse = self._parse
        if (label_weights := data.label_weights) is not None:
            described = describe_weights(data.task, label_weights)
            _LOGGER.info("class weights: %s.", described)
            parse = with_label_weights(parse, label_weights)

        # The pipeline, and what names the examples of a batch in messages.
        from_step = functools.partial(
            batches.training_batches,
            records,
            order,
            parse,
            weights=weights_of_records(data.task, records),
        )
        describe = functools.partial(
            record_files.describe, split.split.source.name, records
        )
        return self._trainer.train(
            TrainingData(from_step, RecordLookup(describe=describe)),
            self._held_out() if settings.runtime.eval_steps else HeldOutData(),
            rates,
        )

    def _held_out(self) -> HeldOutData:
        """Returns the evaluation on the first dev split, with its report as text."""
        dev = self.data.splits["dev"][0]
        last = list[TaskResults]()

        def evaluate() -> Metrics:
            found, values = self._evaluator.score(dev)
            last[:] = [found]
            return values

        def samples() -> str:
            errors = "".join(last[0].errors()[:_SHOWN_ERRORS])
            parts = [last[0].report(), errors and f"The worst errors:\n{errors}"]
            text = "\n".join(filter(None, parts))
            return f"```\n{text}```" if text else ""

        return HeldOutData(
            evaluations={"eval": evaluate},
            samples=samples,
            image=lambda: last[0].image(),
        )

    def _evaluate(self, step: int) -> Metrics:
        """Evaluates on all dev splits, and writes eval_results.txt and the reports.

        If the first split has a suffix, it is the end of the names of both files.
        """
        results: Metrics = {"global_step": step}
        for number, split in enumerate(self.data.splits["dev"]):
            found, values = self._evaluator.score(split)
            if number == 0 and "loss" in values:
                # google-research/bert writes the loss twice.
                results["loss"] = values["loss"]
            results |= self._named_results(split, found, values)
            if self._trainer.is_chief:
                self._write_report(split, found)
        if self._trainer.is_chief:
            name = self.data.splits["dev"][0].split.with_suffix("eval_results")
            write_results(os.path.join(self.folder.path, f"{name}.txt"), results)
        return results

    def _predict(self, step: int) -> Metrics:
        """Writes the predictions for all test splits.

        Returns:
            The metrics of the splits, if the task computes metrics of predictions. They
            are then also written to eval_results.txt or, for splits of the kind "test",
            to test_results.txt.
        """
        results: Metrics = {}
        for split in self.data.splits["test"]:
            # The metrics of earlier predictions may be those of another file.
            names = [
                f"{split.split.result_name(each)}.txt" for each in ("results", "report")
            ]
            if split.split.kind == "dev":
                names += [RESULTS, _errors_file(split)]
            for name in names:
                files.remove(os.path.join(self.folder.path, name))

            found = self._evaluator.write(split, self.folder.path)
            values = with_baselines(found) if found.scores_predictions else {}
            if not values:
                continue
            results |= self._named_results(split, found, values)
            self._write_report(split, found)

        if results:
            results = {"global_step": step, **results}
            name = f"{self.data.splits['test'][0].split.result_name('results')}.txt"
            write_results(os.path.join(self.folder.path, name), results)
        return results

    def _named_results(
        self, split: SplitData, found: TaskResults, values: Metrics
    ) -> Metrics:
        """Returns the metrics of a split by their names in the results.

        Keeps the metrics of a constant prediction; warns if there is no metric.
        """
        metric = self.data.task.best_by[0]
        reason = found.undefined(metric)
        if reason:
            _LOGGER.warning(
                "warning: %s has %s, so %s is not defined: the value 0 does not show "
                "how good the model is. Give another %s file.",
                split.split.source.name,
                reason,
                metric,
                split.split.kind,
            )
        self._baselines[split.split.name] = {} if reason else found.baseline()
        return {split.split.result_name(name): value for name, value in values.items()}

    def _conclude(self, results: Metrics) -> str:
        """Returns the metric that selects the best weights as a sentence, or "".

        The chief writes examples of the first dev split, and results.json if it has a
        result, with a warning if the model is no better than a constant prediction.
        """
        task = self.data.task
        splits = self.data.splits
        # The split to predict has results if it has labels.
        evaluated = [*splits["dev"], *(splits["test"] if results else ())]
        if not evaluated:
            return ""
        split, (metric, sign) = evaluated[0].split, task.best_by
        writes = self._trainer.is_chief and split.kind == "dev"
        folder = self.folder.path
        if writes:
            dev_split.write_examples(folder, self._evaluator.sampled[split.name])

        name = split.result_name(metric)
        if name not in results:
            return ""
        value = results[name]
        baseline = self._baselines[split.name].get(metric)
        result = dev_split.DevResult(
            task.name,
            name,
            higher_is_better=sign > 0,
            value=value,
            baseline=baseline,
            results=results,
        )
        if writes:
            result.write(folder)
        if writes and result.is_degenerate:
            _LOGGER.warning(
                "warning: the model is no better than a constant prediction: %s %.4f, "
                "and %.4f if all predictions are the same. Try a lower learning rate, "
                "more warm-up or another seed.",
                metric,
                value,
                baseline,
            )
        note = f" ({baseline:.4f} for a constant prediction)" if baseline else ""
        return f"{task.name}: {metric} {value:.4f} on the {split.kind} split{note}."

    def _write_report(self, split: SplitData, found: TaskResults) -> None:
        """Writes the report and, for a dev split, the worst errors."""
        if report := found.report():
            name = f"{split.split.result_name('report')}.txt"
            files.write_text(os.path.join(self.folder.path, name), report)
        if split.split.kind != "dev":
            return
        path = os.path.join(self.folder.path, _errors_file(split))
        files.remove(path)  # that of an earlier evaluation
        if errors := found.errors():
            files.write_text(path, "".join(errors))


def _errors_file(split: SplitData) -> str:
    return f"{split.split.with_suffix('errors')}.jsonl"


def advise_on_learning_rate(training: TrainingConfig) -> None:
    """Logs a line if the rate is probably too high for the released optimizer."""
    if (
        training.optimizer == "adam_weight_decay"
        and training.learning_rate > _HIGH_LEARNING_RATE
        and training.num_train_steps < _FEW_STEPS
    ):
        _LOGGER.info(
            "learning_rate=%g is high for the released optimizer in a run of %s steps: "
            "without bias correction, its first updates are two to five times as large "
            "as those of AdamW. For a rate from another program, use optimizer=adamw "
            "and schedule=linear.",
            training.learning_rate,
            f"{training.num_train_steps:,}",
        )


def check_compilation(model: Any, runtime: RuntimeConfig) -> None:
    """Checks that XLA can compile the head.

    Raises:
        InputError: It cannot: Keras runs LSTM layers on a GPU with cuDNN, which XLA
            lacks.
    """
    layers = getattr(model, "head_layers", None)
    if (
        layers
        and layers.lstms
        and runtime.jit_compile
        and tf.config.list_physical_devices("GPU")
    ):
        raise InputError(
            "jit_compile=True cannot compile the LSTM layers of the head for a GPU. "
            "Give jit_compile=False."
        )
