"""Exports the model of a checkpoint, or a model in memory, in one or both formats."""

import contextlib
import dataclasses
import logging
import operator
import os
import posixpath
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bert_tf import files, json_files
from bert_tf.errors import InputError, check_choice
from bert_tf.export import assets, gate_process, saved_model
from bert_tf.export.job import ExportJob, answer_facts, read_origin, run_folder
from bert_tf.export.layout import EXTRA, has_saved_model, next_version
from bert_tf.export.lite import lite_files
from bert_tf.export.served import DEFAULT_THRESHOLD, task_of
from bert_tf.export.served.load import SERVED_TASKS, complete_facts
from bert_tf.export.settings import FORMATS, TASK_TYPES, ServingSettings
from bert_tf.file_checks import check_file_system, is_inside
from bert_tf.modeling import BertClassifier
from bert_tf.pretrained import check_tokenizer, read_pretrained, save_checkpoint
from bert_tf.tasks.squad.squad_results import THRESHOLD
from bert_tf.tasks.task import DEV_EXAMPLES
from bert_tf.tokenization import BertTokenizer
from bert_tf.training.lifecycle.run_state import STATE_FILE, TRAINING_FILE, run_of

_LOGGER = logging.getLogger(__name__)
_THRESHOLD = "null_score_diff_threshold"
REPORT_FILE = posixpath.join(EXTRA, "export_report.json")
_Writer = Callable[[gate_process.Gate, str], dict[str, Any]]
# The function that checks the input of a format, and returns the one that writes it.
_FORMATS: dict[str, Callable[[ExportJob], _Writer]] = {
    "saved_model": saved_model.prepare,
    "tflite": lite_files.prepare,
}


def export(
    checkpoint: str,
    export_dir: str,
    settings: ServingSettings | None = None,
    dev_data: str | None = None,
    facts: Mapping[str, Any] | None = None,
) -> str:
    """Writes the model of a checkpoint for serving, and checks the outputs of what it wrote.

    Args:
        checkpoint: The output folder of a run, or another path that `load` accepts.
        export_dir: Folder that contains a numbered folder for each version of the model, as
            TensorFlow Serving expects. The new version gets the next number.
        settings: The settings of the export.
        dev_data: A file of labelled examples on which the metric is compared too; see
            `ServedModel.read_examples`. Default: the examples of the dev split that the run stored,
            if it did.
        facts: Facts of the model that replace those of the checkpoint, such as `pair` or
            `doc_stride`; see `save_checkpoint`. A fact that neither states has the default of the
            program that trains models for the task.

    Returns:
        The folder of the new version.

    Raises:
        InputError: The checkpoint cannot be exported for the task; `export_dir` is a file, is
            inside the checkpoint, contains other files and no version or, for TFLite only, contains
            SavedModels; or another program has written a version with the same number.
        GateError: The exported model and the model in memory have different outputs. Nothing is
            written.
    """
    _check_outside(export_dir, checkpoint)
    version = os.path.join(export_dir, str(next_version(export_dir)))
    settings = settings or ServingSettings()
    if settings.format == "tflite" and has_saved_model(export_dir):
        raise InputError(
            f"{export_dir} contains SavedModels, and TensorFlow Serving would try to load a newer "
            "version without one. Give another export_dir, or format both."
        )
    formats = list(_FORMATS) if settings.format == FORMATS[-1] else [settings.format]
    with contextlib.ExitStack() as stack:
        # The processes import TensorFlow while the model is read and converted.
        processes = [stack.enter_context(contextlib.closing(gate_process.Gate())) for _ in formats]
        job = _job(checkpoint, settings, dev_data, os.path.basename(version), facts or {})
        writers = [_FORMATS[name](job) for name in formats]
        # Another export may write this version meanwhile.
        with files.atomic_folder(version, REPORT_FILE, replace=False) as place:
            report: dict[str, Any] = {"task": job.origin.task, **answer_facts(job.origin)}
            for write, process in zip(writers, processes, strict=True):
                report = {**write(process, place), **report}
            assets.write(place, job.origin, report)
            files.write_json(os.path.join(place, REPORT_FILE), report)
    return version


def _check_outside(export_dir: str, checkpoint: str) -> None:
    """Checks that a folder is not in that of a checkpoint, which is replaced as a unit."""
    check_file_system(export_dir)
    if not export_dir:
        raise InputError("Give the path of a folder as export_dir. Received an empty path.")
    if not checkpoint:
        raise InputError("Give the path of a checkpoint. Received an empty path.")
    is_local = "://" not in export_dir
    run = run_of(os.path.realpath(export_dir)) if is_local else None
    if run is not None:
        raise InputError(
            f"{export_dir} belongs to the run in {run}, and would be removed by its training. Give "
            "the path of another folder for the versions."
        )
    is_run, is_step = (
        files.exists(posixpath.join(checkpoint, n)) for n in (TRAINING_FILE, STATE_FILE)
    )
    if is_local and (is_step or not is_run) and is_inside(export_dir, checkpoint):
        raise InputError(
            f"{export_dir} is inside the checkpoint {checkpoint}, and would be removed with it. "
            "Give the path of another folder for the versions."
        )


def _job(
    checkpoint: str,
    settings: ServingSettings,
    dev_data: str | None,
    version: str,
    facts: Mapping[str, Any],
) -> ExportJob:
    """Reads the checkpoint of an export, and the files of its run."""
    found, run = read_pretrained(checkpoint), run_folder(checkpoint)
    task = settings.task or task_of(found)
    _check_effect(settings, task)
    settings = _with_best_threshold(settings, run)
    if task == "span" and settings.null_score_diff_threshold is not None:
        # The facts of the export state the threshold that it uses, not that of the training.
        facts = {**facts, _THRESHOLD: settings.null_score_diff_threshold}
    found = complete_facts(found, task, facts)
    origin = read_origin(run, found, task)
    stored = posixpath.join(run, DEV_EXAMPLES)
    if not dev_data and task == task_of(found) and files.exists(stored):
        dev_data = stored
    return ExportJob(origin, settings, version, dev_data or "")


def _check_effect(settings: ServingSettings, task: str) -> None:
    """Checks that no setting is given that has no effect for the task."""
    others = {name: of for of, each in SERVED_TASKS.items() if of != task for name in each.settings}
    for name, of_task in others.items():
        value = getattr(settings, name)
        if value != getattr(ServingSettings, name):
            raise InputError(
                f"{name}={value} has no effect for the task {task}, only for {of_task}. Leave it "
                "out."
            )


def _with_best_threshold(settings: ServingSettings, run: str) -> ServingSettings:
    """Adds the threshold that run_squad found on the dev split, unless one is given."""
    path = posixpath.join(run, THRESHOLD)
    if settings.null_score_diff_threshold is not None or not files.exists(path):
        return settings
    schema = {_THRESHOLD: json_files.NUMBER}
    found = json_files.read(path, schema, own=True, required=True)
    threshold = found[_THRESHOLD]
    _LOGGER.info("no answer above a score difference of %.4f, from %s.", threshold, path)
    return dataclasses.replace(settings, null_score_diff_threshold=threshold)


def export_model(
    model: BertClassifier,
    tokenizer: BertTokenizer,
    path: str | os.PathLike[str],
    *,
    labels: Sequence[str] | None = None,
    pair: bool = False,
    max_seq_length: int = 128,
    task_type: str = "classification",
    threshold: float = DEFAULT_THRESHOLD,
) -> str:
    """Writes a classifier and its tokenizer as a SavedModel, and checks the SavedModel's outputs.

    The SavedModel has float32 weights and activations, whatever the dtype policy of `model` is. It
    is equal to the SavedModel that `export` writes for a checkpoint with the same weights.

    Args:
        model: The classifier, such as one that `fit` trained.
        tokenizer: The tokenizer that the classifier was trained with.
        path: Folder that contains a numbered folder for each version of the model, as TensorFlow
            Serving expects. The new version gets the next number.
        labels: The labels, in the order of the classifier's outputs; none for regression.
        pair: Whether the classifier takes pairs of texts.
        max_seq_length: Longer texts or pairs are truncated to this number of tokens.
        task_type: "classification" (one label for each text), "multi_label" (any number of labels;
            the model was trained with a sigmoid cross entropy) or "regression" (a score; the model
            has num_labels=1).
        threshold: The lowest probability, between 0 and 1, of the labels that a multi-label
            classifier returns. Ignored for other types.

    Returns:
        The folder of the new version.

    Raises:
        InputError: The model is not a classifier with a number of outputs that suits `task_type`,
            the labels or the vocabulary do not match the model, `max_seq_length` or `threshold` is
            out of range, or `path` is a file or contains other files than versions of a model.
        GateError: The SavedModel and the model have different outputs. Nothing is written.
    """
    check_choice(TASK_TYPES, "task_type", task_type)
    _check_outputs(model, task_type)
    check_tokenizer(tokenizer)
    max_seq_length = operator.index(max_seq_length)  # of NumPy too
    settings = ServingSettings(max_seq_length=max_seq_length)
    facts: dict[str, Any] = {"labels": [] if labels is None else labels}
    if task_type != TASK_TYPES[0] or model.head_facts:  # which may be those of another type
        facts["task_type"] = task_type
    if task_type == "multi_label":
        facts["threshold"] = threshold
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = save_checkpoint(
            model, tokenizer, posixpath.join(folder, "model"),
            **facts, pair=bool(pair), max_seq_length=max_seq_length,
        )  # fmt: skip
        return export(checkpoint, os.fspath(path), settings)


def _check_outputs(model: Any, task_type: str) -> None:
    """Raises `InputError` if `model` is not a classifier with the outputs of the task type."""
    outputs = model.num_labels if isinstance(model, BertClassifier) else 0
    least = {"classification": 2, "multi_label": 1, "regression": 1}[task_type]
    if outputs < least or (task_type == "regression" and outputs != 1):
        number = "1 output" if task_type == "regression" else f"at least {least} labels"
        raise InputError(
            f"export_model exports a BertClassifier with {number} for {task_type}. Received: "
            f"{type(model).__name__} with {getattr(model, 'num_labels', 'no')} labels. Write other "
            "models with save_checkpoint, and export the folder with the program export_model.py."
        )
