"""The metrics of classification and regression, by name.

A metric that is undefined for the examples, such as the correlation with constant
predictions, has the value 0. scikit-learn and SciPy, which may warn about it, are
imported inside functions, so that the programs show their help quickly.

Shape letters: C labels, P pairs of a label and a predicted label, N examples.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

# The further metrics of each task type, and the metric that selects the best weights.
DEFAULTS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "classification": (("macro_f1",), "accuracy"),
    "regression": (("pearson", "spearman"), "spearman"),
    "multi_label": (("micro_f1", "macro_f1"), "micro_f1"),
}


class LabelPairs(NamedTuple):
    """The distinct pairs of a correct and a predicted label, as indices: int [P] each.

    `counts`, int [P], is the number of examples of each pair. `num_labels` is C.
    """

    true: np.ndarray
    predicted: np.ndarray
    counts: np.ndarray
    num_labels: int


class BinaryScores(NamedTuple):
    """The scores of one label; `support` is the number of examples that have it."""

    precision: float
    recall: float
    f1: float
    support: int


def binary_scores(outcomes: np.ndarray) -> BinaryScores:
    """Returns the scores of a label from the number of examples with each outcome.

    `outcomes` is int [4]; the index of an outcome is 2 * (the label is correct) + (the
    label is predicted).
    """
    import sklearn.metrics

    precision, recall, f1, _ = sklearn.metrics.precision_recall_fscore_support(
        [0, 0, 1, 1],
        [0, 1, 0, 1],
        average="binary",
        sample_weight=outcomes,
        zero_division=0,
    )
    return BinaryScores(precision, recall, f1, outcomes[2:].sum())


def _accuracy(pairs: LabelPairs) -> float:
    is_correct = pairs.true == pairs.predicted
    return pairs.counts[is_correct].sum() / pairs.counts.sum()


def _mean_f1_of_labels(pairs: LabelPairs, labels: Sequence[int] | None = None) -> float:
    import sklearn.metrics

    return sklearn.metrics.f1_score(
        pairs.true,
        pairs.predicted,
        labels=labels or range(pairs.num_labels),
        average="macro",
        sample_weight=pairs.counts,
        zero_division=0,
    )


def _matthews_correlation(pairs: LabelPairs) -> float:
    import sklearn.metrics

    return sklearn.metrics.matthews_corrcoef(
        pairs.true, pairs.predicted, sample_weight=pairs.counts
    )


def _f1_of_all_decisions(outcomes: np.ndarray) -> float:
    return binary_scores(outcomes.sum(axis=0)).f1


def _mean_f1_of_outcomes(outcomes: np.ndarray) -> float:
    return float(np.mean([binary_scores(row).f1 for row in outcomes]))


def _correlation(name: str, scores: np.ndarray) -> float:
    """Returns SciPy's correlation `name` of two rows; 0 if the values of a row are all equal."""
    import scipy.stats  # type: ignore[import-untyped]

    if any(values.min() == values.max() for values in scores):
        return 0.0
    return getattr(scipy.stats, name)(*scores).statistic


# The metrics of classification, which are computed from pairs of labels.
OF_PAIRS: Mapping[str, Callable[[LabelPairs], float]] = {
    "accuracy": _accuracy,
    "f1": functools.partial(_mean_f1_of_labels, labels=[1]),  # of the second label
    "macro_f1": _mean_f1_of_labels,
    "matthews_correlation": _matthews_correlation,
}
# The metrics of multi-label classification, which are computed from the outcomes of
# each label, int [C, 4]; see `binary_scores`.
OF_OUTCOMES: Mapping[str, Callable[[np.ndarray], float]] = {
    "micro_f1": _f1_of_all_decisions,
    "macro_f1": _mean_f1_of_outcomes,
}
# The metrics of regression, which are computed from the correct and the predicted
# scores, float64 [2, N].
OF_SCORES: Mapping[str, Callable[[np.ndarray], float]] = {
    "pearson": functools.partial(_correlation, "pearsonr"),
    "spearman": functools.partial(_correlation, "spearmanr"),
}
