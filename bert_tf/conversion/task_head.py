"""`choose_head` decides whether a model of a fine-tuning task gets the head of a checkpoint.

Imports foundation modules and `checkpoint_contents`, and `modeling` inside a function.
"""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bert_tf.conversion.checkpoint_contents import CheckpointContents, classifier_of
from bert_tf.errors import InputError

if TYPE_CHECKING:
    from bert_tf.modeling import BertTaskModel

_ENCODER = "bert/"
_REMEDY = "Leave out init_head to start with a random head."


@dataclasses.dataclass(frozen=True)
class HeadChoice:
    """The source of the weights of a head.

    Attributes:
        from_checkpoint: Whether the head is that of the checkpoint. Otherwise, the head keeps its
            random initial weights.
        message: One sentence or more for the log, with the reason.
        is_checked: False if the head is that of the checkpoint, but the checkpoint does not state
            its labels, so that their order could not be compared with that of the task.
    """

    from_checkpoint: bool
    message: str
    is_checked: bool = True


def choose_head(
    model: "BertTaskModel",
    contents: CheckpointContents,
    facts: Mapping[str, Any],
    init_head: bool | None = None,
) -> HeadChoice:
    """Decides whether a model gets the head of a checkpoint or keeps its random head.

    The head consists of all weights whose names do not start with "bert/".

    Args:
        model: The model of the task.
        contents: The checkpoint.
        facts: The facts of the task: `task` (the name) and, if the task has them, `labels` (list of
            str, in the order of the model's outputs) and `task_type` (str, by default
            "classification").
        init_head: True for the head of the checkpoint, False for a random head. None for the head
            of the checkpoint if the checkpoint is of the same task with the same labels in the same
            order, else a random head, even if the shapes agree.

    Raises:
        InputError: `init_head` is True, and the checkpoint has no head of this kind, or its head
            has other labels or shapes.
    """
    if init_head is False:
        return _random("init_head=False was given")
    arrays, shapes = _head_arrays(model, contents)
    source = contents.source
    if init_head:
        _require_same_head(model, contents, facts, arrays, shapes)
        if _labels(facts) and _known_labels(contents) is None:
            message = (
                f"The head is that of {source}, which does not state its labels. Check that their "
                f"order is {_names(_labels(facts))}."
            )
            return HeadChoice(True, message, is_checked=False)
    elif arrays.keys() != shapes.keys():
        return _random(f"{source} has no weights for it")
    elif difference := _difference(contents.extra, facts):
        return _random(f"{source} {difference}")
    return HeadChoice(True, f"The head is that of {source}.")


def _random(reason: str) -> HeadChoice:
    return HeadChoice(False, f"The head starts with random weights: {reason}.")


def _head_arrays(
    model: "BertTaskModel", contents: CheckpointContents
) -> tuple[dict[str, np.ndarray], dict[str, tuple[int, ...]]]:
    """Returns the checkpoint's arrays for the head by name, and the model's shapes by name."""
    from bert_tf.modeling import variables_by_name

    variables = variables_by_name(model)
    available = {**contents.arrays, **classifier_of(variables, contents)}
    shapes = {n: tuple(v.shape) for n, v in variables.items() if not n.startswith(_ENCODER)}
    return {name: available[name] for name in shapes if name in available}, shapes


def _difference(own: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """Returns the difference between the checkpoint's task and the given task, or ""."""
    if "task" not in own:
        return "does not state its task (init_head=True uses its head)"
    if own["task"] != facts.get("task"):
        return f"is of task {own['task']!r}, not of {facts.get('task')!r}"
    types = [each.get("task_type", "classification") for each in (own, facts)]
    if types[0] != types[1]:
        return f"is a model for {types[0]}, not for {types[1]}"
    if _labels(own) != _labels(facts):
        return f"has the labels {_names(_labels(own))}, but the task has {_names(_labels(facts))}"
    return ""


def _require_same_head(
    model: "BertTaskModel",
    contents: CheckpointContents,
    facts: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    shapes: Mapping[str, tuple[int, ...]],
) -> None:
    """Raises `InputError` if the checkpoint has no head for this model and these labels."""
    start = f"init_head=True was given, but {contents.source} has"
    if arrays.keys() != shapes.keys():
        raise InputError(f"{start} no weights for the head of {type(model).__name__}. {_REMEDY}")
    labels, known = _labels(facts), _known_labels(contents)
    if known is not None and known != labels:
        raise InputError(
            f"{start} the labels {_names(known)}, and the task has {_names(labels)}. They must be "
            f"equal and have the same order. {_REMEDY}"
        )
    for name, array in arrays.items():
        if array.shape != shapes[name]:
            raise InputError(
                f"{start} {name} of the shape {list(array.shape)}, and the model needs "
                f"{list(shapes[name])}. {_REMEDY}"
            )


def _known_labels(contents: CheckpointContents) -> list[str] | None:
    """Returns the labels of a checkpoint, or None if it does not state them.

    The names that transformers uses by default (LABEL_0 and so on) are no labels. A model of
    transformers with one output is a regression model, so the name of that output is no label.
    """
    labels = contents.extra.get("labels")
    if labels is None:
        return None
    default = [f"LABEL_{i}" for i in range(len(labels))]
    if contents.dialect == "hugging_face" and (labels == default or len(labels) == 1):
        return None
    return list(labels)


def _labels(facts: Mapping[str, Any]) -> list[str]:
    return list(facts.get("labels") or ())


def _names(labels: list[str]) -> str:
    return ", ".join(map(str, labels)) or "none"
