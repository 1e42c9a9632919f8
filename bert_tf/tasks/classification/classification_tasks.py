"""The classification tasks: three GLUE tasks, and a task for the user's own data files.

The programs list the tasks in their help texts, so this module imports TensorFlow and scikit-learn
inside functions.
"""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bert_tf import features, files
from bert_tf.config import BertConfig
from bert_tf.errors import InputError
from bert_tf.tasks.classification.text_files import (
    Columns,
    TextExample,
    find_split_file,
    read_custom,
    read_glue,
)

if TYPE_CHECKING:
    from bert_tf.tasks.classification.classification_objective import ClassificationObjective
    from bert_tf.tokenization import BertTokenizer

Metric = Callable[[np.ndarray, np.ndarray], float]


@dataclasses.dataclass(frozen=True)
class ClassificationTask:
    """A `tasks.task.Task` that assigns one label to each sentence or sentence pair.

    Attributes:
        name: The value of --task_name, in lower case.
        labels: The labels in the order of the model outputs. For GLUE, this order is that of
            google-research/bert.
        pair: Whether an example is a pair of texts.
        read_split: Function that takes data_dir and the name of a split, and returns the examples.
        further_metrics: The metrics in addition to accuracy and loss. A key is the name of a
            metric; the value is a function of the labels and the predicted labels.
    """

    name: str
    labels: tuple[str, ...]
    pair: bool
    read_split: Callable[[str, str], list[TextExample]]
    further_metrics: Mapping[str, Metric] = dataclasses.field(default_factory=dict)

    table = features.CLASSIFICATION

    @property
    def facts(self) -> dict[str, Any]:
        """Returns the name of the task, its labels, and whether an example is a pair."""
        return {"task": self.name, "labels": list(self.labels), "pair": self.pair}

    def read(self, data_dir: str, split: str) -> list[TextExample]:
        """Reads the examples of a split."""
        return self.read_split(data_dir, split)

    def encode(
        self, examples: Sequence[TextExample], tokenizer: "BertTokenizer", max_seq_length: int
    ) -> dict[str, np.ndarray]:
        """Returns an array per feature of `features.CLASSIFICATION`; a missing label becomes 0."""
        texts_a = [example.text_a for example in examples]
        texts_b = [example.text_b or "" for example in examples] if self.pair else None
        packed = tokenizer.encode(texts_a, texts_b, seq_length=max_seq_length)
        index = {label: number for number, label in enumerate(self.labels)}
        labels = [0 if example.label is None else index[example.label] for example in examples]
        return {
            **{name: value.numpy() for name, value in packed.items()},
            "label_ids": np.array(labels, np.int64),
            "is_real_example": np.ones(len(examples), np.int64),
        }

    def make_objective(
        self, config: BertConfig, *, seed: int, dtype: str, recompute: bool = False
    ) -> "ClassificationObjective":
        """Builds a classifier with `len(labels)` outputs; see `tasks.task.Task`."""
        from bert_tf.modeling import BertClassifier
        from bert_tf.tasks.classification.classification_objective import ClassificationObjective

        model = BertClassifier(
            config, num_labels=len(self.labels), recompute=recompute, seed=seed, dtype=dtype
        )
        return ClassificationObjective(model)

    def metrics(
        self, columns: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]
    ) -> dict[str, float]:
        """Returns the metrics of google-research/bert (accuracy and loss) and `further_metrics`."""
        labels, logits = columns["label_ids"], np.asarray(outputs["logits"], np.float64)
        predicted: np.ndarray = logits.argmax(axis=-1)
        true_logits = np.take_along_axis(logits, labels[:, None], axis=-1)[:, 0]
        loss = float(np.mean(np.logaddexp.reduce(logits, axis=-1) - true_logits))
        further = {
            f"eval_{name}": float(metric(labels, predicted))
            for name, metric in self.further_metrics.items()
        }
        accuracy = float(np.mean(predicted == labels))
        return {"eval_accuracy": accuracy, "eval_loss": loss, "loss": loss, **further}

    def write_predictions(
        self, folder: str, examples: Sequence[TextExample], outputs: Mapping[str, np.ndarray]
    ) -> str:
        """Writes `test_results.tsv`: per example, a line of tab-separated label probabilities.

        Source: google-research/bert `run_classifier.main`.
        """
        rows = outputs["probabilities"]
        path = os.path.join(folder, "test_results.tsv")
        text = "".join("\t".join(str(value) for value in row) + "\n" for row in rows)
        files.write_text(path, text)
        return path


def custom(
    text_a_column: str,
    text_b_column: str | None,
    label_column: str,
    labels: Sequence[str],
) -> ClassificationTask:
    """Creates a task for the user's own train, dev and test files: `.tsv`, `.csv` or `.jsonl`.

    Args:
        text_a_column: Column of the sentence, or of the first sentence of a pair.
        text_b_column: Column of the second sentence of a pair, or None.
        label_column: Column of the label; test files may lack this column.
        labels: All labels, in the order of the outputs.

    Raises:
        InputError: There are fewer than two labels, or a label is repeated.
    """
    if len(set(labels)) < max(2, len(labels)):
        raise InputError(
            f"A classifier needs at least two different labels. Received: {', '.join(labels)}."
        )

    def read_split(data_dir: str, split: str) -> list[TextExample]:
        label = None if split == "test" else label_column
        return read_custom(
            find_split_file(data_dir, split), text_a_column, text_b_column, label, labels
        )

    return ClassificationTask("custom", tuple(labels), text_b_column is not None, read_split)


def labels_of(data_dir: str, text_a_column: str, label_column: str) -> list[str]:
    """Returns the sorted labels that occur in the user's train file.

    Raises:
        InputError: The train file is missing or malformed.
    """
    path = find_split_file(data_dir, "train")
    examples = read_custom(path, text_a_column, None, label_column, labels=None)
    return sorted({example.label for example in examples if example.label is not None})


def _glue(
    name: str, pair: bool, train: Columns, test: Columns, **further: Metric
) -> ClassificationTask:
    labels = ("0", "1")

    def read_split(data_dir: str, split: str) -> list[TextExample]:
        columns = test if split == "test" else train
        return read_glue(os.path.join(data_dir, f"{split}.tsv"), columns, labels)

    return ClassificationTask(name, labels, pair, read_split, further)


def _f1(labels: np.ndarray, predicted: np.ndarray) -> float:
    import sklearn.metrics

    return float(sklearn.metrics.f1_score(labels, predicted))


def _matthews_correlation(labels: np.ndarray, predicted: np.ndarray) -> float:
    import sklearn.metrics

    return float(sklearn.metrics.matthews_corrcoef(labels, predicted))


MRPC = _glue(
    "mrpc",
    True,
    Columns(text_a=3, text_b=4, label=0),
    Columns(text_a=3, text_b=4),
    f1=_f1,
)
SST2 = _glue("sst-2", False, Columns(text_a=0, label=1), Columns(text_a=1))
COLA = _glue(
    "cola",
    False,
    Columns(text_a=3, label=1, header=False),
    Columns(text_a=1),
    matthews_correlation=_matthews_correlation,
)
