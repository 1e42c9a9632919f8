"""Correlations, losses and predictions of pairs with scores."""

import json

import numpy as np
import pytest
import scipy.stats
from reference import vectors as reference
from refusals import refused_with

from bert_tf.tasks.embedding.embedding_settings import EmbeddingSettings
from bert_tf.tasks.embedding.embedding_task import EmbeddingTask
from bert_tf.tasks.embedding.text_rows import PairColumns, TextRow
from bert_tf.tasks.splits import Split

COLUMNS = PairColumns("s1", "s2", score="score")
TASK = EmbeddingTask(COLUMNS, EmbeddingSettings(max_score=5), batch_size=4)
SCORES = [0.2, 0.8, 0.2, 1.0, 0.0, 0.4]


def vectors():
    values = np.random.default_rng(0).normal(size=(len(SCORES), 2, 5))
    return values / np.linalg.norm(values, axis=-1, keepdims=True)


def results_of(scores=SCORES):
    results = TASK.make_results(Split("dev", None))
    for score, pair in zip(scores, vectors(), strict=True):
        results.add(TextRow(("a", "b"), score, COLUMNS), {"vectors": pair.astype("f4")})
    return results


def test_the_metrics_are_those_of_scipy():
    cosines = [pair[0] @ pair[1] for pair in vectors()]
    found = results_of().metrics()
    assert found["spearman"] == pytest.approx(
        scipy.stats.spearmanr(SCORES, cosines).statistic, abs=1e-12
    )
    assert found["pearson"] == pytest.approx(
        scipy.stats.pearsonr(SCORES, cosines).statistic, abs=1e-6
    )


def test_the_loss_is_that_of_batches_in_the_order_of_the_file():
    parts = [slice(0, 4), slice(4, 6)]
    losses = [reference.cosent(vectors()[part], SCORES[part], 20.0) for part in parts]
    expected = (4 * losses[0] + 2 * losses[1]) / 6
    results = results_of()
    assert results.metrics()["loss"] == pytest.approx(expected, rel=1e-5)
    assert "batches of 4 pairs" in results.report()


def test_pairs_without_scores_have_no_metrics():
    assert results_of([None] * len(SCORES)).metrics() == {}
    assert results_of([0.2] * len(SCORES)).undefined("spearman") == "equal scores"


def test_the_worst_errors_come_first():
    rows = [json.loads(line) for line in results_of().errors()]
    distances = [abs(row["cosine"] - row["score"] / 5) for row in rows]
    assert len(rows) == len(SCORES)
    assert distances == sorted(distances, reverse=True)
    assert {row["score"] for row in rows} == {1.0, 4.0, 5.0, 0.0, 2.0}


def test_predictions_have_the_cosine_of_each_pair(tmp_path):
    results = TASK.make_results(Split("test", None))
    rows = [TextRow(("a", "b"), None, COLUMNS), TextRow(("c", "d"), 0.5, COLUMNS)]
    values = [{"vectors": pair.astype("f4")} for pair in vectors()]
    results.write(str(tmp_path), zip(rows, values, strict=False))
    cosines = [np.float32(pair[0] @ pair[1]) for pair in vectors()[:2]]
    lines = (tmp_path / "test_results.tsv").read_text().splitlines()
    np.testing.assert_allclose([float(line) for line in lines], cosines, 1e-6)
    found = [json.loads(x) for x in (tmp_path / "predictions.jsonl").open()]
    assert found[1] == {"s1": "c", "s2": "d", "score": 2.5, "cosine": float(lines[1])}


def test_a_single_text_has_no_cosine():
    results = TASK.make_results(Split("test", None))
    with refused_with("A cosine needs two texts", "row 1", "'s2'"):
        results.lines(TextRow(("a", ""), None, COLUMNS), {"vectors": vectors()[0]})
