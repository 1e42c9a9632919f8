"""`TextRow`: texts that are compared, and its reading from tables."""

import dataclasses
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from bert_tf.config_fields import documented, option
from bert_tf.errors import InputError, store_plain_values
from bert_tf.tasks.splits import RowCounts, Split, share_of
from bert_tf.tasks.tables import Row, TableFormat, column_values, place_of
from bert_tf.tasks.values import score_of, text_of

EMPTY = "rows with an empty text skipped"
_ELEMENT = re.compile(r"(.+)\[([0-9]{1,4})\]")


@documented
@dataclasses.dataclass(frozen=True)
class PairColumns:
    """The names of the columns with texts and scores.

    Raises:
        InputError: Two columns have the same name.
    """

    text_a: str = option(
        "anchor", "Column of the first text, such as a question.", flag="text_a_column"
    )
    text_b: str = option(
        "positive",
        "Column of the text that belongs to it, such as an answer, or of the text that "
        "is compared.",
        flag="text_b_column",
    )
    negatives: tuple[str, ...] = option(
        (),
        "Columns of texts that do not belong to the first text; a cell may be empty. "
        "neg[0] is the first text of a list in the column neg, here and in the other "
        "flags of columns.",
        flag="negative_columns",
    )
    score: str | None = option(
        None, "Column of the similarity of both texts.", flag="score_column"
    )

    def __post_init__(self) -> None:
        store_plain_values(self)
        names = [*self.texts, *([self.score] if self.score else [])]
        if len(set(names)) < len(names):
            raise InputError(
                "text_a_column, text_b_column, negative_columns and score_column must "
                f"differ. Received: {', '.join(names)}."
            )
        if self.score and self.negatives:
            raise InputError(
                "score_column and negative_columns belong to different losses. Give "
                "one of them."
            )

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns of the texts, in the order of the sequences of a record."""
        return self.text_a, self.text_b, *self.negatives


@dataclasses.dataclass(frozen=True, slots=True)
class TextRow:
    """The texts of a row, and their score.

    Attributes:
        texts: The first text, the text that belongs to it, and negatives; "" for a
            missing negative.
        score: The similarity of the first two texts, None if it is not known.
        columns: The names of the columns of the texts and of the score.
    """

    texts: tuple[str, ...]
    score: float | None = None
    columns: PairColumns = dataclasses.field(default=PairColumns(), compare=False)

    def as_row(self) -> Row:
        """Returns the values of the row by column."""
        row: Row = dict(zip(self.columns.texts, self.texts, strict=False))
        if self.columns.score and self.score is not None:
            row[self.columns.score] = self.score
        return row


def read_rows(
    split: Split, columns: PairColumns, max_score: float, counts: RowCounts
) -> Iterator[TextRow]:
    """Yields the rows of a table, in their order.

    Rows of a train or dev file whose first or second text is empty are skipped and
    counted. Scores are divided by `max_score`. Rows of a test file may lack scores, and
    a test file may have no second texts.

    Raises:
        InputError: A column is missing, a value is malformed, or a score is not in [-1,
            1] after the division.
    """
    path = split.source.name
    parameters = ["text_a_column", "text_b_column"]
    parameters += ["negative_columns"] * len(columns.negatives) + ["score_column"]
    part = split.source.part
    is_test = split.kind == "test"
    optional = (columns.score, *columns.texts[1:]) if is_test else ()

    rows = cells(
        path,
        (*columns.texts, columns.score),
        optional,
        parameters,
        split.source.table_format,
    )
    for number, (*values, score) in rows:
        place = place_of(path, number)
        num_required = 1 if is_test else 2
        texts = tuple(
            text_of(
                "" if value is None and index >= num_required else value,
                f"{place}: {name!r}",
            )
            for index, (name, value) in enumerate(
                zip(columns.texts, values, strict=True)
            )
        )
        if not is_test and not (texts[0].strip() and texts[1].strip()):
            counts.add(EMPTY, place, is_skipped=True)
            continue
        # Rows with equal first texts are in one part of a train file.
        if not is_in_part(texts[0], part):
            continue

        value = None
        if columns.score and not (is_test and score in (None, "")):
            value = score_of(score, f"{place}: {columns.score!r}") / max_score
            if abs(value) > 1:
                raise InputError(
                    f"{place}: the score {score} divided by max_score={max_score:g} is "
                    f"{value:g}, and a cosine is at most 1. Give the highest score as "
                    "max_score."
                )
        yield TextRow(texts, value, columns)


def cells(
    path: str,
    columns: Sequence[str | None],
    optional: Collection[str | None],
    parameters: Sequence[str],
    table_format: TableFormat,
) -> Iterator[tuple[int, list[Any]]]:
    """Yields the number of each row, and its values in some columns.

    A column such as "neg[0]" is an element of a list in the column "neg", or "" if the
    list has fewer elements. See `tables.column_values`.

    Raises:
        InputError: A value is a list and its column names no element, or a column names
            an element of a value that is not a list.
    """
    elements = [_ELEMENT.fullmatch(name or "") for name in columns]
    names = [
        match[1] if match else name
        for name, match in zip(columns, elements, strict=True)
    ]
    rows = column_values(
        path,
        names,
        [
            name
            for name, column in zip(names, columns, strict=True)
            if name and column in optional
        ],
        parameters,
        table_format=table_format,
    )
    for number, values in rows:
        for index, (value, match) in enumerate(zip(values, elements, strict=True)):
            is_list = isinstance(value, list)
            if is_list != bool(match) and value is not None:
                raise InputError(
                    f"{place_of(path, number)}: {names[index]!r} has "
                    f"{'a' if is_list else 'no'} list. {names[index]}[0] is the first "
                    "element of a list: give such a column for lists, and only for "
                    "them."
                )
            if match:
                texts, place = value or [], int(match[2])
                values[index] = texts[place] if place < len(texts) else ""
        yield number, values


def is_in_part(first_text: str, part: tuple[float, float] | None) -> bool:
    """Returns whether a row with a first text is in a part of a file; see `FileSource`."""
    return part is None or part[0] <= share_of(first_text) < part[1]
