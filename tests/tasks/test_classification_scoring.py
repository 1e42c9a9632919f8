"""Metrics and reports, compared with scikit-learn and SciPy, and with formulas."""

import numpy as np
import pytest
import scipy.special
import scipy.stats
import sklearn.metrics

from bert_tf.tasks.classification.classification_results import (
    ClassificationResults,
    MultiLabelResults,
    RegressionResults,
)
from bert_tf.tasks.classification.text_examples import TextExample

# More than one block of examples.
COUNT = 5000
# Of one example with three labels.
ZEROS = [dict.fromkeys(["logits", "probabilities"], np.zeros(3, np.float32))]


def score(scorer, labels, outputs):
    for label, output in zip(labels, outputs, strict=True):
        scorer.score(TextExample("a", None, label), output)
    return scorer.metrics()


def random_logits(classes, count=COUNT, seed=0):
    return np.random.default_rng(seed).normal(size=[count, classes]).astype(np.float32)


def classified(names, ids, logits, metrics=()):
    """Returns the metrics, and the object that computed them."""
    outputs = [{"logits": row} for row in logits]
    scorer = ClassificationResults(names, metrics)
    return score(scorer, [names[i] for i in ids], outputs), scorer


def classify(*arguments):
    return classified(*arguments)[0]


@pytest.mark.parametrize("classes", [2, 5])
def test_classification_metrics_equal_scikit_learn(classes):
    names = tuple(f"class {number}" for number in range(classes))
    logits = random_logits(classes)
    ids = np.random.default_rng(1).integers(0, classes, COUNT)
    found = classify(names, ids, logits, ("macro_f1", "matthews_correlation"))
    predicted = logits.argmax(-1)
    probabilities = scipy.special.softmax(logits.astype(np.float64), axis=-1)
    expected = {
        "accuracy": sklearn.metrics.accuracy_score(ids, predicted),
        "loss": sklearn.metrics.log_loss(ids, probabilities),
        "macro_f1": sklearn.metrics.f1_score(ids, predicted, average="macro"),
        "matthews_correlation": sklearn.metrics.matthews_corrcoef(ids, predicted),
    }
    assert found == pytest.approx(expected, abs=1e-9)


def test_f1_is_that_of_the_second_label():
    logits, ids = random_logits(2), np.random.default_rng(1).integers(0, 2, COUNT)
    predicted = logits.argmax(-1)
    both = np.sum(predicted & ids)
    precision, recall = both / np.sum(predicted), both / np.sum(ids)
    found = classify(("x", "y"), ids, logits, ("f1",))
    assert found["f1"] == pytest.approx(
        2 * precision * recall / (precision + recall), abs=1e-12
    )


def test_a_literal_report():
    ids = [0, 0, 0, 1, 1, 2]
    logits = np.eye(3, dtype=np.float32)[[0, 0, 1, 1, 0, 1]]
    _, scorer = classified(("cat", "horse", "owl"), ids, logits)
    assert scorer.report() == (
        "accuracy 0.5000; 0.5000 if the most frequent label, cat, is always predicted\n"
        "\n"
        "label  precision  recall      f1  support\n"
        "cat       0.6667  0.6667  0.6667        3\n"
        "horse     0.3333  0.5000  0.4000        2\n"
        "owl       0.0000  0.0000  0.0000        1\n"
        "\n"
        "Confusion matrix (rows: labels; columns: predicted labels):\n"
        "       cat  horse  owl\n"
        "cat      2      1    0\n"
        "horse    1      1    0\n"
        "owl      0      1    0\n"
    )


@pytest.mark.parametrize(
    ("label", "f1"), [(0, 0), (1, 1)], ids=["only_first", "only_second"]
)
@pytest.mark.filterwarnings("error")
def test_one_class_gives_defined_numbers(label, f1):
    ids = [label, label]
    logits = np.eye(2, dtype=np.float32)[ids]
    found = classify(
        ("x", "y"), ids, logits, ("f1", "macro_f1", "matthews_correlation")
    )
    del found["loss"]
    expected = {"accuracy": 1, "f1": f1, "macro_f1": 0.5, "matthews_correlation": 0}
    assert found == pytest.approx(expected)


def multi_label_outputs(logits):
    return [
        {"logits": row, "probabilities": scipy.special.expit(row)} for row in logits
    ]


@pytest.mark.parametrize("threshold", [0.5, 0.3])
def test_multi_label_metrics_equal_scikit_learn(threshold):
    names = ("x", "y", "z")
    logits = random_logits(3)
    true = np.random.default_rng(1).integers(0, 2, [COUNT, 3])
    labels = [tuple(np.array(names)[row == 1].tolist()) for row in true]
    scorer = MultiLabelResults(names, ("micro_f1", "macro_f1"), threshold)
    found = score(scorer, labels, multi_label_outputs(logits))
    predicted = (scipy.special.expit(logits) >= threshold).astype(int)
    losses = [
        sklearn.metrics.log_loss(
            true[:, k], scipy.special.expit(logits[:, k].astype(np.float64))
        )
        for k in range(3)
    ]
    expected = {
        "loss": np.mean(losses),
        "micro_f1": sklearn.metrics.f1_score(true, predicted, average="micro"),
        "macro_f1": sklearn.metrics.f1_score(true, predicted, average="macro"),
    }
    assert found == pytest.approx(expected, abs=1e-9)
    report = sklearn.metrics.classification_report(
        true, predicted, target_names=names, output_dict=True, zero_division=0
    )
    lines = [line.split() for line in scorer.report().splitlines()]
    assert lines[0] == ["label", "precision", "recall", "f1", "support"]
    for name, line in zip(names, lines[1:], strict=True):
        values = report[name]
        numbers = [f"{values[key]:.4f}" for key in ("precision", "recall", "f1-score")]
        assert line == [name, *numbers, f"{values['support']:.0f}"]


@pytest.mark.filterwarnings("error")
def test_multi_label_metrics_without_any_label_are_zero():
    scorer = MultiLabelResults(("x", "y"), ("micro_f1", "macro_f1"))
    found = score(
        scorer, [(), ()], multi_label_outputs(np.full([2, 2], -9.0, np.float32))
    )
    assert (found["micro_f1"], found["macro_f1"]) == (0, 0)


def regress(labels, predicted):
    outputs = [{"logits": np.array([value], np.float32)} for value in predicted]
    return score(RegressionResults((), ("pearson", "spearman")), labels, outputs)


def test_regression_metrics_equal_scipy():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 6, COUNT) / 2  # with ties
    predicted = (labels + rng.normal(size=COUNT)).astype(np.float32)
    found = regress(labels.tolist(), predicted)
    ranks = [scipy.stats.rankdata(values) for values in (labels, predicted)]
    expected = {
        "loss": sklearn.metrics.mean_squared_error(labels, predicted),
        "pearson": np.corrcoef(labels, predicted)[0, 1],
        "spearman": np.corrcoef(*ranks)[0, 1],
    }
    assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("labels", "predicted"),
    [([1.0, 2.0], [3.0, 3.0]), ([1.0, 1.0], [2.0, 3.0]), ([1.0], [2.0])],
    ids=["constant_predictions", "constant_labels", "one_example"],
)
@pytest.mark.filterwarnings("error")
def test_correlations_without_a_definition_are_zero(labels, predicted):
    found = regress(labels, predicted)
    assert (found["pearson"], found["spearman"]) == (0, 0)


def undefined(scorer, labels, metric):
    score(scorer, labels, ZEROS * len(labels))
    return scorer.undefined(metric)


def test_metrics_are_undefined_without_a_positive_label_or_a_difference():
    def one_label(names, labels, metric):
        return undefined(ClassificationResults(names, ()), labels, metric)

    assert one_label(("no", "yes"), ["no", "no"], "f1") == "no example of yes"
    assert one_label(("no", "yes"), ["yes", "yes"], "f1") == ""
    assert (
        one_label(("no", "yes"), ["yes"], "matthews_correlation") == "no example of no"
    )
    assert one_label(("a", "b", "c"), ["b", "c"], "matthews_correlation") == ""
    assert one_label(("no", "yes"), ["no"], "accuracy") == ""
    several = MultiLabelResults(("x", "y", "z"), ("micro_f1",))
    assert undefined(several, [(), ()], "micro_f1") == "no label"
    assert undefined(several, [("y",)], "micro_f1") == ""
    scores = RegressionResults((), ("spearman",))
    assert undefined(scores, [2.0, 2.0], "spearman") == "equal scores"
    assert undefined(scores, [3.0], "spearman") == ""


def test_examples_without_a_label_are_ignored():
    scorer = ClassificationResults(("x", "y"))
    assert score(scorer, [None], [{"logits": np.zeros(2)}]) == {}
    scorer.score(TextExample("a", None, "y"), {"logits": np.array([0.0, 1.0])})
    assert scorer.metrics()["accuracy"] == 1


def test_the_baseline_has_the_metrics_of_the_most_frequent_label():
    ids, logits = np.array([1, 1, 0, 1]), random_logits(2, 4)
    names = ("f1", "macro_f1", "matthews_correlation")
    _, scorer = classified(("x", "y"), ids, logits, names)
    assert scorer.baseline() == pytest.approx(
        {"accuracy": 0.75, "f1": 6 / 7, "macro_f1": 3 / 7, "matthews_correlation": 0.0}
    )

    # A model with the same prediction for all examples has exactly the values of the
    # baseline.
    found, constant = classified(("x", "y"), ids, np.float32([[0, 1]] * 4), names)
    assert {"loss": found["loss"], **constant.baseline()} == found


def test_the_multi_label_baseline_predicts_one_label_for_each_example():
    labels = [("x",), ("x", "y"), (), ("z", "x")]
    scorer = MultiLabelResults(("x", "y", "z"), ("micro_f1", "macro_f1"))
    score(scorer, labels, ZEROS * 4)
    true = np.array([[name in each for name in "xyz"] for each in labels])
    predicted = np.array([[True, False, False]] * 4)
    assert scorer.baseline() == pytest.approx(
        {
            f"{average}_f1": sklearn.metrics.f1_score(
                true, predicted, average=average, zero_division=0
            )
            for average in ("micro", "macro")
        }
    )
