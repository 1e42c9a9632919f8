"""Builds the served model of a checkpoint."""

import dataclasses
import importlib
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from bert_tf.errors import InputError, check_choice
from bert_tf.export.served.base import ServedModel
from bert_tf.export.serving_settings import TASK_TYPES, TASKS, ServingSettings
from bert_tf.pretrained import Pretrained

_LOGGER = logging.getLogger(__name__)


def served_class(task: str) -> type[ServedModel]:
    """Returns the class of the served models of a task, one of `serving_settings.TASKS`."""
    module, name = TASKS[task].split(".")
    return getattr(importlib.import_module(f"bert_tf.export.served.{module}"), name)


def load_served(
    checkpoint: Pretrained, settings: ServingSettings | None = None
) -> ServedModel:
    """Builds the served model of a checkpoint.

    Raises:
        InputError: The checkpoint lacks the head of the task, the vocabulary, or a fact
            of the task, or the model has fewer positions than `max_seq_length`.
    """
    settings = settings or ServingSettings()
    task = settings.task or task_of(checkpoint)
    served: Any = served_class(task)  # the arguments are those of all subclasses
    _check_complete(
        checkpoint, served.default_facts(task, checkpoint.facts), served.head
    )
    return served(checkpoint, settings)


def task_of(checkpoint: Pretrained) -> str:
    """Returns the task, in `serving_settings.TASKS`, that a checkpoint's facts or head show.

    Raises:
        InputError: The checkpoint states a task that bert-tf has no served model for.
    """
    task_type = checkpoint.facts.get("task_type")
    if task_type is not None:
        check_choice(tuple(TASKS), "The fact task_type of an exported model", task_type)
        return str(task_type)
    for task in TASKS:
        head = served_class(task).head
        if head and head[0] in checkpoint.weights:
            return task
    return "classification" if "labels" in checkpoint.facts else "embedding"


def complete_facts(
    checkpoint: Pretrained, task: str, given: Mapping[str, Any]
) -> Pretrained:
    """Adds missing facts of a task to a checkpoint, and logs their values.

    Checkpoints of other programs lack facts such as how texts were encoded. They get
    the defaults of the program that trains models for the task. The facts `given`
    replace those of the checkpoint. A fact that the task does not use raises `InputError`.
    """
    contents = checkpoint.contents
    assert contents is not None
    served = served_class(task)
    facts = {**contents.facts, **given}
    defaults = served.default_facts(task, facts)
    if unknown := given.keys() - defaults.keys():
        name = min(unknown)
        raise InputError(
            f"{name}={given[name]} has no effect for the task {task}. Leave it out."
        )
    _check_complete(checkpoint, (), served.head)
    if task in TASK_TYPES and contents.dialect != "bert-tf":  # else it is a classifier
        defaults["task_type"] = task
    assumed = {n: v for n, v in defaults.items() if v is not None and n not in facts}
    if assumed:
        values = ", ".join(f"{name}={value}" for name, value in assumed.items())
        _LOGGER.info("The checkpoint does not state all settings. Using %s.", values)
    contents = dataclasses.replace(contents, facts={**assumed, **facts})
    return dataclasses.replace(checkpoint, contents=contents)


def _check_complete(
    checkpoint: Pretrained, facts: Iterable[str], weights: tuple[str, ...]
) -> None:
    """Raises `InputError` if a checkpoint lacks one of the facts or weights, or a vocabulary."""
    missing = [name for name in facts if name not in checkpoint.facts]
    missing += [name for name in weights if name not in checkpoint.weights]
    missing += [] if checkpoint.has_vocabulary else ["a vocabulary"]
    if missing:
        raise InputError(
            f"{checkpoint.facts.get('source', 'The checkpoint')} cannot be exported "
            f"for this task: it lacks {', '.join(missing)}. Give "
            f"{'labels, ' * ('labels' in missing)}the output folder of a run of this "
            "task, or another task."
        )
