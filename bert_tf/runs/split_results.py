"""Evaluates and predicts the splits of a run, and writes their results."""

import dataclasses
import logging
import os

from bert_tf.runs import dev_split
from bert_tf.runs.evaluation import SplitEvaluator
from bert_tf.storage import files, json_files
from bert_tf.tasks.results import TaskResults, with_baselines
from bert_tf.tasks.splits import Split
from bert_tf.tasks.task import BEFORE_TRAINING, RESULTS
from bert_tf.training.step.objective import Metrics
from bert_tf.training.summaries import write_results

_LOGGER = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Scores:
    """The results of splits.

    `values` has the metrics, and the step of the weights, by their names in the files.
    `baselines` has the metrics of a constant prediction, or of the model before the
    training, by the name of the split.
    """

    values: Metrics = dataclasses.field(default_factory=dict)
    baselines: dict[str, Metrics] = dataclasses.field(default_factory=dict)


def evaluate(evaluator: SplitEvaluator, step: int, writes: bool) -> Scores:
    """Evaluates on all dev splits, and writes eval_results.txt and the reports.

    The names of files end with the suffix of the split, if it has one; eval_results is
    that of the first split. If `writes` is False, no files are written.
    """
    folder = evaluator.data.folder
    splits = evaluator.data.splits["dev"]
    values: Metrics = {"global_step": step}
    baselines = {}
    for number, data in enumerate(splits):
        # Another split than the first one is a sample, for use during training only.
        if 0 < number == evaluator.data.task.held_out_split:
            continue
        split = data.split
        results, metrics = evaluator.score(data)
        if number == 0 and "loss" in metrics:
            # google-research/bert writes the loss twice.
            values["loss"] = metrics["loss"]
        values |= _by_result_name(split, metrics)
        baselines[split.name] = _baseline(evaluator, split, results)
        if writes:
            _write_report(folder, split, results)
    if writes:
        name = splits[0].split.with_suffix("eval_results")
        write_results(os.path.join(folder, f"{name}.txt"), values)
    return Scores(values, baselines)


def find_baselines(evaluator: SplitEvaluator, computes: bool, writes: bool) -> None:
    """Sets the metrics of the dev splits before the training, for a task that needs them.

    If `computes` is False, they are those that an earlier part of the run has written
    for the same data.
    """
    data = evaluator.data
    if not data.task.compares_with_initial:
        return
    path = os.path.join(data.folder, BEFORE_TRAINING)
    known = {}
    if computes:
        for split in data.splits["dev"]:
            _, metrics = evaluator.score(split)
            known[split.split.name] = {"data": split.key["source"], "metrics": metrics}
        if writes:
            files.write_json(path, known)
    elif files.exists(path):
        known = json_files.read(path, own=True)

    for split in data.splits["dev"]:
        entry = known.get(split.split.name, {"data": None})
        if entry["data"] == split.key["source"]:
            evaluator.before_training[split.split.name] = entry["metrics"]


def predict(evaluator: SplitEvaluator, step: int) -> Scores:
    """Writes the predictions for all test splits, and returns their metrics, if any.

    The metrics are also written to eval_results.txt or, for splits of the kind "test",
    to test_results.txt.
    """
    folder = evaluator.data.folder
    splits = evaluator.data.splits["test"]
    values: Metrics = {}
    baselines = {}
    for data in splits:
        split = data.split
        # The metrics of earlier predictions may be those of another file.
        names = [f"{split.result_name(stem)}.txt" for stem in ("results", "report")]
        if split.kind == "dev":
            names += [RESULTS, _errors_file(split)]
        for name in names:
            files.remove(os.path.join(folder, name))

        results = evaluator.write(data)
        metrics = with_baselines(results) if results.scores_predictions else {}
        if not metrics:
            continue
        values |= _by_result_name(split, metrics)
        baselines[split.name] = _baseline(evaluator, split, results)
        _write_report(folder, split, results)

    if values:
        values = {"global_step": step, **values}
        name = f"{splits[0].split.result_name('results')}.txt"
        write_results(os.path.join(folder, name), values)
    return Scores(values, baselines)


def conclude(scores: Scores, evaluator: SplitEvaluator, is_chief: bool) -> str:
    """Returns a sentence with the metric that selects the best weights, or "".

    The chief writes examples of the first dev split and, if that has the metric,
    results.json. It warns if the model is no better than a constant prediction.
    """
    data = evaluator.data
    task = data.task
    # The split to predict has results if it has labels.
    evaluated = data.splits["dev"] + (data.splits["test"] if scores.values else [])
    if not evaluated:
        return ""
    split, (metric, sign) = evaluated[0].split, task.best_by
    writes = is_chief and split.kind == "dev"
    if writes and (rows := evaluator.sampled[split.name]):
        dev_split.write_examples(data.folder, rows)

    name = split.result_name(metric)
    if name not in scores.values:
        return ""
    value = scores.values[name]
    baseline = scores.baselines[split.name].get(metric)
    result = dev_split.DevResult(
        task.name,
        name,
        higher_is_better=sign > 0,
        value=value,
        baseline=baseline,
        results=scores.values,
    )
    if writes:
        result.write(data.folder)
        if result.is_degenerate and task.compares_with_initial:
            _LOGGER.warning(
                "warning: the model is no better than before the training: %s %.4f, and "
                "%.4f before. Try a lower learning rate or more data.",
                metric,
                value,
                baseline,
            )
        elif result.is_degenerate:
            _LOGGER.warning(
                "warning: the model is no better than a constant prediction: %s %.4f, "
                "and %.4f if all predictions are the same. Try a lower learning rate, "
                "more warm-up or another seed.",
                metric,
                value,
                baseline,
            )
    of_baseline = (
        "before the training"
        if task.compares_with_initial
        else "for a constant prediction"
    )
    note = f" ({baseline:.4f} {of_baseline})" if baseline else ""
    return f"{task.name}: {metric} {value:.4f} on the {split.kind} split{note}."


def _by_result_name(split: Split, metrics: Metrics) -> Metrics:
    return {split.result_name(name): value for name, value in metrics.items()}


def _baseline(evaluator: SplitEvaluator, split: Split, results: TaskResults) -> Metrics:
    """Returns the metrics to compare with; warns and returns {} if they are undefined."""
    metric = evaluator.data.task.best_by[0]
    reason = results.undefined(metric)
    if not reason:
        return results.baseline()
    _LOGGER.warning(
        "warning: %s has %s, so %s is not defined: the value 0 does not show how good "
        "the model is. Give another %s file.",
        split.source.name,
        reason,
        metric,
        split.kind,
    )
    return {}


def _write_report(folder: str, split: Split, results: TaskResults) -> None:
    """Writes the report and, for a dev split, the worst errors."""
    if report := results.report():
        name = f"{split.result_name('report')}.txt"
        files.write_text(os.path.join(folder, name), report)
    if split.kind != "dev":
        return
    path = os.path.join(folder, _errors_file(split))
    files.remove(path)  # that of an earlier evaluation
    if errors := results.errors():
        files.write_text(path, "".join(errors))


def _errors_file(split: Split) -> str:
    return f"{split.with_suffix('errors')}.jsonl"
