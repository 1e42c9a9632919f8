"""`Task`: the interface between a fine-tuning task and the code that all tasks share.

An example is one item of the data, such as a question. A record is one input of the
model: an example has one record, or one for each window of a long text.

Shape letters: N examples, R records, B batch, T tokens of a record, K hidden states of
a token, H hidden size, C classes.
"""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bert_tf import record_format
from bert_tf.config import BertConfig
from bert_tf.head_config import HeadConfig
from bert_tf.saved_task import TaskFacts
from bert_tf.tasks.results import Outputs as Outputs
from bert_tf.tasks.results import TaskResults
from bert_tf.tasks.splits import SPLIT_NAMES, DataLocation, FileSource, RowCounts, Split
from bert_tf.tasks.tables import ENDINGS, Row
from bert_tf.training.training_config import RunPhases

if TYPE_CHECKING:
    from bert_tf.tokenization import BertTokenizer

# The default number of tokens of a sequence, as in google-research/bert.
DEFAULT_LENGTH = 128
# If the encoder is frozen, a batch can have its cached outputs as features: hidden
# states, float32 [B, T, K, H], and their mask, int32 [B, T]. See `output_cache`.
CACHED_FEATURES, CACHED_MASK = "cached_features", "cached_features_mask"
# The feature of a training batch with the logits of a teacher, float32 [B, T, 1, C];
# see `distillation`.
TEACHER_LOGITS = "teacher_logits"
# The feature of a training batch with the weights of its labels in the loss, float32,
# with the shape of `label_ids` or one that is broadcast to it. A weight is the class
# weight times the weight of the record; it is 0 for examples without labels. Batches
# without such weights, and batches of evaluations, do not have the feature.
LABEL_WEIGHTS = "label_weights"
# The feature of a training batch with the weights of its records, float32 [B]; see
# `Task.records_share_weight`.
RECORD_WEIGHTS = "record_weights"
# The key in `Encoded.counts` of the number of truncated texts.
TRUNCATED = "truncated"
# The names of the files that `runs.dev_split` writes.
DEV_EXAMPLES = "dev_examples.jsonl"
CUSTOM = "custom"  # the name of a task whose data set has no name
RESULTS = "results.json"
BEFORE_TRAINING = "before_training.json"  # the metrics of dev splits


@dataclasses.dataclass(frozen=True)
class Encoded:
    """The records of a block of N examples.

    Attributes:
        columns: For each feature of the task's table, an array [R, ...].
        records_per_example: int [N], the number of records of each example; the sum is
            R. None if each example gives one record.
        counts: The number of examples with a property that is worth a line in the
            report, such as {"truncated": 12}.
    """

    columns: Mapping[str, np.ndarray]
    records_per_example: np.ndarray | None = None
    counts: Mapping[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class TaskInputs:
    """The model and the location of the data, for `Task.prepare`.

    Attributes:
        phases: The phases of the run; they determine the splits that are read.
        max_seq_length: The number of tokens of a record.
        trained: The saved `TaskFacts` of the trained model that the run uses; {} if the
            run trains a model.
        stated_labels: The lists of labels that are saved with the earlier run, the
            teacher and the initial model, if they have labels.
        initial: The saved facts of the model that the run starts from; {} if unknown.
        global_batch_size: The number of examples of a training batch.
    """

    location: DataLocation
    phases: RunPhases
    tokenizer: "BertTokenizer"
    max_seq_length: int
    trained: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    stated_labels: Sequence[Sequence[str]] = ()
    initial: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    global_batch_size: int = 1

    def in_stated_order(self, labels: Sequence[str]) -> Sequence[str]:
        """Returns labels in the order that the first model with the same labels states.

        If no model has the same labels, the labels keep their order.
        """
        same = (
            names for names in self.stated_labels if sorted(names) == sorted(labels)
        )
        return next(same, labels)


def settings_from(settings_class: Any, facts: Mapping[str, Any]) -> Any:
    """Returns an instance of the dataclass, with the facts that are named like its fields."""
    names = {field.name for field in dataclasses.fields(settings_class)} & facts.keys()
    return settings_class(**{name: facts[name] for name in names})


class Task:
    """Reads a data set, converts it to records, and evaluates the model's predictions.

    Attributes:
        name: The value of --task_name, in lower case.
        best_by: The metric that selects the best weights, and 1 if higher values are
            better, else -1.
        groups_by_length: Whether the records of a training batch have similar lengths,
            which saves padding.
        prediction_files: The names of the files that predictions write into the run's
            folder.
        split_names: The usual names of the files of each split, without endings; see
            `DataLocation.find_table`.
        endings: The usual endings of these files.
        head: The layers between the encoder and the output layer. None for a task whose
            head cannot be chosen; see `with_head`.
        held_out_split: The index, in the dev splits, of the split that is evaluated
            during training; if it is not 0, the split is evaluated only then.
        compares_with_initial: Whether the baseline of a trained model is the model
            before the training, instead of a constant prediction.
    """

    name: str
    best_by: tuple[str, int]
    groups_by_length = True
    prediction_files: Sequence[str] = ()
    split_names: Mapping[str, Sequence[str]] = SPLIT_NAMES
    endings: Sequence[str] = ENDINGS
    head: HeadConfig | None = None
    held_out_split = 0
    compares_with_initial = False

    def with_head(self, head: HeadConfig) -> "Task":
        """Returns the task with other layers between the encoder and the output layer.

        A task whose `head` is None is returned unchanged. A subclass with a `head` must
        be a dataclass in which `head` is a field.
        """
        if self.head is None:
            return self
        return dataclasses.replace(self, head=head)  # type: ignore[type-var]

    def with_saved_head(self, facts: Mapping[str, Any]) -> "Task":
        """Returns the task with the head in the facts of a model; `self` if there are none."""
        if not facts:
            return self
        return self.with_head(HeadConfig.from_dict(facts.get("head")))

    def of_teacher(
        self, facts: Mapping[str, Any], config: BertConfig, student: BertConfig
    ) -> "Task":
        """Returns the task with the settings of a teacher, whose facts are given.

        By default, returns the task with the head of the teacher.

        Args:
            facts: The saved facts of the teacher.
            config: The architecture of the teacher.
            student: The architecture of the student.

        Raises:
            InputError: The student cannot learn the outputs of the teacher.
        """
        return self.with_saved_head(facts)

    def prepare(self, inputs: TaskInputs) -> "Task":
        """Returns a copy with attributes from the model and the data, such as labels.

        Args:
            inputs: The model and the location of the data.

        Raises:
            InputError: A file is missing or malformed.
        """
        return self

    @property
    def table(self) -> record_format.Table:
        """The features of a record, which include all of `record_format.INPUTS`."""
        raise NotImplementedError

    @property
    def sizes(self) -> Mapping[str, int]:
        """The size of each shape letter in `table` except S (sequence), such as {"C": 4}."""
        return {}

    @property
    def first_label_id(self) -> int | None:
        """The value of the feature `label_ids` for the first label, or None.

        Smaller values mean that there is no label. None means that the texts or words
        do not have one label each; class weights then raise InputError. If the value is
        not None, the objective must apply `head_objective.weighted` to its losses, as
        `HeadObjective` does.
        """
        return None

    @property
    def epochs_count_records(self) -> bool:
        """Whether the length of an epoch is the number of records.

        By default, it is the number of examples.
        """
        return False

    @property
    def records_share_weight(self) -> bool:
        """Whether the records of an example share its weight in the training loss.

        If True, each example has the same weight, and the objective must apply
        `head_objective.weighted` to its losses.
        """
        return False

    @property
    def selection(self) -> tuple[str, ...]:
        """The settings that select what is read from the files, such as the names of columns."""
        return ()

    @property
    def facts(self) -> TaskFacts:
        """Facts about the task, such as its name and labels.

        They are saved with the weights, runs and records, for later comparison, and are
        used by exports.
        """
        raise NotImplementedError

    @property
    def output_files(self) -> Sequence[str]:
        """The names of the files that evaluations and predictions write to the run's folder."""
        return (
            "eval_results.txt",
            "eval_report.txt",
            "errors.jsonl",
            *self.prediction_files,
            DEV_EXAMPLES,
            RESULTS,
        )

    def splits(self, kind: str, location: DataLocation) -> Sequence[Split]:
        """Returns the splits of a kind; by default, one split.

        The default split is the explicit file, or a file with a conventional name. The
        metrics of the dev split `held_out_split` select the best weights.

        Args:
            kind: One of `splits.KINDS`.
            location: The location of the data set.

        Raises:
            InputError: The file of a split does not exist, or there are several.
        """
        path = location.find_table(kind, self.split_names, self.endings)
        source = FileSource(path, self.selection, table_format=location.table_format)
        return [Split(kind, source)]

    def read(self, split: Split, counts: RowCounts) -> Iterator[Any]:
        """Yields the examples of a split up to `split.limit`.

        The examples are not held in memory.

        Args:
            split: A split that `splits` returned.
            counts: Receives the number of skipped or unusual rows, by reason, and the
                number of examples with each label.

        Raises:
            InputError: A line is malformed. The message contains the file and the line.
        """
        labels: Counter[str] = Counter()
        examples = self.examples(split, counts)
        for example in itertools.islice(examples, split.limit or None):
            labels.update(self.labels_of(example))
            yield example
        if labels:
            counts.report_labels(labels, split)

    def labels_of(self, example: Any) -> Sequence[str]:
        """Returns the labels of an example for the report of a split.

        Returns [""] for an example without a label. By default, returns (), and the
        report has no labels.
        """
        return ()

    def examples(self, split: Split, counts: RowCounts) -> Iterator[Any]:
        """Yields all examples of a split; `read` describes the arguments."""
        raise NotImplementedError

    def as_row(self, example: Any) -> Row:
        """Returns an example as JSON values for `dev_examples.jsonl`.

        By default, calls `example.as_row()`. {} means that exports cannot be evaluated
        on the example.
        """
        return example.as_row()

    def for_split(self, split: Split) -> "Task":
        """Returns the task that encodes a split; by default, `self`.

        The records of the split are those of its `encode`, `table` and `sizes`.
        """
        return self

    def encode(
        self, examples: Sequence[Any], tokenizer: "BertTokenizer", max_seq_length: int
    ) -> Encoded:
        """Converts a block of examples to records. Several threads call this method."""
        raise NotImplementedError

    def make_objective(
        self, config: BertConfig, *, seed: int, dtype: str, recompute: bool = False
    ) -> Any:
        """Builds the model, and returns its `head_objective.HeadObjective`.

        Args:
            config: The architecture.
            seed: Determines the initial weights.
            dtype: A Keras dtype policy, such as "mixed_bfloat16".
            recompute: Whether to use gradient checkpointing; see `RuntimeConfig`.
        """
        raise NotImplementedError

    def make_results(self, split: Split) -> TaskResults:
        """Returns the object that computes the results of a split."""
        raise NotImplementedError
