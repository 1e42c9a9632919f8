"""Computes the metrics of classification, regression and multi-label classification.

The scorers keep counts instead of examples where possible, so that a split of any size fits in
memory. scikit-learn and SciPy are imported inside functions, because the programs show their help
without them. Metrics without a definition for the given examples, such as the correlation with
constant predictions, are 0.
"""

import array
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bert_tf.tasks.classification.examples import TextExample
from bert_tf.tasks.task import Outputs
from bert_tf.tasks.text_tables import aligned

# The number of examples that are scored in one NumPy call.
_BLOCK = 4096
# The largest number of labels for which a report contains the confusion matrix.
_MAX_MATRIX = 100


def is_predicted(probabilities: np.ndarray, threshold: float) -> np.ndarray:
    """Returns which labels a multi-label task predicts: bool, with the shape of the input."""
    return probabilities >= np.float32(threshold)


class _BlockScorer:
    """Collects labels and logits, and passes them to `_score` in blocks.

    Examples without a label are ignored.
    """

    def __init__(self) -> None:
        self._labels: list[Any] = []
        self._logits: list[np.ndarray] = []
        self._count, self._loss = 0, 0.0

    def add(self, example: TextExample, outputs: Sequence[Outputs]) -> None:
        """Adds an example; `outputs` has one element."""
        if example.label is None:
            return
        self._labels.append(example.label)
        self._logits.append(outputs[0]["logits"])
        if len(self._labels) >= _BLOCK:
            self._flush()

    def _flush(self) -> None:
        if self._labels:
            logits = np.stack(self._logits).astype(np.float64)
            self._loss += float(self._score(self._labels, logits))
            self._count += len(self._labels)
            self._labels, self._logits = [], []

    def _score(self, labels: Sequence[Any], logits: np.ndarray) -> float:
        """Adds a block; returns the sum of its losses.

        Args:
            labels: The labels of N examples.
            logits: float64 [N, C].
        """
        raise NotImplementedError

    def results(self) -> dict[str, float]:
        """Returns the metrics of all examples; empty if no example has a label."""
        self._flush()
        if not self._count:
            return {}
        with warnings.catch_warnings():
            # scikit-learn and SciPy warn about metrics without a definition; see the module.
            warnings.simplefilter("ignore")
            return {k: float(v) for k, v in self._metrics(self._loss / self._count).items()}

    def _metrics(self, loss: float) -> dict[str, float]:
        raise NotImplementedError

    def baseline(self) -> dict[str, float]:
        """Returns the metrics of the most frequent label; see `tasks.task.Scorer`."""
        self._flush()
        if not self._count:
            return {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values = self._constant_scorer()._metrics(0.0)
        return {name: float(value) for name, value in values.items() if name != "loss"}

    def _constant_scorer(self) -> "_BlockScorer":
        """Returns a scorer to which the same examples were added with one prediction for all."""
        raise NotImplementedError


class ClassificationScorer(_BlockScorer):
    """A `tasks.task.Scorer`: accuracy, the mean cross entropy, and further metrics.

    Args:
        labels: The labels in the order of the model outputs.
        metric_names: Any of "f1" (of the second label), "macro_f1", "matthews_correlation".
    """

    def __init__(self, labels: Sequence[str], metric_names: Sequence[str] = ()) -> None:
        super().__init__()
        self._names, self._metric_names = tuple(labels), tuple(metric_names)
        self._index = {label: number for number, label in enumerate(labels)}
        # The number of examples, by label * C + predicted label.
        self._pairs: Counter[int] = Counter()

    def _score(self, labels: Sequence[Any], logits: np.ndarray) -> float:
        ids = np.array([self._index[label] for label in labels])
        pairs, counts = np.unique(
            ids * len(self._names) + logits.argmax(axis=-1), return_counts=True
        )
        self._pairs.update(dict(zip(pairs.tolist(), counts.tolist(), strict=True)))
        true_logits = np.take_along_axis(logits, ids[:, None], axis=-1)[:, 0]
        return np.sum(np.logaddexp.reduce(logits, axis=-1) - true_logits)

    def _constant_scorer(self) -> "ClassificationScorer":
        frequencies = self._frequencies()
        scorer = ClassificationScorer(self._names, self._metric_names)
        scorer._count, most_frequent = self._count, int(frequencies.argmax())
        for label in np.flatnonzero(frequencies).tolist():
            scorer._pairs[label * len(self._names) + most_frequent] = int(frequencies[label])
        return scorer

    def _frequencies(self) -> np.ndarray:
        """Returns the number of examples with each label: int64 [C]."""
        true, _, counts = self._weighted_pairs()
        return np.bincount(true, counts, len(self._names)).astype(np.int64)

    def _weighted_pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the distinct pairs of a label and a predicted label, and their counts."""
        pairs = np.array(sorted(self._pairs))
        counts = np.array([self._pairs[pair] for pair in pairs.tolist()])
        return pairs // len(self._names), pairs % len(self._names), counts

    def _metrics(self, loss: float) -> dict[str, float]:
        import sklearn.metrics

        true, predicted, counts = self._weighted_pairs()
        classes = np.arange(len(self._names))
        functions: dict[str, Callable[[], float]] = {
            "f1": lambda: sklearn.metrics.f1_score(
                true == 1, predicted == 1, sample_weight=counts, zero_division=0
            ),
            "macro_f1": lambda: sklearn.metrics.f1_score(
                true, predicted, labels=classes, average="macro", sample_weight=counts,
                zero_division=0,
            ),
            "matthews_correlation": lambda: sklearn.metrics.matthews_corrcoef(
                true, predicted, sample_weight=counts
            ),
        }  # fmt: skip
        accuracy = counts[true == predicted].sum() / self._count
        further = {name: functions[name]() for name in self._metric_names}
        return {"accuracy": accuracy, "loss": loss, **further}

    def report(self) -> str:
        """Returns accuracy, scores of each label, and the confusion matrix.

        The scores are precision, recall, F1 and support. With more than 100 labels, the confusion
        matrix is omitted.
        """
        self._flush()
        if not self._count:
            return ""
        import sklearn.metrics

        true, predicted, counts = self._weighted_pairs()
        classes = np.arange(len(self._names))
        scores = sklearn.metrics.precision_recall_fscore_support(
            true, predicted, labels=classes, sample_weight=counts, zero_division=0
        )
        frequencies = self._frequencies()
        accuracy = counts[true == predicted].sum() / self._count
        by_label = (
            f"accuracy {accuracy:.4f}; {frequencies.max() / self._count:.4f} if the most frequent "
            f"label, {self._names[frequencies.argmax()]}, is always predicted\n\n"
            f"{_class_report(self._names, scores)}\n"
        )
        if len(classes) > _MAX_MATRIX:
            return by_label
        matrix = sklearn.metrics.confusion_matrix(
            true, predicted, labels=classes, sample_weight=counts
        )
        rows = [[name, *map(str, row)] for name, row in zip(self._names, matrix, strict=True)]
        return (
            f"{by_label}\nConfusion matrix (rows: labels; columns: predicted labels):\n"
            f"{aligned([['', *self._names], *rows])}\n"
        )


class MultiLabelScorer(_BlockScorer):
    """A `tasks.task.Scorer`: the mean sigmoid cross entropy, micro- and macro-averaged F1.

    Args:
        labels: The labels in the order of the model outputs.
        metric_names: Any of "micro_f1" and "macro_f1".
        threshold: Probability in (0, 1) from which a label is predicted.
    """

    def __init__(
        self, labels: Sequence[str], metric_names: Sequence[str] = (), threshold: float = 0.5
    ) -> None:
        super().__init__()
        self._names, self._metric_names = tuple(labels), tuple(metric_names)
        self._index = {label: number for number, label in enumerate(labels)}
        self._threshold = threshold
        # The number of examples, by class, 2 * (class is a label) + (class is predicted).
        self._outcomes: np.ndarray = np.zeros([len(labels), 4], np.int64)

    def add(self, example: TextExample, outputs: Sequence[Outputs]) -> None:
        """Adds an example; `outputs` has one element."""
        if example.label is not None:
            # The probabilities select the labels, so that the metrics count the same predictions
            # as the prediction files contain.
            pair = np.stack([outputs[0]["logits"], outputs[0]["probabilities"]])
            super().add(example, [{"logits": pair}])

    def _score(self, labels: Sequence[Any], logits: np.ndarray) -> float:
        probabilities: np.ndarray = logits[:, 1].astype(np.float32)
        logits = logits[:, 0]
        true = np.zeros(logits.shape, np.int64)
        for row, names in zip(true, labels, strict=True):
            row[[self._index[name] for name in names]] = 1
        outcomes = 2 * true + is_predicted(probabilities, self._threshold)
        for outcome in range(4):
            self._outcomes[:, outcome] += np.count_nonzero(outcomes == outcome, axis=0)
        losses = np.logaddexp(0, logits) - logits * true
        return losses.mean(axis=-1).sum()

    def _constant_scorer(self) -> "MultiLabelScorer":
        positive = self._outcomes[:, 2:].sum(axis=1)
        scorer = MultiLabelScorer(self._names, self._metric_names, self._threshold)
        for label, count in enumerate(positive.tolist()):
            is_predicted = label == positive.argmax()
            scorer._outcomes[label, 0 + is_predicted] = self._count - count
            scorer._outcomes[label, 2 + is_predicted] = count
        return scorer

    def _scores(self, outcomes: np.ndarray) -> tuple[float, float, float, int]:
        """Returns precision, recall, F1 and support from the four counts of `_outcomes`."""
        import sklearn.metrics

        precision, recall, f1, _ = sklearn.metrics.precision_recall_fscore_support(
            [0, 0, 1, 1], [0, 1, 0, 1], average="binary", sample_weight=outcomes, zero_division=0
        )
        return float(precision), float(recall), float(f1), int(outcomes[2:].sum())

    def _metrics(self, loss: float) -> dict[str, float]:
        functions = {
            "micro_f1": lambda: self._scores(self._outcomes.sum(axis=0))[2],
            "macro_f1": lambda: float(np.mean([self._scores(row)[2] for row in self._outcomes])),
        }
        return {"loss": loss, **{name: functions[name]() for name in self._metric_names}}

    def report(self) -> str:
        """Returns precision, recall, F1 and support of each label."""
        self._flush()
        if not self._count:
            return ""
        scores = [self._scores(row) for row in self._outcomes]
        return _class_report(self._names, list(zip(*scores, strict=True))) + "\n"


class RegressionScorer(_BlockScorer):
    """A `tasks.task.Scorer`: the mean squared error, Pearson and Spearman correlation.

    Args:
        metric_names: Any of "pearson" and "spearman".
    """

    def __init__(self, metric_names: Sequence[str] = ()) -> None:
        super().__init__()
        self._metric_names = tuple(metric_names)
        self._true, self._predicted = array.array("d"), array.array("f")

    def _score(self, labels: Sequence[Any], logits: np.ndarray) -> float:
        true = np.array(labels, np.float64)
        self._true.frombytes(true.tobytes())
        self._predicted.frombytes(logits[:, 0].astype(np.float32).tobytes())
        return np.square(logits[:, 0] - true).sum()

    def _metrics(self, loss: float) -> dict[str, float]:
        import scipy.stats  # type: ignore[import-untyped]

        functions = {"pearson": scipy.stats.pearsonr, "spearman": scipy.stats.spearmanr}
        true, predicted = np.array(self._true), np.array(self._predicted, np.float64)
        is_constant = true.min() == true.max() or predicted.min() == predicted.max()
        further = {
            name: 0.0 if is_constant else functions[name](true, predicted).statistic
            for name in self._metric_names
        }
        return {"loss": loss, **further}

    def baseline(self) -> dict[str, float]:
        """Returns a correlation of 0 for each metric, that of constant predictions."""
        return dict.fromkeys(self._metric_names, 0.0)

    def report(self) -> str:
        """Returns "": the metrics of a regression are all in `results`."""
        return ""


def _class_report(names: Sequence[str], scores: Sequence[Any]) -> str:
    """Returns a table from precision, recall, F1 and support, each of which has C numbers."""
    rows = [
        [name, *(f"{score:.4f}" for score in row[:3]), str(int(row[3]))]
        for name, row in zip(names, zip(*scores, strict=True), strict=True)
    ]
    return aligned([["label", "precision", "recall", "f1", "support"], *rows])
