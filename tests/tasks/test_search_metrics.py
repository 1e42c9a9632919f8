"""Exact search with ties, and the metrics of rankings, compared with plain Python."""

import math

import numpy as np
import pytest
from reference import search as reference

from bert_tf.tasks.embedding import search_metrics as search


def unit(rng, *shape):
    vectors = rng.normal(size=shape)
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors.astype(np.float32)


def found(queries, documents, query_ids, document_ids, depth=100):
    best = search.best_documents(queries, documents, query_ids, document_ids, depth)
    assert all(row.dtype == np.int64 for row in best)
    return [row.tolist() for row in best]


@pytest.mark.parametrize("block", [1, 3, 7, 2048])
@pytest.mark.parametrize("depth", [1, 4, 100])
def test_equal_vectors_tie_in_any_block(monkeypatch, block, depth):
    monkeypatch.setattr(search, "_BLOCK", block)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        # Each document occurs about four times, with ids in another order.
        documents = unit(rng, 10, 37)[rng.integers(10, size=40)]
        queries = np.concatenate([unit(rng, 4, 37), documents[:5]])
        names = [str(number) for number in rng.permutation(200)[:40]]
        query_ids = ["a", "b", "c", "d", *names[:5]]
        assert found(queries, documents, query_ids, names, depth) == [
            reference.ranking(query, documents, query_id, names, depth)
            for query, query_id in zip(queries, query_ids, strict=True)
        ]


def test_results_do_not_depend_on_the_block(monkeypatch):
    rng = np.random.default_rng(0)
    # Most cosines differ by less than the error of a dot product in float32.
    documents = unit(rng, 1, 384) + np.float32(1e-7) * unit(rng, 500, 384)
    documents /= np.linalg.norm(documents, axis=1, keepdims=True)
    names = [*map(str, range(500))]
    expected = found(documents[:3], documents, ["x", "0", "y"], names)
    assert expected[1] == reference.ranking(documents[1], documents, "0", names, 100)
    for block in (1, 64, 499):
        monkeypatch.setattr(search, "_BLOCK", block)
        assert found(documents[:3], documents, ["x", "0", "y"], names) == expected


def test_edges_of_search():
    one = np.ones([1, 1], np.float32)
    assert found(one, one, ["q"], ["d"]) == [[0]]
    assert found(one, one, ["d"], ["d"]) == [[]]
    assert found(one, one[:0], ["q"], []) == [[]]
    assert found(one[:0], one, [], ["d"]) == []
    # Ids are ordered as text, also if more documents tie than are returned.
    ids = ["10", "9", "2", "é", "a"]
    assert found(one, one.repeat(5, 0), ["9"], ids, depth=3) == [[0, 2, 4]]


def test_metrics_of_literal_rankings():
    relevance = {"a": 2, "b": 1, "c": 0, "d": -1}
    best = ["c", "b", "x", "a", "d"]
    ndcg = (1 / math.log2(3) + 2 / math.log2(5)) / (2 + 1 / math.log2(3))
    expected = {
        "ndcg_at_10": pytest.approx(ndcg, rel=1e-15),
        "mrr_at_10": 0.5,
        "recall_at_1": 0.0,
        "recall_at_10": 1.0,
        "recall_at_100": 1.0,
    }
    assert search.search_metrics([best], [relevance]) == expected
    # Queries without a relevant document do not count.
    several = search.search_metrics(
        [best, ["a"], ["a"]], [relevance, {}, {"a": 0, "b": -2}]
    )
    assert several == expected
    assert search.search_metrics([["a"]], [{"a": 0}]) == {}
    assert search.search_metrics([], []) == {}

    # A relevant document at rank 11.
    late = search.search_metrics([[*"bcdefghijk", "a"]], [{"a": 1}])
    assert [*late.values()] == [0.0, 0.0, 0.0, 0.0, 1.0]
    assert search.rank_of_first_relevant(best, relevance) == 2
    assert search.rank_of_first_relevant(["c"], relevance) is None


def test_metrics_are_those_of_plain_python():
    rng = np.random.default_rng(1)
    names = np.array([f"d{number}" for number in range(150)])
    best, relevance = [], []
    for _ in range(200):
        best.append(rng.permutation(names)[: rng.integers(130)].tolist())
        judged = rng.permutation(names)[: rng.integers(30)].tolist()
        grades = rng.integers(-1, 4, size=len(judged)).tolist()
        relevance.append(dict(zip(judged, grades, strict=True)))
    rows = [*filter(None, map(reference.metrics, best, relevance))]
    assert search.search_metrics(best, relevance) == {
        name: pytest.approx(np.mean([row[name] for row in rows]), rel=1e-13)
        for name in rows[0]
    }
