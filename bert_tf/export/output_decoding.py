"""Converts outputs of exported models to predictions, and predictions to text, for each task."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

# The order of the values in a prediction. The outputs of a SavedModel have no defined
# order.
_VALUES = (
    "answer",
    "start",
    "end",
    "score",
    "probability",
    "no_answer",
    "null_score_diff",
    "num_tokens",
)
# The outputs with one value for each word of a text; then, by their key in a prediction,
# the outputs with one value for each entity.
_OF_WORDS = ("words", "tags", "probabilities", "start", "end")
_OF_ENTITIES = {
    "text": "entities",
    "type": "entity_types",
    "start": "entity_start",
    "end": "entity_end",
}

Prediction = dict[str, Any]
# The separators of several labels, with their names; no label has a tab.
SEPARATORS = {",": "comma", ";": "semicolon", "|": "vertical bar", "\t": "tab"}


def separator_of(labels: Collection[str]) -> str:
    """Returns the first of `SEPARATORS` that no label contains."""
    return next(
        separator
        for separator in SEPARATORS
        if not any(separator in label for label in labels)
    )


def decode(outputs: Mapping[str, Any], facts: Mapping[str, Any]) -> Prediction:
    """Converts the outputs for one text, pair or list of texts to Python values.

    The arrays have no batch dimension. `facts` must have `labels` for a classifier, and
    also `threshold` for a multi-label classifier.
    """
    # The names of the outputs tell the tasks apart.
    if "tokens" in outputs:
        pairs = zip(outputs["tokens"], outputs["probabilities"].tolist(), strict=True)
        masks = [dict(zip(map(_plain, t), p, strict=True)) for t, p in pairs]
        num_masks = int(outputs["num_masks"])
        return {"masks": [{"probabilities": mask} for mask in masks[:num_masks]]}
    if "ranking" in outputs:
        return _of_choices(outputs)
    if "entities" in outputs:
        return _of_words(outputs)
    if "tags" in outputs:
        return {
            name: list(map(_plain, outputs[name])) for name in ("tags", "probabilities")
        }
    if "probabilities" not in outputs:
        positions = {name: position for position, name in enumerate(_VALUES)}
        names = sorted(outputs, key=lambda name: positions.get(name, 0))
        return {name: _plain(outputs[name]) for name in names}

    # Classifiers: the labels with their probabilities, best first.
    values = outputs["probabilities"]
    labels = facts["labels"]
    order = np.argsort(-values, kind="stable")
    probabilities = {labels[index]: float(values[index]) for index in order.tolist()}
    if "labels" in outputs:
        reached = values >= facts["threshold"]
        chosen = [label for label, is_in in zip(labels, reached, strict=True) if is_in]
        return {"labels": chosen, "probabilities": probabilities}
    label = next(iter(probabilities))
    return {
        "label": label,
        "probability": probabilities[label],
        "probabilities": probabilities,
    }


def as_columns(prediction: Prediction) -> list[str]:
    """Returns the texts that show a prediction in the columns of one row of a table."""
    # Answers that are texts, with their probability.
    for name in ("label", "choice", "answer"):
        if name in prediction:
            return [prediction[name], f"{prediction['probability']:.4f}"]

    # Lists of texts.
    if "labels" in prediction:
        separator = separator_of(prediction["probabilities"])
        return [separator.join(prediction["labels"])]
    if "entities" in prediction:
        entities = prediction["entities"]
        return [" ".join(f"[{each['type']} {each['text']}]" for each in entities)]
    if "masks" in prediction:
        masks = prediction["masks"]
        best = [next(iter(mask["probabilities"].items())) for mask in masks]
        return [f"{token} {probability:.4f}" for token, probability in best]

    # Numbers.
    if "embedding" in prediction:
        return [" ".join(f"{value:.6f}" for value in prediction["embedding"])]
    if "score" not in prediction:
        return [str(v) for name, v in prediction.items() if name != "truncated"]
    score = [f"{prediction['score']:.4f}"]
    if "num_tokens" in prediction:
        score.append(str(prediction["num_tokens"]))
    return score


def _of_words(outputs: Mapping[str, Any]) -> Prediction:
    """Decodes the outputs of a model of named entities, and removes their padding."""
    num_words, num_entities = (
        np.count_nonzero(outputs[name] != b"") for name in ("words", "entities")
    )
    entities = [
        {key: _plain(outputs[name][index]) for key, name in _OF_ENTITIES.items()}
        for index in range(num_entities)
    ]
    words = {name: list(map(_plain, outputs[name][:num_words])) for name in _OF_WORDS}
    return {"entities": entities, **words}


def _of_choices(outputs: Mapping[str, Any]) -> Prediction:
    """Decodes the outputs of a model of multiple choice."""
    index = int(outputs["index"])
    probabilities = outputs["probabilities"].tolist()
    return {
        "choice": _plain(outputs["choice"]),
        "index": index,
        "probability": probabilities[index] if 0 <= index < len(probabilities) else 0.0,
        "probabilities": probabilities,
        "ranking": outputs["ranking"].tolist(),
    }


def _plain(value: Any) -> Any:
    """Converts one value of a NumPy array to a Python value; leaves vectors as they are."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value.item() if np.ndim(value) == 0 else value
