"""The task for the user's own data, from files or from tensorflow-datasets."""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from bert_tf.config_fields import documented, option
from bert_tf.errors import InputError, check_choice, check_label_names
from bert_tf.tasks.classification import classification_metrics
from bert_tf.tasks.classification.classification_task import (
    TABLES,
    ClassificationTask,
    SplitReader,
)
from bert_tf.tasks.classification.long_texts import LongTexts
from bert_tf.tasks.classification.sources.tfds_reader import TfdsReader, TfdsSource
from bert_tf.tasks.classification.text_examples import (
    NO_LABEL,
    LabelParser,
    TextExample,
    examples_of_rows,
    has_no_label,
    in_order,
)
from bert_tf.tasks.splits import DataLocation, FileSource, Split, share_of
from bert_tf.tasks.tables import column_values
from bert_tf.tasks.task import CUSTOM, TaskInputs

# A column with more labels than this contains something else, such as texts or scores.
_MAX_LABELS = 10_000


@documented
@dataclasses.dataclass(frozen=True)
class TextColumns:
    """The names of the columns with the texts and the labels in the user's data.

    Raises:
        InputError: Two columns have the same name.
    """

    text_a: str = option(
        "sentence",
        "Task custom: column of the sentence, or of the first sentence of a pair. "
        "With --tfds_name, the default is the text feature of the data set.",
        flag="text_a_column",
    )
    text_b: str | None = option(
        None,
        "Task custom: column of the second sentence of a pair. Default: single "
        "sentences.",
        flag="text_b_column",
    )
    label: str = option(
        "label",
        "Task custom: column of the label; test files may lack this column. For "
        "multi_label, several columns, separated by commas, are the labels: each has "
        "1 for texts with its label, and 0 for others.",
        flag="label_column",
    )
    label_separator: str = option(
        ",",
        "Task custom, multi_label: text between the labels of an example. JSON lines "
        "and Parquet files may contain lists instead.",
    )

    def __post_init__(self) -> None:
        names = [name for name in self.names if name is not None]
        if len(set(names)) < len(names):
            raise InputError(
                "text_a_column, text_b_column and label_column must differ. Received: "
                f"{', '.join(names)}."
            )

    @property
    def names(self) -> tuple[str, str | None, str]:
        """The columns of the first text, of the second text or None, and of the label."""
        return self.text_a, self.text_b, self.label


@dataclasses.dataclass(frozen=True)
class CustomReader(SplitReader):
    """Reads files with named columns, or a data set of tensorflow-datasets.

    If `labels` is None, `prepare` takes them from the trained model or the data.
    """

    columns: TextColumns
    labels: tuple[str, ...] | None
    task_type: str

    def prepare(
        self, task: ClassificationTask, inputs: TaskInputs
    ) -> ClassificationTask:
        """Returns the task with the labels of the trained model or the train split."""
        if self.labels is not None:
            return task

        # The labels of a trained model, several label columns, or the labels of the
        # train split.
        labels = inputs.trained.get("labels")
        if labels is None:
            labels = self._label_columns
            if len(labels) == 1:
                labels = inputs.in_stated_order(
                    self._labels_of_train_split(inputs.location)
                )

        _check_labels(labels, self.task_type)
        reader = dataclasses.replace(self, labels=tuple(labels))
        return dataclasses.replace(task, labels=tuple(labels), reader=reader)

    @property
    def _label_columns(self) -> tuple[str, ...]:
        """The column of the labels; or several columns, one for each label, with 0 and 1."""
        label = self.columns.label
        return tuple(label.split(",")) if self.task_type == "multi_label" else (label,)

    def _labels_of_train_split(self, location: DataLocation) -> list[str]:
        """Returns the labels of the train split, sorted by `in_order`.

        With `eval_fraction` or `test_fraction`, all rows of the train file count. If a
        data set of tensorflow-datasets has names for its labels, the result has these
        names in their own order.
        """
        location = dataclasses.replace(location, eval_fraction=0.0, test_fraction=0.0)
        (split, *_) = self.splits("train", location)
        if isinstance(split.source, TfdsSource):
            names = self._tfds().label_names(split.source.builder)
            if names:
                return [name.strip() for name in names]

        labels: set[str] = set()
        for example in self.read(split, Counter()):
            labels.update(example.labels)
            if len(labels) > _MAX_LABELS:
                raise InputError(
                    f"{split.source.name} has more than {_MAX_LABELS} different values "
                    f"in the column {self.columns.label!r}. Give the column of the "
                    "labels, use the task type regression for scores, or give all "
                    "labels."
                )
        if has_no_label(NO_LABEL, self.columns.names, labels - {NO_LABEL}):
            labels.discard(NO_LABEL)
        return in_order(labels)

    def splits(self, kind: str, location: DataLocation) -> Sequence[Split]:
        """Returns the split of a kind, or the splits of a data set of tensorflow-datasets."""
        if location.tfds_name:
            return self._tfds().splits(kind, location)
        part = location.part(kind)
        path = location.find_table("train" if part else kind)
        selection = dataclasses.astuple(self.columns)
        return [Split(kind, FileSource(path, selection, part, location.table_format))]

    def read(self, split: Split, counts: Counter[str]) -> Iterator[TextExample]:
        """Yields the examples of a split, as `examples_of_rows` does."""
        if isinstance(split.source, TfdsSource):
            return self._tfds().read(split, counts)
        path = split.source.name
        columns = self.columns
        is_test = split.kind == "test"
        texts = (columns.text_a, columns.text_b)
        labels = self._label_columns

        rows = column_values(
            path,
            (*texts, *labels),
            labels if is_test else (),
            ("text_a_column", "text_b_column", *["label_column"] * len(labels)),
            with_row=is_test,
            table_format=split.source.table_format,
        )
        names: tuple[str | None, ...] = columns.names
        if len(labels) > 1:
            names = (*texts, None)
            rows = ((number, _with_one_label(row, labels)) for number, row in rows)

        # The split may be a part of the train file.
        if split.source.part:
            first, last = split.source.part
            num_texts = 1 if columns.text_b is None else 2
            rows = (
                (n, row)
                for n, row in rows
                if first <= share_of(*row[:num_texts]) < last
            )
            path = f"The {split.kind} part of {path}"

        parser = LabelParser(
            columns.label, self.task_type, self.labels, columns.label_separator
        )
        return examples_of_rows(
            rows,
            path,
            kind=split.kind,
            columns=names,
            parse_label=parser,
            counts=counts,
        )

    def _tfds(self) -> TfdsReader:
        return TfdsReader(
            self.columns.names,
            self.labels,
            self.task_type,
            self.columns.label_separator,
        )


def _with_one_label(row: Sequence[Any], labels: Sequence[str]) -> list[Any]:
    """Replaces a row's label columns by one value: a dict, or None if all are missing."""
    end = 2 + len(labels)
    values = row[2:end]
    is_known = values != [None] * len(labels)
    return [
        *row[:2],
        dict(zip(labels, values, strict=True)) if is_known else None,
        *row[end:],
    ]


def custom_task(
    columns: TextColumns,
    task_type: str = "classification",
    labels: Sequence[str] | None = None,
    threshold: float = 0.5,
    long_texts: LongTexts | None = None,
) -> ClassificationTask:
    """Creates a task for the user's own data.

    Args:
        columns: The names of the columns with the texts and the labels.
        task_type: "classification" (one label), "regression" (a score) or "multi_label"
            (any number of labels).
        labels: All labels, in the order of the outputs. Blanks at both ends are
            removed. None takes the labels of the trained model or, sorted (whole
            numbers by size), of the train split; if the run starts from a model with
            these labels, its order is kept. Regression has no labels.
        threshold: Probability in (0, 1) from which a label is predicted, for
            "multi_label".
        long_texts: The settings for texts that are longer than a sequence. Default:
            truncation.

    Raises:
        InputError: There are too few labels, a label is repeated or empty, or another
            value is not valid.
    """
    check_choice(TABLES, "task_type", task_type)
    if not 0 < threshold < 1:
        raise InputError(
            f"threshold must be above 0 and below 1. Received: {threshold}."
        )

    # None: the labels are found in the data.
    labels = () if task_type == "regression" else labels
    if labels is not None:
        labels = tuple(label.strip() for label in labels)
        _check_labels(labels, task_type)

    metric_names, best = classification_metrics.DEFAULTS[task_type]
    return ClassificationTask(
        name=CUSTOM,
        labels=labels or (),
        pair=columns.text_b is not None,
        reader=CustomReader(columns, labels, task_type),
        task_type=task_type,
        metric_names=metric_names,
        best_by=(best, 1),
        threshold=threshold,
        long_texts=long_texts or LongTexts(),
    )


def _check_labels(labels: Sequence[str], task_type: str) -> None:
    """Raises InputError if there are too few labels, or a label is empty, repeated or invalid."""
    if "" in labels:
        raise InputError(
            f"labels has an empty label. Received: {','.join(labels)!r}. Separate "
            "labels with one comma; a label cannot contain a comma."
        )
    repeated = [label for label, count in Counter(labels).items() if count > 1]
    if repeated:
        raise InputError(f"labels has {repeated[0]!r} twice. Give each label once.")

    minimum = {"classification": 2, "regression": 0, "multi_label": 1}[task_type]
    if len(labels) < minimum:
        received = ", ".join(labels) or "no labels"
        needed = "two different labels" if minimum == 2 else "one label"
        raise InputError(
            f"The task type {task_type} needs at least {needed}. Received: {received}."
        )
    check_label_names(labels, "The task")
