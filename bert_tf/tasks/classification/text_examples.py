"""The example of classification and regression tasks."""

import dataclasses
from collections.abc import Mapping
from typing import Any

Label = str | float | tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class TextExample:
    """A sentence or a sentence pair, with its label.

    Attributes:
        text_a: The sentence, or the first sentence of a pair.
        text_b: The second sentence of a pair; None for a single sentence.
        label: The label for "classification", the score for "regression", the labels for
            "multi_label"; None if the data has no label.
        others: The values of the other columns of a test split, by column.
    """

    text_a: str
    text_b: str | None = None
    label: Label | None = None
    others: Mapping[str, Any] = dataclasses.field(default_factory=dict)
