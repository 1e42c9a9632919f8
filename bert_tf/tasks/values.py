"""Converts the values of tables to texts and scores."""

import math
from typing import Any

import numpy as np

from bert_tf.errors import InputError

# The records store scores as float32.
_HIGHEST_SCORE = float(np.finfo(np.float32).max)


def text_of(value: Any, place: str) -> str:
    """Converts a text, a bool or a finite number to text; raises InputError for other values."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(
            f"{place} has the number {value}. Write a text or a finite number."
        )
    if isinstance(value, (int, float)):
        return str(value)

    if value is None:
        raise InputError(f"{place} has no value.")
    raise InputError(
        f"{place} has a value of type {type(value).__name__}. Write a text, a number "
        "or a bool."
    )


def score_of(value: Any, place: str) -> float:
    """Converts a text or a number to a finite float; raises InputError for other values."""
    text = str(value) if isinstance(value, float) else text_of(value, place)
    try:
        score = math.nan if isinstance(value, bool) or "_" in text else float(text)
    except ValueError:
        score = math.nan

    if not abs(score) <= _HIGHEST_SCORE:  # also true for NaN
        raise InputError(
            f"{place} has {text[:60]!r}. Write a finite number of at most "
            f"{_HIGHEST_SCORE:.2g}."
        )
    return score
