"""The example of classification and regression tasks."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

Label = str | float | tuple[str, ...]
_COLUMNS = ("text_a", "text_b", "label")


@dataclasses.dataclass(frozen=True, slots=True)
class TextExample:
    """A sentence or a sentence pair, with its label.

    Attributes:
        text_a: The sentence, or the first sentence of a pair.
        text_b: The second sentence of a pair; None for a single sentence.
        label: The label for "classification", the score for "regression", the labels
            for "multi_label"; None if the data has no label.
        columns: The names of the columns of the two texts and of the label in the file.
            The third is None if several columns are labels; they are in `row`.
        row: The values of all columns of a row of a test split, by column; or {}.
    """

    text_a: str
    text_b: str | None = None
    label: Label | None = None
    columns: Sequence[str | None] = dataclasses.field(default=_COLUMNS, compare=False)
    row: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def file_row(self) -> dict[str, Any]:
        """Returns the row of the file, with the texts and, if it is known, the label."""
        values = zip(self.columns, (self.text_a, self.text_b, self.label), strict=True)
        used = {
            name: each for name, each in values if name is not None and each is not None
        }
        return {**self.row, **used}
