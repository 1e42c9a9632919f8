"""The results of classification, regression and multi-label classification.

`TextResults` has the parts that all task types of texts share.

SciPy and scikit-learn are imported inside functions, so that the programs show their
help quickly.
"""

import dataclasses
import itertools
import json
import logging
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.errors import shortened
from bert_tf.tasks.classification.classification_metrics import (
    OF_OUTCOMES,
    OF_PAIRS,
    OF_SCORES,
    LabelPairs,
    binary_scores,
)
from bert_tf.tasks.classification.submission import HEADER, Submission
from bert_tf.tasks.classification.text_examples import TextExample
from bert_tf.tasks.results import (
    Metrics,
    Outputs,
    TaskResults,
    shortest_float,
    with_prediction,
)
from bert_tf.tasks.splits import Split
from bert_tf.tasks.tables import Row, aligned

_LOGGER = logging.getLogger(__name__)
# The number of examples that are scored in one NumPy call.
_BLOCK = 4096
_SHOWN_LABELS = 1000
# The largest number of labels for which a report contains the confusion matrix.
_MAX_MATRIX = 100
# The largest number of labels for which TensorBoard shows the confusion matrix, and the
# width in pixels and the color of a cell with all examples of a label.
_MAX_IMAGE = 30
_SQUARE = 22
_BLUE = (8, 48, 107)
_MANY = 20  # examples, among which one expects more than one label


@dataclasses.dataclass(eq=False)
class TextResults(TaskResults):
    """Computes the metrics of texts with labels or scores, and writes the predictions.

    The files are `test_results.tsv`, `predictions.jsonl`, and the file for a
    benchmark's server, if `submission` has a file name for the split. A line of
    `predictions.jsonl` has the columns of the input row (at least the texts and a known
    label), and then the prediction.

    Counts are kept instead of examples where possible, so that a split of any size fits
    in memory. Metrics that are undefined for the examples, such as the correlation with
    constant predictions, are 0.

    Attributes:
        labels: The labels in the order of the model outputs; () for regression.
        metric_names: The metrics in addition to the loss.
        split: The split, whose suffix ends the file names. None if no file is written.

    Source: google-research/bert `run_classifier.main` (test_results.tsv).
    """

    labels: Sequence[str] = ()
    metric_names: Sequence[str] = ()
    threshold: float = 0.5
    split: Split | None = None
    submission: Submission | None = None

    scores_predictions = True
    # The name of the output that test_results.tsv contains.
    output = "probabilities"

    def __post_init__(self) -> None:
        super().__init__()
        self._index = {label: number for number, label in enumerate(self.labels)}
        self._block: list[tuple[Any, Outputs]] = []
        self._loss = 0.0

    @property
    def functions(self) -> Mapping[str, Callable[[Any], float]]:
        """The functions that compute the metrics, by the names of the metrics."""
        raise NotImplementedError

    @property
    def file_names(self) -> list[str]:  # type: ignore[override]
        """The names of the files with predictions."""
        assert self.split is not None
        with_suffix = self.split.with_suffix
        submission = self.submission
        names = [
            f"{with_suffix('test_results')}.tsv",
            f"{with_suffix('predictions')}.jsonl",
        ]
        name = submission.file_names.get(self.split.suffix) if submission else None
        return [*names, name] if name else names

    def decode(self, example: TextExample, outputs: Sequence[Outputs]) -> Outputs:
        """Returns the mean of the outputs for the windows of a text.

        The logits are computed from the mean probabilities (for regression, they are
        the mean score), so that the loss is the loss of the averaged prediction.
        """
        if len(outputs) == 1:
            return outputs[0]
        of_windows = _stacked(outputs)  # [W, C] each
        means = {name: values.mean(axis=0) for name, values in of_windows.items()}
        logits = self._mean_logits(of_windows["logits"].astype(np.float64))
        return {**means, "logits": logits}

    def _mean_logits(self, logits: np.ndarray) -> np.ndarray:
        """Returns the logits [C] of the mean prediction of W windows from their logits [W, C]."""
        return logits.mean(axis=0)

    def score(self, example: TextExample, prediction: Outputs) -> None:
        """Adds an example to the metrics; ignores an example without a label."""
        if example.label is not None:
            self._count += 1
            self._block.append((example.label, prediction))
            if len(self._block) >= _BLOCK:
                self._flush()

    def error(
        self, example: TextExample, prediction: Outputs
    ) -> tuple[float, Row] | None:
        """Returns how bad a wrong prediction is, and its row in predictions.jsonl."""
        values = np.atleast_1d(prediction[self.output])
        if example.label is None or not (bad := self._badness(example.label, values)):
            return None
        return bad, with_prediction(example.file_row(), self._as_json(values))

    def _badness(self, label: Any, values: np.ndarray) -> float:
        """Returns how wrong the output `values` [C] is for a label; 0 for a right prediction."""
        raise NotImplementedError

    def _flush(self) -> None:
        if not self._block:
            return
        labels, outputs = zip(*self._block, strict=True)
        stacked = _stacked(outputs)  # [N, C] each
        logits: np.ndarray = stacked["logits"].astype(np.float64)
        self._loss += float(self._add(labels, logits, stacked))
        self._block = []

    def _add(
        self, labels: Sequence[Any], logits: np.ndarray, outputs: Outputs
    ) -> float:
        """Adds a block of N examples; returns the sum of its losses.

        `logits` is float64 [N, C]. `outputs` has the outputs of the model by name:
        float32 [N, C], or [N] for scores.
        """
        raise NotImplementedError

    def metrics(self) -> Metrics:
        """Returns the loss and the metrics; {} if no example has a label."""
        self._flush()
        if not self._count:
            return {}
        return {"loss": self._loss / self._count, **self._metrics_of(self._counted())}

    def baseline(self) -> Metrics:
        """Returns the metrics of always predicting the most frequent label."""
        self._flush()
        return self._metrics_of(self._constant())

    def _metrics_of(self, counted: Any) -> Metrics:
        """Returns the metrics except the loss, from the result of `_counted` or `_constant`."""
        with warnings.catch_warnings():
            # scikit-learn and SciPy warn about metrics without a definition.
            warnings.simplefilter("ignore")
            return {
                name: float(self.functions[name](counted)) for name in self.metric_names
            }

    def _counted(self) -> Any:
        """Returns the argument of `functions` that describes the model's predictions."""
        raise NotImplementedError

    def _constant(self) -> Any:
        raise NotImplementedError

    def lines(self, example: TextExample, prediction: Outputs) -> list[str]:
        """Returns the line of an example for each file."""
        values = np.atleast_1d(prediction[self.output])
        predicted = self._as_json(values)
        row = with_prediction(example.file_row(), predicted)
        # Parquet files have values such as dates.
        text = json.dumps(row, ensure_ascii=False, default=str)
        lines = ["\t".join(map(str, values)), text]

        # The line for a benchmark's server.
        if self.submission:
            value = self.submission.text(next(iter(predicted.values())))
            header = "" if self._num_lines else "\t".join(HEADER) + "\n"
            lines.append(f"{header}{self._num_lines}\t{value}")
        return [f"{line}\n" for line in lines]

    def _as_json(self, values: np.ndarray) -> Row:
        """Returns the prediction, then its probability or the probabilities of all labels."""
        raise NotImplementedError

    def complete(self, folder: str) -> None:
        """Logs the order of the columns of test_results.tsv, which has no header."""
        if self.labels:
            _LOGGER.info(
                "%s has a column for each label, in this order: %s.",
                self.file_names[0],
                shortened(self.labels, _SHOWN_LABELS),
            )


class ClassificationResults(TextResults):
    """The accuracy, the mean cross entropy, and the further metrics of `OF_PAIRS`."""

    functions = OF_PAIRS

    def __post_init__(self) -> None:
        super().__post_init__()
        self.metric_names = ("accuracy", *self.metric_names)
        # The number of examples, by label * C + predicted label.
        self._pairs: Counter[int] = Counter()
        self._predicted: Counter[str] = Counter()  # the predictions that are written

    def _add(
        self, labels: Sequence[Any], logits: np.ndarray, outputs: Outputs
    ) -> float:
        ids = np.array([self._index[label] for label in labels])
        predicted = logits.argmax(axis=-1)

        self._pairs.update((ids * len(self.labels) + predicted).tolist())

        # The cross entropies: log sum exp(logits) - logit of the label, [N]
        true_logits = logits[np.arange(len(ids)), ids]
        return np.sum(np.logaddexp.reduce(logits, axis=-1) - true_logits)

    def _mean_logits(self, logits: np.ndarray) -> np.ndarray:
        """Returns the logits whose softmax is the mean of the probabilities of the windows."""
        logarithms = logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)
        return np.logaddexp.reduce(logarithms, axis=0)

    def _counted(self) -> LabelPairs:
        pairs, counts = np.array(sorted(self._pairs.items())).T
        num_labels = len(self.labels)
        return LabelPairs(pairs // num_labels, pairs % num_labels, counts, num_labels)

    def _constant(self) -> LabelPairs:
        pairs = self._counted()
        most_frequent = self._frequencies().argmax()
        return pairs._replace(predicted=np.full_like(pairs.true, most_frequent))

    def undefined(self, metric: str) -> str:
        """Returns which labels have no example, if the metric is then undefined; else ""."""
        counts = self._frequencies()
        missing = itertools.compress(self.labels, counts == 0)
        needs = {"f1": counts[1], "matthews_correlation": np.count_nonzero(counts) > 1}
        return "" if needs.get(metric, True) else f"no example of {', '.join(missing)}"

    def _frequencies(self) -> np.ndarray:
        """Returns the number of examples with each label: int64 [C]."""
        true, _, counts, num_labels = self._counted()
        return np.bincount(true, counts, num_labels).astype(np.int64)

    def report(self) -> str:
        """Returns accuracy, scores of each label, and the confusion matrix.

        With more than 100 labels, the confusion matrix is omitted.
        """
        self._flush()
        import sklearn.metrics

        true, predicted, counts, num_labels = self._counted()

        # Accuracy, and the scores of each label.
        scores = sklearn.metrics.precision_recall_fscore_support(
            true,
            predicted,
            labels=range(num_labels),
            sample_weight=counts,
            zero_division=0,
        )
        by_label = _class_report(self.labels, zip(*scores, strict=True))
        frequencies = self._frequencies()
        accuracy = counts[true == predicted].sum() / self._count
        text = (
            f"accuracy {accuracy:.4f}; {frequencies.max() / self._count:.4f} if the "
            f"most frequent label, {self.labels[int(frequencies.argmax())]}, is always "
            f"predicted\n\n{by_label}\n"
        )
        if num_labels > _MAX_MATRIX:
            return text

        # The confusion matrix.
        rows = [
            [name, *map(str, row)]
            for name, row in zip(self.labels, self._confusion_matrix(), strict=True)
        ]
        return (
            f"{text}\nConfusion matrix (rows: labels; columns: predicted labels):\n"
            f"{aligned([['', *self.labels], *rows])}\n"
        )

    def image(self) -> np.ndarray | None:
        """Returns a picture of the confusion matrix, as shares of rows; None for over 30 labels."""
        self._flush()
        if len(self.labels) > _MAX_IMAGE:
            return None
        matrix = self._confusion_matrix()
        shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)

        # A square for each pair of labels, with a white border.
        square = np.pad(np.ones([_SQUARE, _SQUARE]), 1)
        ink = np.kron(shares, square)[..., None]
        return (255 - ink * (255 - np.array(_BLUE))).astype(np.uint8)

    def _confusion_matrix(self) -> np.ndarray:
        """Returns the number of examples by label (row) and predicted label: int64 [C, C]."""
        true, predicted, counts, num_labels = self._counted()
        matrix: np.ndarray = np.zeros([num_labels, num_labels], np.int64)
        matrix[true, predicted] = counts
        return matrix

    def _badness(self, label: Any, values: np.ndarray) -> float:
        best = int(values.argmax())
        return 0.0 if self.labels[best] == label else float(values[best])

    def lines(self, example: TextExample, prediction: Outputs) -> list[str]:
        """Returns the line of an example for each file, and counts the prediction."""
        self._predicted[self.labels[int(prediction[self.output].argmax())]] += 1
        return super().lines(example, prediction)

    def _as_json(self, values: np.ndarray) -> Row:
        best = int(values.argmax())
        return {
            "predicted": self.labels[best],
            "probability": shortest_float(values[best]),
        }

    def complete(self, folder: str) -> None:
        """Logs the order of the labels, and warns if all predictions are equal."""
        super().complete(folder)
        count = self._predicted.total()
        if count >= _MANY and len(self._predicted) == 1 and self.split:
            _LOGGER.warning(
                "warning: the model predicts %r for all %s examples of %s. Evaluate it "
                "on labelled examples before you use it.",
                *self._predicted,
                f"{count:,}",
                self.split.name,
            )


class MultiLabelResults(TextResults):
    """The mean sigmoid cross entropy, "micro_f1" and "macro_f1"."""

    functions = OF_OUTCOMES

    def __post_init__(self) -> None:
        super().__post_init__()
        # The number of examples, by label, and by 2 * (label is correct) + (label is
        # predicted).
        self._outcomes: np.ndarray = np.zeros([len(self.labels), 4], np.int64)

    def _mean_logits(self, logits: np.ndarray) -> np.ndarray:
        """Returns the logits whose sigmoids are the mean probabilities."""
        yes, no = (-np.logaddexp(0, sign * logits) for sign in (-1, 1))
        return np.logaddexp.reduce(yes, axis=0) - np.logaddexp.reduce(no, axis=0)

    def _is_predicted(self, probabilities: np.ndarray) -> np.ndarray:
        """Returns for each probability whether its label is predicted: bool, in the same shape."""
        return probabilities >= np.float32(self.threshold)

    def _add(
        self, labels: Sequence[Any], logits: np.ndarray, outputs: Outputs
    ) -> float:
        true = np.zeros(logits.shape, np.int64)  # [N, C]
        for row, names in zip(true, labels, strict=True):
            row[[self._index[name] for name in names]] = 1

        # The probabilities select the labels, so that the metrics count the same
        # predictions as the prediction files contain.
        outcomes = 2 * true + self._is_predicted(outputs["probabilities"])
        for outcome in range(4):
            self._outcomes[:, outcome] += np.count_nonzero(outcomes == outcome, axis=0)

        losses = np.logaddexp(0, logits) - logits * true
        return losses.mean(axis=-1).sum()

    def _badness(self, label: Any, values: np.ndarray) -> float:
        # The largest distance of a probability to its correct value, 0 or 1, for the
        # labels that are predicted wrongly.
        true = np.array([name in label for name in self.labels])
        wrong = self._is_predicted(values) != true
        return float((wrong * np.abs(values - true)).max())

    def _counted(self) -> np.ndarray:
        return self._outcomes

    def _constant(self) -> np.ndarray:
        positive = self._outcomes[:, 2:].sum(axis=1)
        outcomes = np.zeros_like(self._outcomes)
        outcomes[:, 0], outcomes[:, 2] = self._count - positive, positive
        best = positive.argmax()
        outcomes[best] = outcomes[best, [1, 0, 3, 2]]  # this label is always predicted
        return outcomes

    def undefined(self, metric: str) -> str:
        """Returns "no label" if no example has one, because F1 is then undefined."""
        return "" if self._outcomes[:, 2:].any() else "no label"

    def report(self) -> str:
        """Returns precision, recall, F1 and support of each label."""
        self._flush()
        return _class_report(self.labels, map(binary_scores, self._outcomes)) + "\n"

    def _as_json(self, values: np.ndarray) -> Row:
        return {
            "predicted": list(
                itertools.compress(self.labels, self._is_predicted(values))
            ),
            "probabilities": dict(
                zip(self.labels, map(shortest_float, values), strict=True)
            ),
        }


class RegressionResults(TextResults):
    """The mean squared error, and the correlations "pearson" and "spearman"."""

    output = "score"
    functions = OF_SCORES

    def __post_init__(self) -> None:
        super().__post_init__()
        self._scores: list[np.ndarray] = []  # [2, N] each: correct and predicted

    def _add(
        self, labels: Sequence[Any], logits: np.ndarray, outputs: Outputs
    ) -> float:
        scores = logits[:, 0]
        self._scores.append(np.stack([labels, scores.astype(np.float32)]))
        return np.square(scores - labels).sum()

    def _badness(self, label: Any, values: np.ndarray) -> float:
        return float(abs(values[0] - label))

    def _counted(self) -> np.ndarray:
        return np.concatenate(self._scores, axis=1)

    def undefined(self, metric: str) -> str:
        """Returns "equal scores" if all correct scores are equal: correlation is then undefined."""
        true, _ = self._counted()
        return "equal scores" if true.min() == true.max() else ""

    def baseline(self) -> Metrics:
        """Returns 0, the correlation of constant predictions, for each metric."""
        return dict.fromkeys(self.metric_names, 0.0)

    def _as_json(self, values: np.ndarray) -> Row:
        return {"score": shortest_float(values[0])}


RESULTS_BY_TYPE: Mapping[str, type[TextResults]] = {
    "classification": ClassificationResults,
    "regression": RegressionResults,
    "multi_label": MultiLabelResults,
}


def _stacked(outputs: Sequence[Outputs]) -> dict[str, np.ndarray]:
    """Stacks the outputs of several examples or windows, by name."""
    return {name: np.stack([output[name] for output in outputs]) for name in outputs[0]}


def _class_report(names: Sequence[str], scores: Iterable[Sequence[Any]]) -> str:
    """Returns a table of precision, recall, F1 and support of each of C labels."""
    rows = [
        [name, *(f"{score:.4f}" for score in row[:3]), str(int(row[3]))]
        for name, row in zip(names, scores, strict=True)
    ]
    return aligned([["label", "precision", "recall", "f1", "support"], *rows])
