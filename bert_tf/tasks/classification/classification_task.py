"""`ClassificationTask`: labels or a score for each text or pair of texts.

The programs list the tasks in their help texts, so this module imports TensorFlow
inside functions.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from bert_tf import record_format
from bert_tf.config import BertConfig
from bert_tf.errors import InputError
from bert_tf.head_config import HeadConfig
from bert_tf.saved_task import DECISION, SETTING, TaskFacts
from bert_tf.tasks.classification.classification_results import (
    RESULTS_BY_TYPE,
    TextResults,
)
from bert_tf.tasks.classification.long_texts import SPECIAL_TOKENS, LongTexts
from bert_tf.tasks.classification.text_examples import TextExample
from bert_tf.tasks.splits import WITHOUT_LABEL, DataLocation, RowCounts, Split
from bert_tf.tasks.tables import Row
from bert_tf.tasks.task import (
    DEV_EXAMPLES,
    RESULTS,
    TRUNCATED,
    Encoded,
    Task,
    TaskInputs,
)

if TYPE_CHECKING:
    from bert_tf.tasks.classification.submission import Submission
    from bert_tf.tasks.head_objective import HeadObjective
    from bert_tf.tokenization import BertTokenizer

# For each task type, the features of a record.
TABLES = {
    "classification": record_format.CLASSIFICATION,
    "regression": record_format.REGRESSION,
    "multi_label": record_format.MULTI_LABEL,
}


class SplitReader(Protocol):
    """Finds and reads the splits of a data set."""

    def prepare(
        self, task: "ClassificationTask", inputs: TaskInputs
    ) -> "ClassificationTask":
        """Returns a copy of the task with values from the data set, as `Task.prepare` does."""
        return task

    def splits(self, kind: str, location: DataLocation) -> Sequence[Split]:
        """Finds the splits of a kind, as `Task.splits` does."""

    def read(self, split: Split, counts: RowCounts) -> Iterator[TextExample]:
        """Yields the examples of a split, as `Task.examples` does."""


@dataclasses.dataclass(frozen=True)
class ClassificationFacts(TaskFacts):
    """The facts about a `ClassificationTask` that are saved with the weights.

    The threshold is None unless the task type is "multi_label", and the fields of
    `LongTexts` are None unless long texts are split into windows.
    """

    pair: bool = False
    head: HeadConfig | None = None
    threshold: float | None = dataclasses.field(default=None, metadata=DECISION)
    long_texts: str | None = dataclasses.field(default=None, metadata=SETTING)
    doc_stride: int | None = dataclasses.field(default=None, metadata=SETTING)
    max_windows: int | None = dataclasses.field(default=None, metadata=SETTING)


@dataclasses.dataclass(frozen=True)
class ClassificationTask(Task):
    """Predicts labels or a score for each sentence or sentence pair.

    Attributes:
        labels: The labels in the order of the model outputs; () for regression, which
            has one output.
        task_type: "classification", "regression" or "multi_label".
        metric_names: The metrics in addition to the loss, and to the accuracy of a
            classification task; see `classification_metrics`.
        threshold: Probability in (0, 1) from which a multi-label task predicts a label.
        submission: The file format of a benchmark's server, or None.
        trained_as: The name in `facts`, if it differs from `name`. AX has no train
            split; its examples are predicted by a model that was trained as "mnli".
    """

    name: str
    labels: tuple[str, ...]
    pair: bool
    reader: SplitReader
    task_type: str = "classification"
    metric_names: tuple[str, ...] = ()
    best_by: tuple[str, int] = ("accuracy", 1)
    threshold: float = 0.5
    submission: "Submission | None" = None
    trained_as: str | None = None
    head: HeadConfig = HeadConfig()  # noqa: RUF009 it is immutable
    long_texts: LongTexts = LongTexts()  # noqa: RUF009 it is immutable

    def __post_init__(self) -> None:
        if self.pair and self.long_texts.in_windows:
            raise InputError(
                "long_texts=windows needs single texts. Received: the task "
                f"{self.name}, which has pairs of texts. Leave out long_texts."
            )

    def prepare(self, inputs: TaskInputs) -> "ClassificationTask":
        """Returns a copy with the values that its reader finds, such as labels."""
        return self.reader.prepare(self, inputs)

    @property
    def table(self) -> record_format.Table:
        """The features of a record."""
        return TABLES[self.task_type]

    @property
    def sizes(self) -> dict[str, int]:
        """The number of classes, C."""
        return {"C": len(self.labels)}

    @property
    def first_label_id(self) -> int | None:
        """The value 0 for classification with one label; None for regression and multi-label."""
        return 0 if self.task_type == "classification" else None

    @property
    def epochs_count_records(self) -> bool:
        """Whether texts are split into windows; an epoch then reads each window once."""
        return self.long_texts.in_windows

    # With windows, each text has the same weight in the loss, too.
    records_share_weight = epochs_count_records

    @property
    def facts(self) -> ClassificationFacts:
        """Facts about the task."""
        return ClassificationFacts(
            self.trained_as or self.name,
            self.task_type,
            labels=self.labels,
            pair=self.pair,
            head=self.head,
            threshold=self.threshold if self.task_type == "multi_label" else None,
            **self.long_texts.facts,
        )

    @property
    def output_files(self) -> list[str]:
        """The names of the reports, predictions and submission files."""
        submissions = self.submission.file_names if self.submission else {}
        ends = ["", *(f"_{suffix}" for suffix in submissions if suffix)]
        patterns = (
            "eval_report{}.txt",
            "errors{}.jsonl",
            "eval_results{}.txt",
            "test_results{}.tsv",
            "predictions{}.jsonl",
            "test_results{}.txt",
            "test_report{}.txt",
        )
        names = [pattern.format(end) for pattern in patterns for end in ends]
        return [*names, *submissions.values(), DEV_EXAMPLES, RESULTS]

    def splits(self, kind: str, location: DataLocation) -> Sequence[Split]:
        """Finds the splits of a kind with the reader."""
        return self.reader.splits(kind, location)

    def examples(self, split: Split, counts: RowCounts) -> Iterator[TextExample]:
        """Yields the examples of a split; skips and counts unlabeled train and dev examples."""
        for example in self.reader.read(split, counts):
            if split.kind != "test" and example.label is None:
                row = f"{split.source.name}: {example.text_a[:60]!r}"
                counts.add(WITHOUT_LABEL, row, is_skipped=True)
            else:
                yield example

    def labels_of(self, example: TextExample) -> Sequence[str]:
        """Returns the labels of an example; () for a score, and [""] for no label."""
        return () if self.task_type == "regression" else example.labels or [""]

    def as_row(self, example: TextExample) -> Row:
        """Returns the texts and the label of an example."""
        texts = {"text": example.text_a}
        if self.pair:
            texts = {"text_a": example.text_a, "text_b": example.text_b or ""}
        return {**texts, "label": example.label}

    def for_split(self, split: Split) -> "ClassificationTask":
        """Returns the task for a split; for dev and test splits, `max_windows` is None."""
        if split.kind == "train":
            return self
        return dataclasses.replace(
            self, long_texts=dataclasses.replace(self.long_texts, max_windows=None)
        )

    def encode(
        self,
        examples: Sequence[TextExample],
        tokenizer: "BertTokenizer",
        max_seq_length: int,
    ) -> Encoded:
        """Converts a block of N examples to records: one for each example or window.

        A missing label becomes 0. The counts have the number of examples in which a
        text has no token, and the number of examples with more tokens than
        `max_seq_length` permits. With windows, the name of the latter count is "with
        several windows" instead of "truncated", and the number of windows is a further
        count.
        """
        ids_a = tokenizer.tokenize([example.text_a for example in examples])
        ids_b = None
        lengths = ids_a.row_lengths().numpy()
        is_empty = lengths == 0
        if self.pair:
            ids_b = tokenizer.tokenize([example.text_b or "" for example in examples])
            lengths_b = ids_b.row_lengths().numpy()
            lengths = lengths + lengths_b
            is_empty = is_empty | (lengths_b == 0)

        room = max_seq_length - (3 if self.pair else SPECIAL_TOKENS)
        num_too_long = int(np.count_nonzero(lengths > room))
        num_empty = int(np.count_nonzero(is_empty))
        labels = self._label_ids(examples)
        per_example = None
        counts = {TRUNCATED: num_too_long, "with an empty text": num_empty}

        # One record for each window: [N, ...] -> [R, ...]
        if self.long_texts.in_windows:
            ids_a, per_example = self.long_texts.split(ids_a, room)
            labels = np.repeat(labels, per_example, axis=0)
            counts = {
                "with several windows": num_too_long,
                "with an empty text": num_empty,
                "windows": len(labels),
            }

        packed = tokenizer.pack(ids_a, ids_b, max_seq_length)
        columns = {
            "input_ids": packed["input_ids"].numpy(),
            "input_mask": packed["input_mask"].numpy().astype(np.uint8),
            "segment_ids": packed["segment_ids"].numpy().astype(np.uint8),
            "label_ids": labels,
            "is_real_example": np.ones(len(labels), np.uint8),
        }
        return Encoded(columns, per_example, counts)

    def _label_ids(self, examples: Sequence[TextExample]) -> np.ndarray:
        """Returns the labels as the feature `label_ids`; a missing label becomes 0."""
        if self.task_type == "regression":
            return np.array([example.label or 0 for example in examples], np.float32)

        index: dict[Any, int] = {
            label: number for number, label in enumerate(self.labels)
        }
        if self.task_type == "classification":
            index[None] = 0
            dtype = np.min_scalar_type(len(self.labels))
            return np.array([index[example.label] for example in examples], dtype)

        # 1 at each label of an example: [N, C]
        rows: np.ndarray = np.zeros([len(examples), len(self.labels)], np.float32)
        for row, example in zip(rows, examples, strict=True):
            row[[index[label] for label in example.labels]] = 1
        return rows

    def make_objective(self, config: BertConfig, **options: Any) -> "HeadObjective":
        """Builds the model and its loss."""
        from bert_tf.modeling import BertClassifier
        from bert_tf.tasks.classification import objectives
        from bert_tf.tasks.head_objective import HeadObjective

        outputs = 1 if self.task_type == "regression" else len(self.labels)
        model = BertClassifier(config, num_labels=outputs, head=self.head, **options)
        if self.task_type == "multi_label":
            return objectives.MultiLabelObjective(model, self.best_by, self.threshold)
        if self.task_type == "regression":
            return objectives.RegressionObjective(model, self.best_by)
        return HeadObjective(model, self.best_by)

    def make_results(self, split: Split) -> TextResults:
        """Returns the object that computes the metrics, and writes the predictions."""
        return RESULTS_BY_TYPE[self.task_type](
            self.labels, self.metric_names, self.threshold, split, self.submission
        )
