"""Checks labels that a data file contains."""

import difflib
from collections.abc import Sequence

from bert_tf.errors import InputError
from bert_tf.tasks.tables import place_of
from bert_tf.tasks.text_tables import shortened

_SHOWN_LABELS = 10


def check_label(label: str, labels: Sequence[str], path: str, line: int) -> None:
    """Checks that a label is one of the labels of the task.

    Args:
        label: The label in the file.
        labels: The labels of the task.
        path: The file, for the error message.
        line: The number of the line or row, from 1, for the error message.

    Raises:
        InputError: The label is unknown. The message suggests the most similar known label.
    """
    if label in labels:
        return
    similar = nearest(label, labels)
    suggestion = f" Did you mean {similar!r}?" if similar is not None else ""
    raise InputError(
        f"{place_of(path, line)}: the label {label[:60]!r} is not one of "
        f"{shortened(labels, _SHOWN_LABELS)}.{suggestion}"
    )


def nearest(text: str, known: Sequence[str]) -> str | None:
    """Returns the known text that is most similar, or None if no known text is similar.

    Upper case and surrounding spaces are ignored.
    """
    by_key = {value.strip().casefold(): value for value in reversed(known)}
    matches = difflib.get_close_matches(text.strip().casefold(), by_key, n=1)
    return by_key[matches[0]] if matches else None
