"""Entity F1 equals that of conlleval, and surface-form F1 that of WNUT-2017."""

import contextlib
import io
import warnings

import numpy as np
import pytest
from ner_data import random_pairs
from reference import conlleval as reference

from bert_tf.tasks.ner.ner_metrics import EntityMetrics

NUM_RANDOM = 10_000


def metrics_of(pairs):
    metrics = EntityMetrics()
    for correct, predicted in pairs:
        metrics.add(["w"] * len(correct), correct, predicted)
    return metrics


def check_equal(metrics, counts):
    results = metrics.results()
    names = ("precision", "recall", "f1")
    assert [results[name] for name in names] == pytest.approx(reference.overall(counts))
    accuracy = 100 * counts.equal_tags / counts.words
    assert results["accuracy"] == pytest.approx(accuracy)
    for kind in {*counts.correct, *counts.predicted} - {""}:
        expected = reference.scores(
            counts.common[kind], counts.predicted[kind], counts.correct[kind]
        )
        assert metrics.of_type(kind) == pytest.approx(expected)
        assert metrics.correct[kind] == counts.correct[kind]
        assert metrics.predicted[kind] == counts.predicted[kind]


def test_random_sequences_of_all_schemes_have_the_scores_of_conlleval():
    pairs = list(random_pairs(0, NUM_RANDOM))
    check_equal(metrics_of(pairs), reference.count(pairs))
    for start in range(
        0, NUM_RANDOM, 4
    ):  # a sentence of each scheme, and a malformed one
        check_equal(
            metrics_of(pairs[start : start + 4]),
            reference.count(pairs[start : start + 4]),
        )


def test_all_sequences_of_length_three():
    tags = ["O", *(f"{prefix}-{kind}" for prefix in "BIES" for kind in "XY")]
    sequences = [[a, b, c] for a in tags for b in tags for c in tags]
    for correct, predicted in zip(sequences, reversed(sequences), strict=True):
        for pair in ((correct, predicted), (correct, correct)):
            check_equal(metrics_of([pair]), reference.count([pair]))


def test_scores_of_seqeval_are_equal():
    pytest.importorskip("seqeval")
    from seqeval import metrics as seqeval

    pairs = list(random_pairs(1, NUM_RANDOM))
    correct, predicted = map(list, zip(*pairs, strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = [
            100 * function(correct, predicted)
            for function in (
                seqeval.precision_score,
                seqeval.recall_score,
                seqeval.f1_score,
            )
        ]
    assert metrics_of(pairs).overall() == pytest.approx(expected)


def test_scores_of_the_package_conlleval_are_equal():
    package = pytest.importorskip("conlleval")
    pairs = list(random_pairs(2, NUM_RANDOM))
    lines = []
    for correct, predicted in pairs:
        lines += [f"word {a} {b}" for a, b in zip(correct, predicted, strict=True)] + [
            ""
        ]
    with contextlib.redirect_stdout(io.StringIO()):
        found = package.evaluate(lines)
    metrics, overall = metrics_of(pairs), found["overall"]["chunks"]["evals"]
    expected = [100 * overall[name] for name in ("prec", "rec", "f1")]
    assert metrics.overall() == pytest.approx(expected)
    for kind, values in found["slots"]["chunks"].items():
        assert metrics.correct[kind] == values["stats"]["gold"]
        assert metrics.predicted[kind] == values["stats"]["pred"]
        assert metrics.of_type(kind).f1 == pytest.approx(100 * values["evals"]["f1"])


def test_no_entities_and_no_predictions():
    assert set(metrics_of([(["O", "O"], ["O", "O"])]).results().values()) == {
        0.0,
        100.0,
    }
    nothing_found = metrics_of([(["B-X"], ["O"])]).results()
    assert set(nothing_found.values()) == {0.0}
    assert metrics_of([]).results()["accuracy"] == 0.0


def test_one_word():
    assert metrics_of([(["B-X"], ["I-X"])]).overall() == (100.0, 100.0, 100.0)


def test_surface_forms_count_once():
    """The surface form "Ann" is found in one of two sentences, so it counts."""
    metrics = EntityMetrics()
    metrics.add(["Ann", "left"], ["B-PER", "O"], ["B-PER", "O"])
    metrics.add(["Ann", "in", "Rome"], ["B-PER", "O", "B-LOC"], ["O", "O", "B-PER"])
    metrics.add(["Ann", "Lee"], ["B-PER", "I-PER"], ["B-PER", "I-PER"])
    results = metrics.results()
    # Correct: Ann, Rome, Ann Lee. Predicted: Ann, Rome as PER, Ann Lee. In both: Ann,
    # Ann Lee.
    expected = [200 / 3, 200 / 3, 200 / 3]
    names = ("surface_precision", "surface_recall", "surface_f1")
    assert [results[name] for name in names] == pytest.approx(expected)
    assert results["recall"] == pytest.approx(50)


def test_a_surface_form_at_another_place_is_not_found():
    metrics = EntityMetrics()
    metrics.add(["Ann", "Ann"], ["B-PER", "O"], ["O", "B-PER"])
    assert metrics.results()["surface_f1"] == 0.0


def surface_scores(sentences):
    """Returns the scores of WNUT-2017, from (words, correct, predicted)."""
    correct, predicted, common = set(), set(), set()
    for words, *tags in sentences:
        spans = [set(reference.entities(each)) for each in tags]
        forms = [{(kind, *words[a:b]) for kind, a, b in each} for each in spans]
        correct |= forms[0]
        predicted |= forms[1]
        common |= {(kind, *words[a:b]) for kind, a, b in spans[0] & spans[1]}
    return reference.scores(len(common), len(predicted), len(correct))


def test_surface_forms_of_random_sentences():
    rng = np.random.default_rng(3)
    sentences = [
        (rng.choice(["a", "b", "c"], len(correct)).tolist(), correct, predicted)
        for correct, predicted in random_pairs(4, 300, longest=6)
    ]
    for start in range(0, 300, 3):
        chosen = sentences[start : start + 3]
        metrics = EntityMetrics()
        for sentence in chosen:
            metrics.add(*sentence)
        results = metrics.results()
        names = ("surface_precision", "surface_recall", "surface_f1")
        assert [results[name] for name in names] == pytest.approx(
            surface_scores(chosen)
        )


def test_the_baseline_is_the_tag_o_for_each_word():
    metrics = EntityMetrics()
    assert metrics.baseline() == {"f1": 0.0, "accuracy": 0.0}
    metrics.add(["a", "b", "c", "d"], ["O", "B-X", "O", "O"], ["B-X", "O", "O", "O"])
    assert metrics.baseline() == {"f1": 0.0, "accuracy": 75.0}
