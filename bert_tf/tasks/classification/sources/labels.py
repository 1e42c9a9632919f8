"""Checks and sorts labels that a data file contains."""

import difflib
import re
from collections.abc import Collection, Sequence

from bert_tf.errors import InputError
from bert_tf.tasks.tables import place_of
from bert_tf.tasks.text_tables import shortened

_SHOWN_LABELS = 10
# Numbers in a column with missing values often have a decimal point, such as 10.0.
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,18}(\.0*)?")


def in_order(labels: Collection[str]) -> list[str]:
    """Sorts labels: by their numbers if all of them are whole numbers, else by their texts."""
    if not all(map(_WHOLE_NUMBER.fullmatch, labels)):
        return sorted(labels)
    # The text decides between labels such as "1" and "01".
    return sorted(labels, key=lambda label: (int(label.split(".")[0]), label))


def check_one_line(label: str, place: str) -> None:
    """Checks that files with a label a line, or a column a label, can contain a label.

    Args:
        label: The label in the file.
        place: The file, the line and the column, for the error message.

    Raises:
        InputError: The label has a tab or a line break.
    """
    if "\t" in label or label.splitlines() != [label]:
        raise InputError(
            f"{place} has the label {label[:60]!r}, and a label must be in one line, "
            "without tabs. Correct the label, or give another label_column."
        )


def check_label(label: str, labels: Sequence[str], path: str, line: int) -> None:
    """Checks that a label is one of the labels of the task.

    Args:
        label: The label in the file.
        labels: The labels of the task.
        path: The file, for the error message.
        line: The number of the line or row, from 1, for the error message.

    Raises:
        InputError: The label is unknown. The message suggests the most similar known
            label.
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
