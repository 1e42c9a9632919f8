"""The accuracies of a model that always predicts the most frequent token and label."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

_LOGGER = logging.getLogger(__name__)
_ANSWERS = {"masked_lm": "token", "next_sentence": "next-sentence label"}


def majority_accuracies(
    objective: Any, batches: Iterable[Mapping[str, Any]]
) -> dict[str, float]:
    """Returns the share of the most frequent token to predict, and of the most frequent label.

    Args:
        objective: A `PretrainingObjective`, which defines the tokens to predict, and
            whether there are next-sentence labels.
        batches: The batches of the evaluation.

    Returns:
        `masked_lm_majority_accuracy` if there are tokens to predict, and
        `next_sentence_majority_accuracy` if the objective predicts next sentences.
    """
    counts = {
        "masked_lm": np.zeros(objective.model.config.vocab_size),
        "next_sentence": np.zeros(2),
    }
    for batch in batches:
        targets = objective.targets(batch)
        _count(
            counts["masked_lm"], targets["masked_lm_ids"], targets["masked_lm_weights"]
        )
        if objective.predicts_next_sentence:
            _count(counts["next_sentence"], batch["next_sentence_labels"])
    return {
        f"{name}_majority_accuracy": float(count.max() / count.sum())
        for name, count in counts.items()
        if count.any()
    }


def _count(counts: np.ndarray, ids: Any, weights: Any = None) -> None:
    """Adds the weights of ids to `counts`, in place."""
    weights = None if weights is None else np.ravel(weights)
    counts += np.bincount(np.ravel(ids), weights, minlength=len(counts))


def warn_if_no_better(results: Mapping[str, float]) -> None:
    """Logs a warning for each accuracy that is no better than that of the majority, or is NaN.

    Args:
        results: Accuracies, and the result of `majority_accuracies`.
    """
    for name, answer in _ANSWERS.items():
        accuracy = results.get(f"{name}_accuracy")
        majority = results.get(f"{name}_majority_accuracy", 1.0)
        if accuracy is not None and majority < 1 and not accuracy > majority:
            _LOGGER.warning(
                "%s_accuracy is %.4f, but a model that always predicts the most "
                "frequent %s has %.4f: the model has learned no more than that. Train "
                "longer, or try another learning rate.",
                name,
                accuracy,
                answer,
                majority,
            )
