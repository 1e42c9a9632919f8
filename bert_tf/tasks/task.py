"""The interface between a fine-tuning task and the code that all tasks share.

Shape letters: N examples, R records, B batch.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from bert_tf import features
from bert_tf.config import BertConfig
from bert_tf.errors import InputError
from bert_tf.head_config import HeadConfig

if TYPE_CHECKING:
    from bert_tf.tokenization import BertTokenizer

KINDS = ("train", "dev", "test")
# The entries of `Task.facts` that neither records nor weights depend on. They may differ between
# the training and the use of a model.
DECISION_FACTS = (
    "threshold", "n_best_size", "max_answer_length", "null_score_diff_threshold",
)  # fmt: skip
# The entries of `Task.facts` that records or weights depend on, and that may differ between the
# training and the use of a model.
CHANGEABLE_FACTS = (
    "doc_stride", "max_query_length", "version_2_with_negative", "padding_as_released",
    "num_choices", "document_context",
)  # fmt: skip
# The features of a batch that take the place of the encoder, if it is frozen: hidden states,
# float32 [B, T, K, H], and their mask, int32 [B, T]; see `feature_cache`.
CACHED_FEATURES, CACHED_MASK = "cached_features", "cached_mask"
# The entry of `Task.facts` with the layers of the head; see `HeadConfig`. Records do not depend on
# it.
HEAD_FACT = "head"
# The name of the file of `dev_examples`.
DEV_EXAMPLES = "dev_examples.jsonl"
# The name of the file of `dev_result`.
RESULTS = "results.json"
# The outputs of the model for one record, by name; without the batch dimension.
Outputs = Mapping[str, np.ndarray]


def head_facts(head: HeadConfig) -> dict[str, Any]:
    """Returns the entry of `Task.facts` for the layers of the head; {} for the default head."""
    return {} if head.is_default else {HEAD_FACT: head.to_dict()}


@dataclasses.dataclass(frozen=True)
class DataLocation:
    """The place of a data set. A task finds its splits there.

    Attributes:
        data_dir: Folder with files of conventional names, or None.
        train_file, dev_file, test_file: Files that replace the files of these names in `data_dir`.
        tfds_name: Name of a data set of tensorflow-datasets, such as "glue/mrpc", or None.
        tfds_data_dir: Folder of prepared data sets, or None for the default folder.
        eval_fraction, test_fraction: The shares of the texts in the train file that are the dev and
            the test split instead; for the user's own tables.
        max_train_examples, max_eval_examples: Only this number of examples, from the start, is
            read from the train split and from each other split; 0 reads all.
    """

    data_dir: str | None = None
    train_file: str | None = None
    dev_file: str | None = None
    test_file: str | None = None
    tfds_name: str | None = None
    tfds_data_dir: str | None = None
    eval_fraction: float = 0.0
    test_fraction: float = 0.0
    max_train_examples: int = 0
    max_eval_examples: int = 0

    def __post_init__(self) -> None:
        shares = {"eval_fraction": self.eval_fraction, "test_fraction": self.test_fraction}
        if not (min(shares.values()) >= 0 and sum(shares.values()) < 1):
            raise InputError(
                "eval_fraction and test_fraction must be at least 0, and less than 1 together. "
                f"Received: {self.eval_fraction} and {self.test_fraction}."
            )
        for name, file in zip(shares, ("dev_file", "test_file"), strict=True):
            other = "tfds_name" if self.tfds_name else file
            if shares[name] and getattr(self, other):
                raise InputError(f"{name} and {other} give the same split. Give one of them.")

    def explicit_file(self, kind: str) -> str | None:
        """Returns the file that was given for a kind of split, or None."""
        return {"train": self.train_file, "dev": self.dev_file, "test": self.test_file}[kind]

    def part(self, kind: str) -> tuple[float, float] | None:
        """Returns the first and the last share of the train file's texts that are a split.

        None if the train file is one split, or if the split has a file of its own.
        """
        dev, test = self.eval_fraction, 1 - self.test_fraction
        first, last = {"dev": (0.0, dev), "test": (test, 1.0), "train": (dev, test)}[kind]
        return (first, last) if 0 < last - first < 1 else None


class Source(Protocol):
    """The file, or the part of a data set, that contains the examples of a split."""

    @property
    def name(self) -> str:
        """The path of the file, or another text that identifies the source in messages."""

    def fingerprint(self) -> str:
        """Returns text that differs if the content differs.

        Raises:
            InputError: The source does not exist or cannot be read.
        """


@dataclasses.dataclass(frozen=True)
class Split:
    """One split of a data set.

    Attributes:
        kind: One of `KINDS`.
        source: The examples.
        suffix: Distinguishes splits, such as "mismatched"; usually "" for the first one. The suffix
            is also the end of the names of metrics and of output files.
        limit: The maximum number of examples to read, from the start; 0 reads all.
    """

    kind: str
    source: Source
    suffix: str = ""
    limit: int = 0

    @property
    def name(self) -> str:
        """The name of the split, such as "dev" or "dev_mismatched"."""
        return self.with_suffix(self.kind)

    def with_suffix(self, text: str) -> str:
        """Appends the suffix, if there is one: "accuracy" becomes "accuracy_mismatched"."""
        return f"{text}_{self.suffix}" if self.suffix else text

    def result_name(self, metric: str) -> str:
        """Returns the name of a metric in the results: "eval_f1", or "test_f1" of a test split."""
        return self.with_suffix(f"{'test' if self.kind == 'test' else 'eval'}_{metric}")


@dataclasses.dataclass(frozen=True)
class Encoded:
    """The records of a block of N examples.

    Attributes:
        columns: For each feature of the task's table, an array [R, ...].
        records_per_example: int [N], the number of records of each example; the sum is R. None if
            each example gives one record.
        counts: The number of examples with a property that is worth a line in the report, such as
            {"truncated": 12}.
    """

    columns: Mapping[str, np.ndarray]
    records_per_example: np.ndarray | None = None
    counts: Mapping[str, int] = dataclasses.field(default_factory=dict)


class Task(Protocol):
    """Reads a data set, converts it to records, and evaluates the model's predictions."""

    @property
    def name(self) -> str:
        """The value of --task_name, in lower case."""

    @property
    def table(self) -> features.Table:
        """The features of a record; at least those of `features.INPUTS`."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """Sizes by shape letter for `table`, except S, such as {"C": 4}."""

    @property
    def facts(self) -> dict[str, Any]:
        """JSON values about the task, such as `task` (its name) and `labels`.

        The facts are saved with the weights, and are used by exports.
        """

    @property
    def best_by(self) -> tuple[str, int]:
        """The metric that selects the best weights, and 1 if higher values are better, else -1."""

    @property
    def output_files(self) -> Sequence[str]:
        """The names of the files that evaluations and predictions write into the run's folder."""

    @property
    def groups_by_length(self) -> bool:
        """Whether the records of a training batch have similar lengths, which saves padding."""

    @property
    def records_per_example(self) -> float:
        """The records of an epoch divided by the examples; 1 if epochs are counted in examples."""

    def splits(self, kind: str, location: DataLocation) -> Sequence[Split]:
        """Finds the splits of a kind; the metrics of the first dev split select the best weights.

        Args:
            kind: One of `KINDS`.
            location: The place of the data set.

        Raises:
            InputError: The file of a split does not exist.
        """

    def read(self, split: Split, counts: Counter[str]) -> Iterator[Any]:
        """Yields the examples of a split up to `split.limit`, without holding them in memory.

        Args:
            split: A split that `splits` returned.
            counts: Receives the number of skipped or unusual rows, by reason.

        Raises:
            InputError: A line is malformed. The message contains the file and the line.
        """

    def as_row(self, example: Any) -> dict[str, Any]:
        """Returns an example as JSON values; see `dev_examples`."""

    def encode(
        self, examples: Sequence[Any], tokenizer: "BertTokenizer", max_seq_length: int
    ) -> Encoded:
        """Converts a block of examples to records. Several threads call this method."""

    def make_objective(
        self, config: BertConfig, *, seed: int, dtype: str, recompute: bool = False
    ) -> Any:
        """Builds the model and its loss. The attribute `best_by` is the one of the task.

        Args:
            config: The architecture.
            seed: Determines the initial weights.
            dtype: A Keras dtype policy, such as "mixed_bfloat16".
            recompute: Whether to use gradient checkpointing; see `RuntimeConfig`.
        """

    def make_results(self, split: Split) -> Any:
        """Returns a `tasks.results.TaskResults` for a split."""
