"""Exports the model of a checkpoint, or a model in memory, in one or more formats."""

import contextlib
import dataclasses
import logging
import os
import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf.errors import InputError, Path, plain
from bert_tf.export import (
    assets,
    check,
    dev_examples,
    file_checks,
    saved_model_writing,
)
from bert_tf.export.formats import FILE_FORMATS
from bert_tf.export.job import ExportJob, read_results, read_training
from bert_tf.export.layout import REPORT_FILE, has_saved_model, next_version
from bert_tf.export.served import task_of
from bert_tf.export.served.loading import complete_facts, served_class
from bert_tf.export.serving_settings import TASKS, ServingSettings
from bert_tf.modeling import BertEncoder, BertTaskModel
from bert_tf.pretrained import Pretrained, read_pretrained, save_checkpoint
from bert_tf.storage import files, json_files
from bert_tf.tasks.squad.squad_results import THRESHOLD
from bert_tf.tasks.task import DEV_EXAMPLES
from bert_tf.tokenization import BertTokenizer
from bert_tf.training.lifecycle.run_state import run_of

_LOGGER = logging.getLogger(__name__)
_THRESHOLD = "null_score_diff_threshold"


def export(
    checkpoint: str,
    export_dir: str,
    settings: ServingSettings | None = None,
    dev_data: str | None = None,
    facts: Mapping[str, Any] | None = None,
    example_texts: int = 0,
) -> str:
    """Writes the model of a checkpoint for serving, and checks its outputs.

    Returns the folder of the new version.

    Args:
        checkpoint: The output folder of a run, or another path that `load` accepts.
        export_dir: Folder that contains a numbered folder for each version of the
            model, as TensorFlow Serving expects. The new version gets the next number.
        settings: Default: `ServingSettings()`, a SavedModel with float32 weights.
        dev_data: A file of labelled examples, on which the metrics of the exported
            model and of the model in memory are compared; see
            `ServedModel.read_examples`. Default: the examples of the dev split, if the
            run stored them.
        facts: Facts of the model, such as `pair` or `doc_stride`, that replace those of
            the checkpoint; see `save_checkpoint`. A fact that is missing in both has
            the default of the program that trains models for the task.
        example_texts: The number of examples of the dev split, spread over the labels,
            that the export contains for the page of `demo.py`, with texts and labels.
            By default, an export contains no texts of the data.

    Raises:
        InputError: The checkpoint cannot be exported for the task; `export_dir` is a
            file, is in the `best` or `checkpoints` folder of a run, or contains files
            but no version of a model; `export_dir` contains SavedModels, and this
            export would not write one; another program has written a version with the
            same number; or `example_texts` is given, and the run stored no dev examples
            for the task.
        ExportCheckError: The outputs of the exported model differ too much from those
            of the model in memory. Nothing is written.
    """
    # Raise an error for a folder that a new version would damage.
    version = os.path.join(export_dir, str(next_version(export_dir)))
    _check_belongs_to_no_run(export_dir)
    settings = settings or ServingSettings()
    formats = settings.formats
    is_lite = settings.format == "tflite"
    if "saved_model" not in formats and has_saved_model(export_dir):
        raise InputError(
            f"{export_dir} contains SavedModels, and TensorFlow Serving would try to "
            "load a newer version without one. Give another "
            f"export_dir{' or format both' * is_lite}."
        )

    with contextlib.ExitStack() as stack:
        # One process checks each format. The processes import TensorFlow while this
        # one reads and converts the model.
        processes = [
            stack.enter_context(contextlib.closing(check.CheckProcess()))
            for _ in formats
        ]

        # Read everything, before anything is written.
        job = _job(
            checkpoint,
            settings,
            dev_data=dev_data,
            version=os.path.basename(version),
            facts=facts or {},
            example_texts=example_texts,
        )
        writers = [
            file_checks.prepare(name, job)
            if name in FILE_FORMATS
            else saved_model_writing.prepare(job)
            for name in formats
        ]

        # Another export may write the same version meanwhile; then this raises an error.
        with files.atomic_folder(version, REPORT_FILE, replace=False) as folder:
            report: dict[str, Any] = {"task": job.task, "run": job.run}
            report |= job.answer_facts
            for write, process in zip(writers, processes, strict=True):
                report = write(process, folder) | report
            assets.write(folder, job, report)
            files.write_json(os.path.join(folder, REPORT_FILE), report)
    return version


def _check_belongs_to_no_run(export_dir: str) -> None:
    run = None if "://" in export_dir else run_of(os.path.realpath(export_dir))
    if run is not None:
        raise InputError(
            f"{export_dir} belongs to the run in {run}, and would be removed by its "
            "training. Give the path of another folder for the versions."
        )


def _job(
    checkpoint: str,
    settings: ServingSettings,
    dev_data: str | None,
    version: str,
    facts: Mapping[str, Any],
    example_texts: int = 0,
) -> ExportJob:
    """Reads the checkpoint to export, and files of the training run that wrote it."""
    pretrained = read_pretrained(checkpoint)
    run = run_of(checkpoint) or checkpoint
    task = settings.task or task_of(pretrained)
    _check_effect(settings, task)

    settings = _with_best_threshold(settings, run)
    if task == "span" and settings.null_score_diff_threshold is not None:
        # The facts of the export state its own threshold, not the threshold of the
        # training.
        facts = {**facts, _THRESHOLD: settings.null_score_diff_threshold}
    pretrained = complete_facts(pretrained, task, facts)
    _warn_about_vectors(settings, pretrained, task)

    # The examples that the run stored are used if the run trained for the same task.
    stored = posixpath.join(run, DEV_EXAMPLES)
    has_examples = files.exists(stored)
    is_of_task = has_examples and task == task_of(pretrained)
    if is_of_task:
        dev_data = dev_data or stored
    elif example_texts:
        raise InputError(
            f"example_texts={example_texts} needs a run for the task {task} with the file "
            f"{DEV_EXAMPLES}, which an evaluation writes (--do_eval). Leave it out, or "
            "evaluate the run."
        )

    return ExportJob(
        pretrained,
        task,
        settings=settings,
        version=version,
        dev_data=dev_data or "",
        dev_examples=files.sha256_of_file(stored) if has_examples else "",
        results=read_results(run, pretrained, task),
        training=read_training(run),
        run=os.path.basename(os.path.abspath(run)),
        examples=dev_examples.read(stored, example_texts) if example_texts else (),
    )


def _check_effect(settings: ServingSettings, task: str) -> None:
    """Raises `InputError` if a setting is given that has an effect only for another task."""
    for of_task in TASKS:
        for name in served_class(of_task).own_settings:
            value = getattr(settings, name)
            if of_task != task and value != getattr(ServingSettings, name):
                raise InputError(
                    f"{name}={value} has no effect for the task {task}, only for "
                    f"{of_task}. Leave it out."
                )


def _warn_about_vectors(
    settings: ServingSettings, checkpoint: Pretrained, task: str
) -> None:
    """Logs warnings if vectors have a size, or texts no prompt, unlike in the training."""
    if task != "embedding":
        return
    embedding = checkpoint.facts.get("embedding") or {}
    prompts = [name for name, prompt in embedding.get("prompts", {}).items() if prompt]
    is_chosen = settings.prompt_name is not None or "default_prompt_name" in embedding
    if prompts and not is_chosen:
        _LOGGER.warning(
            "warning: the model was trained with the prompts %s, and the export puts no "
            "prompt before texts. For one of them, give prompt_name=%s.",
            ", ".join(prompts),
            prompts[0],
        )

    dimensions, trained = settings.dimensions, embedding.get("dimensions")
    full = checkpoint.config.hidden_size
    if dimensions and trained and dimensions not in (*trained, full):
        _LOGGER.warning(
            "warning: dimensions=%d is not a size that the model was trained for. These "
            "are %s.",
            dimensions,
            ", ".join(map(str, trained)),
        )


def _with_best_threshold(settings: ServingSettings, run: str) -> ServingSettings:
    """Adds the null-score threshold that run_squad found, unless `settings` has one."""
    path = posixpath.join(run, THRESHOLD)
    if settings.null_score_diff_threshold is not None or not files.exists(path):
        return settings
    schema = {_THRESHOLD: json_files.NUMBER}
    threshold = json_files.read(path, schema, own=True, required=True)[_THRESHOLD]
    _LOGGER.info(
        "no answer above a score difference of %.4f, from %s.", threshold, path
    )
    return dataclasses.replace(settings, null_score_diff_threshold=threshold)


def export_model(
    model: BertEncoder | BertTaskModel,
    tokenizer: BertTokenizer,
    path: Path,
    *,
    labels: Sequence[str] | None = None,
    max_seq_length: int | None = None,
    task_type: str | None = None,
    threshold: float | None = None,
    settings: ServingSettings | None = None,
    dev_data: Path | None = None,
    **facts: Any,
) -> str:
    """Writes a model and its tokenizer for serving, and checks the outputs.

    The exported files equal those that `export` writes for a checkpoint with the same
    weights. A SavedModel has float32 weights and activations, unless
    `settings.precision` is another dtype; the dtype policy of `model` has no effect. If
    the head of the model was loaded from a checkpoint, the facts of that checkpoint,
    such as the labels, are kept.

    Args:
        model: Any model of `bert_tf`, such as one that `fit` trained. The head
            determines the task: labels of texts, tags of words, answers to questions,
            multiple choice, tokens for [MASK] or, without a head, vectors of texts.
        tokenizer: The tokenizer that the model was trained with.
        path: Folder that contains a numbered folder for each version of the model, as
            TensorFlow Serving expects. The new version gets the next number.
        labels: The labels or tags, in the order of the model's outputs; none for
            regression.
        max_seq_length: Longer texts are truncated to this number of tokens, or split
            into windows. Default: as in the program that trains models for the task.
        task_type: Of a `BertClassifier`: "classification" (one label for each text, the
            default), "multi_label" (any number of labels; the model was trained with a
            sigmoid cross entropy) or "regression" (a score; the model has
            num_labels=1).
        threshold: The lowest probability, between 0 and 1, of the labels that a
            multi-label classifier returns.
        settings: The other settings, such as `ServingSettings(format="tflite")`.
        dev_data: As in `export`.
        **facts: The `facts` of `export`: for a classifier `pair` (bool, whether it
            takes two texts), for tags `scheme`, and for answers to questions the
            attributes of `WindowSettings` and `AnswerSettings`.

    Returns:
        The folder of the new version.

    Raises:
        InputError: `export` raises it, the labels or the vocabulary do not match the
            model, or a value is out of range or has no effect for the task.
        ExportCheckError: The outputs of the exported model differ too much from those
            of `model`. Nothing is written.
    """
    settings = settings or ServingSettings()
    if task_type == "regression" and labels is None:
        labels = []
    if max_seq_length is not None:
        settings = dataclasses.replace(settings, max_seq_length=max_seq_length)
    stored: dict[str, Any] = {
        "labels": labels,
        "task_type": task_type,
        "threshold": threshold,
        "max_seq_length": max_seq_length,
    }
    stored = {name: value for name, value in stored.items() if value is not None}
    with files.temporary_folder() as folder:
        checkpoint = save_checkpoint(
            model, tokenizer, posixpath.join(folder, type(model).__name__), **stored
        )
        return export(
            checkpoint,
            os.fspath(path),
            settings=settings,
            dev_data=plain(dev_data),
            facts=plain(facts),
        )
