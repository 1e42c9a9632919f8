"""The phases of a fine-tuning run: training, evaluation and prediction."""

import dataclasses
import functools
import logging
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bert_tf import files, json_files
from bert_tf.config import BertConfig
from bert_tf.errors import InputError
from bert_tf.tasks import (
    batches,
    dev_examples,
    dev_result,
    record_files,
    run_checks,
    step_costs,
)
from bert_tf.tasks.class_weights import describe_weights, weights_of_records, with_label_weights
from bert_tf.tasks.distillation import DistillationObjective, Teacher, cache_teacher
from bert_tf.tasks.evaluation import SplitEvaluator
from bert_tf.tasks.feature_cache import FeatureSettings, cache_features
from bert_tf.tasks.head_objective import HeadObjective
from bert_tf.tasks.record_files import RecordFile
from bert_tf.tasks.results import TaskResults, with_baselines
from bert_tf.tasks.task import RESULTS
from bert_tf.tasks.task_data import SplitData, TaskData
from bert_tf.training.callbacks.evaluation import Evaluate, HeldOutData
from bert_tf.training.config import RunPhases, RuntimeConfig, TrainingConfig
from bert_tf.training.lifecycle import restoring
from bert_tf.training.lifecycle.failures import RecordLookup
from bert_tf.training.lifecycle.run_folder import RunFolder
from bert_tf.training.lifecycle.run_state import TRAINING_FILE
from bert_tf.training.reporting.step_cost import log_step_cost
from bert_tf.training.reporting.summaries import write_results
from bert_tf.training.trainer import Trainer, TrainingData

_LOGGER = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class PhaseResults:
    """The results of a run.

    Attributes:
        values: The results on the dev splits, and on test splits whose predictions have metrics.
        summary: A sentence with the metric that selects the best weights; "" if there is none.
        is_chief: Whether this process is the one that writes files.
    """

    values: dict[str, float]
    summary: str
    is_chief: bool


def run_phases(
    phases: RunPhases,
    data: TaskData,
    config: BertConfig,
    folder: RunFolder,
    training: TrainingConfig,
    runtime: RuntimeConfig,
    initialize: Callable[[Any], None] | None = None,
    features: FeatureSettings | None = None,
    teacher: Teacher | None = None,
    check_only: bool = False,
) -> PhaseResults:
    """Starts or resumes training, then evaluates and predicts.

    Args:
        phases: The phases to run.
        data: The examples of the task.
        config: The architecture.
        folder: The output folder of the run.
        training: The settings that affect the trained weights.
        runtime: The other settings, such as devices, logging and checkpoints.
        initialize: Function that assigns pretrained weights to the model of a given objective. The
            function is called only if the run does not resume. None keeps the random weights.
        features: If not None, only the head is trained, on hidden states of the frozen encoder,
            which are computed once for the train and dev splits. The head must not be the default.
        teacher: If not None, the model also learns the outputs of the teacher, which are computed
            once for the train split.
        check_only: Whether to stop after all checks, before anything is written.

    Raises:
        InputError: An earlier run in the output folder has different settings, another run writes
            to it, or there are no weights to evaluate.
    """
    if runtime.eval_steps and not phases.evaluate:
        raise InputError("eval_steps evaluates on the dev split: give do_eval=True too.")
    folder.check_same_run(training if phases.train else None)
    run = _Run(data, config, folder, training, runtime, initialize, features, teacher)
    step = 0 if phases.train else run.trainer.load_result(required=initialize is None)
    if check_only:
        data.report()
        return PhaseResults({}, "", run.trainer.is_chief)
    with run.trainer.locked_folder():
        values = run.execute(phases, step)
    return PhaseResults(values, run.summary(values), run.trainer.is_chief)


class _Run:
    """The phases of a run, with the objects that they share; see `run_phases`."""

    def __init__(
        self,
        data: TaskData,
        config: BertConfig,
        folder: RunFolder,
        training: TrainingConfig,
        runtime: RuntimeConfig,
        initialize: Callable[[Any], None] | None,
        features: FeatureSettings | None,
        teacher: Teacher | None,
    ) -> None:
        self._data, self._config, self._folder = data, config, folder.path
        self._training, self._runtime, self._features = training, runtime, features
        self._teacher = teacher
        self.trainer = Trainer(self._make_objective, folder, training, runtime, initialize)
        self._first_step = 0  # known only with a frozen encoder
        if features and (checkpoint := folder.checkpoint_to_resume()):
            variables = self.trainer.objective.variables
            self._first_step = restoring.restore_weights(checkpoint, variables)
        objective: Any = self.trainer.objective
        self._parse = batches.make_parser(data.task.table, data.sizes, self._skips_padding)
        self._evaluator = SplitEvaluator(data, objective.outputs, self._parse)
        self._baseline: dict[str, float] = {}  # of the first evaluated split

    def execute(self, phases: RunPhases, step: int) -> dict[str, float]:
        """Executes the phases; returns the results.

        Args:
            phases: The phases to run.
            step: The step of the weights, if the run does not train.
        """
        splits, is_chief = self._data.splits, self.trainer.is_chief
        if not phases.train:
            self._data.warn_about_equal_sources(self._train_split_of_folder())
        if phases.train and is_chief:
            # The result of an earlier run must not be taken for that of this run.
            files.remove(os.path.join(self._folder, RESULTS))
        self.write_records()
        if phases.train and (self._features or self._teacher):
            self.cache_outputs()
        step = self.train() if phases.train else step
        # The predictions of a labelled dev split contain its metrics.
        same_splits = phases.predict and splits["dev"] == splits["test"]
        results = self.evaluate(step) if phases.evaluate and not same_splits else {}
        if phases.predict and is_chief:
            self._remove_old_metrics(is_evaluated=bool(results))
            results |= self.predict(step)
        # A test split has results if it has labels.
        labelled = splits["dev"] or (splits["test"] if results else ())
        if labelled and is_chief:
            dev_examples.write(self._folder, self._evaluator.sampled[labelled[0].split.name])
            self.write_result(results)
        return results

    def _train_split_of_folder(self) -> Any:
        """Returns the fingerprint of the train split of the run in the folder, or None."""
        path = os.path.join(self._folder, TRAINING_FILE)
        settings = json_files.read(path, own=True) if files.exists(path) else {}
        data = settings.get("data")
        return data.get("train_split") if isinstance(data, dict) else None

    def _remove_old_metrics(self, is_evaluated: bool) -> None:
        """Removes the metrics of earlier predictions, which may be those of other files."""
        for split in (each.split for each in self._data.splits["test"]):
            if split.kind == "test" or not is_evaluated:
                names = [f"{split.result_name(each)}.txt" for each in ("results", "report")]
                for name in [*names, *([RESULTS] if split.kind != "test" else [])]:
                    files.remove(os.path.join(self._folder, name))

    def _make_objective(self, *, seed: int, dtype: str) -> HeadObjective:
        objective: Any = self._data.task.make_objective(
            self._config, seed=seed, dtype=dtype, recompute=self._runtime.recompute
        )
        if self._features:
            objective.model.bert.trainable = False
        run_checks.check_compilation(objective.model, self._runtime)
        self._skips_padding = self._runtime.has_dynamic_shapes and not objective.full_length
        objective.model.skip_padding = self._skips_padding
        if not self._teacher:
            return objective
        self._teacher_objective = self._teacher.make_objective(dtype=dtype)
        self._teacher_objective.model.skip_padding = self._skips_padding
        wrapped: Any = DistillationObjective(objective, self._teacher.config)
        return wrapped

    def cache_outputs(self) -> None:
        """Computes what the training reads from caches.

        The chief computes it first, as in `write_records`. If all steps are done, the hidden states
        of the train split are not needed.
        """
        if not self.trainer.is_chief:
            self.trainer.wait_for_workers()
        if self._teacher:  # it would read hidden states of the student that exist already
            (split,) = self._data.splits["train"]
            cache_teacher(self._teacher.cache, self._teacher_objective, *self._of_records(split))
            del self._teacher_objective
        if self._features:
            needed = [*self._data.splits["dev"]]
            if self._first_step < self._training.num_train_steps:
                needed += self._data.splits["train"]
            objective: Any = self.trainer.objective
            for split in needed:
                cache_features(self._features, objective.model, *self._of_records(split))
        if self.trainer.is_chief:
            self.trainer.wait_for_workers()

    def _of_records(self, split: SplitData) -> tuple[str, RecordFile, Any, dict[str, Any]]:
        """Returns what a cache needs of a split: its name, its records with a loader, and a key."""
        records, key = self._data.records(split), dict(split.key)
        load = batches.make_loader(records, self._parse)
        return split.split.name, records, load, {**key, "precision": self._training.precision}

    def write_records(self) -> None:
        """Moves the records of all splits to the folder.

        The chief moves them first. Other processes then move only those that they do not find,
        because they have a folder of their own.
        """
        if self.trainer.is_chief:
            self._data.write_all_records()
        self.trainer.wait_for_workers()
        self._data.write_all_records()

    def train(self) -> int:
        """Trains, and returns the step of the final weights."""
        data, training = self._data, self._training
        data.warn_about_equal_sources()
        if self._features is None:
            run_checks.advise_on_learning_rate(training)
        (split,) = data.splits["train"]
        records = data.records(split)
        if not len(records):
            raise InputError(
                f"The examples in {split.split.source.name} give no records, because all contexts "
                "are empty. Give examples with text."
            )
        lengths = records.index.num_tokens
        order = batches.TrainingOrder(
            lengths if data.task.groups_by_length else np.zeros_like(lengths),
            training.global_batch_size, training.seed,
        )  # fmt: skip
        held_out = self._held_out() if self._runtime.eval_steps else HeldOutData()
        per_step: dict[str, float] = {"examples_per_sec": training.global_batch_size}
        if self.trainer.is_chief:
            length = float(data.config.max_seq_length)
            if self._skips_padding:
                length = step_costs.mean_length(order, records, training)
            if self._features is None:
                cost = step_costs.step_cost(
                    data, self._config, training, self._runtime, self.trainer, length
                )
                per_step |= log_step_cost(cost, self.trainer.replicas)
        parse, weights = self._parse, data.label_weights
        if weights is not None:
            _LOGGER.info("class weights: %s.", describe_weights(data.task, weights))
            parse = with_label_weights(parse, weights)
        from_step = functools.partial(
            batches.training_batches, records, order, parse,
            weights=weights_of_records(data.task, records),
        )  # fmt: skip
        lookup = RecordLookup(
            describe=functools.partial(record_files.describe, split.split.source.name, records)
        )
        return self.trainer.train(TrainingData(from_step, lookup), held_out, per_step)

    def _held_out(self) -> HeldOutData:
        """Returns the evaluation on the first dev split, with its report as text."""
        dev, reports = self._data.splits["dev"][0], [""]

        def evaluate() -> dict[str, float]:
            found, values = self._evaluator.score(dev)
            reports[0] = found.report()
            return values

        evaluations: dict[str, Evaluate] = {"eval": evaluate}
        return HeldOutData(
            evaluations=evaluations, samples=lambda: f"```\n{reports[0]}```" if reports[0] else ""
        )

    def evaluate(self, step: int) -> dict[str, float]:
        """Evaluates on all dev splits, and writes eval_results.txt and the reports.

        If the first split has a suffix, it is the end of the names of both files.
        """
        results: dict[str, float] = {"global_step": step}
        for number, split in enumerate(self._data.splits["dev"]):
            found, values = self._evaluator.score(split)
            if number == 0 and "loss" in values:
                results["loss"] = values["loss"]  # google-research/bert writes the loss twice
            self._baseline = self._baseline or found.baseline()
            with_suffix = split.split.with_suffix
            results |= {with_suffix(f"eval_{name}"): value for name, value in values.items()}
            if self.trainer.is_chief:
                self._write_report(split, found)
        if self.trainer.is_chief:
            name = self._data.splits["dev"][0].split.with_suffix("eval_results")
            write_results(os.path.join(self._folder, f"{name}.txt"), results)
        return results

    def predict(self, step: int) -> dict[str, float]:
        """Writes the predictions for all test splits.

        Returns:
            The metrics of the splits, if the task computes metrics of predictions. They are then
            also written to eval_results.txt or, for splits of the kind "test", to test_results.txt.
        """
        results: dict[str, float] = {}
        for split in self._data.splits["test"]:
            found = self._evaluator.write(split, self._folder)
            values = with_baselines(found) if found.scores_predictions else {}
            if not values:
                continue
            self._baseline = self._baseline or found.baseline()
            if split.split.kind == "test":  # the report of a dev split is that of the evaluation
                self._write_report(split, found)
            results |= {split.split.result_name(name): value for name, value in values.items()}
        if results:
            results = {"global_step": step, **results}
            name = f"{self._data.splits['test'][0].split.result_name('results')}.txt"
            write_results(os.path.join(self._folder, name), results)
        return results

    def write_result(self, results: dict[str, float]) -> None:
        """Writes results.json, if the results are those of a dev split.

        Logs a warning if the model is no better than a constant prediction.
        """
        task, splits = self._data.task, self._data.splits
        split, metric = (splits["dev"] or splits["test"])[0].split, task.best_by[0]
        result = dev_result.make_result(
            task, split.with_suffix(f"eval_{metric}"), results, self._baseline
        )
        if result is None:
            return
        result.write(self._folder)
        if result.is_degenerate:
            _LOGGER.warning(
                "warning: the model is no better than a constant prediction: %s %.4f, and %.4f "
                "if all predictions are the same. Try a lower learning rate, more warm-up or "
                "another seed.", metric, result.value, result.baseline,
            )  # fmt: skip

    def summary(self, results: Mapping[str, float]) -> str:
        """Returns the metric that selects the best weights as a sentence, or ""."""
        task, splits = self._data.task, self._data.splits
        metric, evaluated = task.best_by[0], [*splits["dev"], *splits["test"]]
        name = evaluated[0].split.result_name(metric) if evaluated else ""
        if name not in results:
            return ""
        kind = evaluated[0].split.kind
        baseline = self._baseline.get(metric) if kind == "dev" else None
        note = f" ({baseline:.4f} for a constant prediction)" if baseline else ""
        return f"{task.name}: {metric} {results[name]:.4f} on the {kind} split{note}."

    def _write_report(self, split: SplitData, found: TaskResults) -> None:
        if report := found.report():
            path = os.path.join(self._folder, f"{split.split.result_name('report')}.txt")
            files.write_text(path, report)
