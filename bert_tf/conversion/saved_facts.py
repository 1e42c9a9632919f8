"""Checks the facts, such as labels, that are saved with the weights of a model."""

from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf.errors import InputError, check_label_names
from bert_tf.modeling import BertEncoder, BertTaskModel
from bert_tf.storage import json_files
from bert_tf.storage.weights import EMBEDDING_SCHEMA, FACTS_SCHEMA


def check_labels(
    model: BertEncoder | BertTaskModel,
    labels: Sequence[str | int],
    regression: bool = False,
) -> list[str]:
    """Returns labels as a list, after a check that the model has one output for each label.

    Args:
        model: The model.
        labels: A list of str or int; empty for regression.
        regression: Whether the model computes a score, and thus has one output but no
            labels.

    Raises:
        InputError: The numbers differ, labels are repeated, a regression has labels or
            several outputs, or the model has no outputs for labels.
    """
    outputs = getattr(model, "num_labels", None)
    if outputs is None:
        raise InputError(
            f"labels={labels!r} was given, but {type(model).__name__} has no outputs "
            "for labels. Leave out labels."
        )
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
    """Checks the types of the facts that the programs use.

    Raises:
        InputError: A fact has another type.
    """
    json_files.check(dict(facts), FACTS_SCHEMA, "the facts")
    embedding = facts.get("embedding") or {}
    json_files.check(embedding, EMBEDDING_SCHEMA, "the fact embedding")
    if unknown := embedding.keys() - EMBEDDING_SCHEMA:
        raise InputError(
            f"The fact embedding may have the keys {', '.join(EMBEDDING_SCHEMA)}. "
            f"Received: {min(unknown)}."
        )
