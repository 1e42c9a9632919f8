"""Checks and compares the facts about the head of a model, such as its labels.

`check_facts` and `check_labels` check facts before they are saved with the weights.
`choose_head` compares the facts of a task and of a checkpoint, and so decides whether
the model of the task gets the head of the checkpoint.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf.conversion.checkpoint_contents import ENCODER, CheckpointContents
from bert_tf.conversion.weight_assignment import classifier_of
from bert_tf.errors import InputError, check_label_names
from bert_tf.head_config import HeadConfig
from bert_tf.modeling import BertEncoder, BertTaskModel, variables_by_name
from bert_tf.storage.weights import EMBEDDING_FACTS

# A run without training always needs the head, so the message must not presume that the
# user gave init_head=True.
_REMEDY = (
    "Give the checkpoint of a model that was fine-tuned for this task, or train a new "
    "head with do_train=True and init_head=False."
)


def check_labels(
    model: BertEncoder | BertTaskModel,
    labels: Sequence[str | int],
    regression: bool = False,
) -> list[str]:
    """Returns labels as a list, after a check that the model has one output per label.

    If `regression` is true, the model must have one output, and `labels` must be empty.
    """
    outputs = getattr(model, "num_labels", None)
    if outputs is None:
        raise InputError(
            f"labels={labels!r} was given, but {type(model).__name__} has no outputs "
            "for labels. Leave out labels."
        )

    # A regression has one output, but no labels.
    if regression:
        if outputs != 1 or len(labels):
            raise InputError(
                "A regression model has one output and no labels: labels must be []. "
                f"Received: {labels!r} for a {type(model).__name__} with "
                f"num_labels={outputs}."
            )
        return []

    if isinstance(labels, str) or len(labels) != outputs:
        raise InputError(
            f"labels must be a list of {outputs} different strings, one for each "
            f"output of the {type(model).__name__}. Received: {labels!r}."
        )

    names = [str(label) for label in labels]
    check_label_names(names, "the model")
    return names


def check_facts(facts: Mapping[str, Any]) -> None:
    """Checks facts whose errors would cause wrong results silently: `threshold`, `embedding`."""
    threshold = facts.get("threshold")
    if threshold is not None and not 0 < threshold < 1:
        raise InputError(
            f"the facts: threshold must be above 0 and below 1. Received: {threshold!r}."
        )

    embedding = facts.get("embedding") or {}
    if unknown := embedding.keys() - EMBEDDING_FACTS:
        raise InputError(
            f"The fact embedding may have the keys {', '.join(EMBEDDING_FACTS)}. "
            f"Received: {min(unknown)}."
        )


@dataclasses.dataclass(frozen=True)
class HeadChoice:
    """The decision whether a model gets the head of a checkpoint or a random head.

    Attributes:
        from_checkpoint: Whether the head is that of the checkpoint. Otherwise, the head
            keeps its random initial weights.
        message: One sentence or more for the log, with the reason.
        is_checked: False if the head is that of the checkpoint, but its labels are
            unknown, so that their order could not be compared with that of the task.
    """

    from_checkpoint: bool
    message: str
    is_checked: bool = True


def choose_head(
    model: BertTaskModel,
    contents: CheckpointContents,
    facts: Mapping[str, Any],
    init_head: bool | None,
) -> HeadChoice:
    """Decides whether a model gets the head of a checkpoint or keeps its random head.

    The head consists of all weights whose names do not start with "bert/".

    Args:
        facts: The facts of the task: `task` (the name) and, if the task has them,
            `labels` (in the order of the model's outputs), `task_type` (by default
            "classification") and `pair` (bool). A fact that the checkpoint does not
            state is not compared, except that a checkpoint of bert-tf without
            `task_type` counts as a classifier.
        init_head: True requires the head of the checkpoint; False gives a random head.
            None gives the head of the checkpoint if task and facts are equal, and else
            a random head, even if the shapes agree.

    Raises:
        InputError: `init_head` is True, and the checkpoint has no head of this kind, or
            its head has other facts (`task` is not compared).
    """
    if init_head is False:
        return _random("init_head=False was given")

    # Whether the checkpoint has all weights of the head.
    variables = variables_by_name(model)
    available = {**contents.arrays, **classifier_of(variables, contents)}
    has_head = all(n in available for n in variables if not n.startswith(ENCODER))
    source = contents.source

    # The head is required: an error if it does not fit.
    if init_head:
        difference = _difference_of_head(contents, facts)
        if not (difference or has_head):
            difference = f"has no weights for a {type(model).__name__}"
        if difference := difference or difference_of_facts(contents, facts):
            raise InputError(
                f"The head of {source} is needed, but it {difference}. {_REMEDY}"
            )

        # The order of unknown labels cannot be compared.
        if _labels(facts) and _known_labels(contents) is None:
            message = (
                f"The head is that of {source}, which does not state its labels. Check "
                f"that their order is {_names(_labels(facts))}."
            )
            return HeadChoice(True, message, is_checked=False)
        return HeadChoice(True, f"The head is that of {source}.")

    # The head is optional: it is used if the facts are equal.
    if not has_head:
        return _random(f"{source} has no weights for it")
    if difference := _difference_of_task(contents, facts) or difference_of_facts(
        contents, facts
    ):
        return _random(f"{source} {difference}")
    equal = (
        "the task and the labels are equal" if _labels(facts) else "the task is equal"
    )
    return HeadChoice(True, f"The head is that of {source}, because {equal}.")


def _random(reason: str) -> HeadChoice:
    return HeadChoice(False, f"The head starts with random weights: {reason}.")


def _difference_of_task(contents: CheckpointContents, facts: Mapping[str, Any]) -> str:
    """Returns why the checkpoint may be of another task than the given one, or ""."""
    own = contents.facts
    if "task" not in own:
        return "does not state its task (init_head=True uses its head)"
    if own["task"] != facts.get("task"):
        return f"is of task {own['task']!r}, not of {facts.get('task')!r}"
    if _labels(facts) and _known_labels(contents) is None:
        return "does not state its labels (init_head=True uses its head)"
    return ""


def difference_of_facts(contents: CheckpointContents, facts: Mapping[str, Any]) -> str:
    """Returns a phrase on the first difference between checkpoint and task, or "".

    The fact `task` is not compared.
    """
    own = contents.facts
    # Other dialects do not store the type.
    own_type = own.get(
        "task_type", "classification" if contents.dialect == "bert-tf" else None
    )
    task_type = facts.get("task_type", "classification")
    if own_type not in (None, task_type):
        return f"is a model for {own_type}, not for {task_type}"

    pairs = own.get("pair"), facts.get("pair")
    if None not in pairs and pairs[0] != pairs[1]:
        return (
            "is a model for pairs of texts, not for single texts"
            if pairs[0]
            else "is a model for single texts, not for pairs of texts"
        )

    if different := _difference_of_head(contents, facts):
        return different

    known, labels = _known_labels(contents), _labels(facts)
    if known is not None and known != labels:
        order = " in another order" if sorted(known) == sorted(labels) else ""
        return (
            f"has the labels {_names(known)}, but the task has {_names(labels)}{order}"
        )
    return ""


def _difference_of_head(contents: CheckpointContents, facts: Mapping[str, Any]) -> str:
    """Returns a phrase on the difference between head layers of checkpoint and task, or ""."""
    own, expected = (
        HeadConfig.from_dict(values.get("head")) for values in (contents.facts, facts)
    )
    return "" if own == expected else f"has {own}, and the task has {expected}"


def _known_labels(contents: CheckpointContents) -> list[str] | None:
    """Returns the labels of a checkpoint, or None if it does not state them.

    The default names of transformers (LABEL_0 and so on) do not count as labels. A
    preset of keras-hub has only these. The name of the single output of a regression
    model of transformers does not count either.
    """
    labels = contents.facts.get("labels")
    if labels is None:
        return None
    default = [f"LABEL_{i}" for i in range(len(labels))]
    if contents.dialect != "bert-tf" and (labels == default or len(labels) == 1):
        return None
    return list(labels)


def _labels(facts: Mapping[str, Any]) -> list[str]:
    return list(facts.get("labels") or ())


def _names(labels: list[str]) -> str:
    return ", ".join(map(str, labels)) or "none"
