"""Metrics, report and errors of search, on literal vectors."""

import json

import numpy as np
import pytest

from bert_tf.tasks.embedding import search_results
from bert_tf.tasks.embedding.search_data import SearchText
from bert_tf.tasks.embedding.search_results import SearchResults

TEXTS = [
    (SearchText("d1", "north"), [0, 1]),
    (SearchText("d2", "east\n" + "x" * 400), [1, 0]),
    (SearchText("d3", "north-east"), [0.8, 0.6]),
    (SearchText("q1", "which way is up?", {"d1": 1, "d2": 0}), [0, 1]),
    (SearchText("q2", "right?", {"d1": 1, "d2": 2}), [0.6, 0.8]),
    (SearchText("d3", "itself", {"d1": 1}), [0.8, 0.6]),
    (SearchText("q4", "nothing", {"d1": 0}), [1, 0]),
]


def distances(values):
    """A loss of each row: 1 - cosine. Records the keys of the batch."""
    vectors, keys = values["vectors"], values["text_keys"]
    batches.append(keys[..., 0].tolist())
    return 1 - np.sum(vectors[:, 0] * vectors[:, 1], axis=-1)


batches = []


def scored(texts):
    batches.clear()
    results = SearchResults(distances, batch_size=3)
    for text, vector in texts:
        results.add(text, results.decode(text, [outputs(vector)]))
    return results


def outputs(vector):
    return {"vectors": np.array([vector], np.float32)}


def test_literal_vectors():
    results = scored(TEXTS)
    # q1: d1 first. q2: d3, d1, d2. d3: d2, d1, without the document d3.
    two = 1 / np.log2(3)
    ndcg = [1, (two + 2 / 2) / (2 + two), two]
    assert results.metrics() == {
        "ndcg_at_10": pytest.approx(np.mean(ndcg)),
        "mrr_at_10": pytest.approx((1 + 1 / 2 + 1 / 2) / 3),
        "recall_at_1": pytest.approx(1 / 3),
        "recall_at_10": 1.0,
        "recall_at_100": 1.0,
        # The cosines of q1, d1; q2, d1; q2, d2; and d3, d1.
        "loss": pytest.approx(np.mean([0, 0.2, 0.4, 0.4])),
    }
    # Equal texts of a batch have equal keys, and no query has the key of a document.
    assert batches == [[[1, 2], [3, 2], [3, 4]], [[5, 2]]]
    assert results.baseline() == {} and results.undefined("ndcg_at_10") == ""

    east = {"id": "d2", "cosine": 0.6, "text": "east " + "x" * 295}
    north = {"id": "d1", "cosine": 0.8, "text": "north"}
    assert [*map(json.loads, results.errors())] == [
        {
            "id": "q2",
            "query": "right?",
            "rank": 2,
            "expected": [east, north],
            "found": [{"id": "d3", "cosine": 0.96, "text": "north-east"}],
        },
        {
            "id": "d3",
            "query": "itself",
            "rank": 2,
            "expected": [{**north, "cosine": 0.6}],
            "found": [{**east, "cosine": 0.8}],
        },
    ]
    report = results.report()
    assert report.startswith(f"ndcg_at_10      {np.mean(ndcg):.4f}\nmrr_at_10 ")
    assert report.endswith(
        "\n\nquery:    itself\nrank:     2\nexpected: 0.6000 north\n"
        f"found:    0.8000 {east['text']}\n"
    )


def test_one_search_for_all_outputs(monkeypatch):
    calls = []
    search = search_results.best_documents
    monkeypatch.setattr(
        search_results,
        "best_documents",
        lambda *arguments: calls.append(1) or search(*arguments),
    )
    results = scored(TEXTS[:4])
    for _ in range(2):
        results.metrics(), results.report(), results.errors()
    assert len(calls) == 1 and results.metrics()["mrr_at_10"] == 1.0
    # A later text changes the metrics.
    results.score(SearchText("d0", "up"), outputs([0, 1]))
    assert results.metrics()["mrr_at_10"] == 0.5


def test_the_worst_queries_are_first_and_few():
    # The relevant document of query n has rank n + 1; beyond 100, it is not found.
    angles = np.linspace(0, 1, 300)
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    results = SearchResults(distances, batch_size=64)
    for number, vector in enumerate(vectors):
        results.score(SearchText(f"d{number}", f"text {number}"), outputs(vector))
    for number in range(300):
        query = SearchText(f"q{number}", "?", {f"d{number}": 1})
        results.score(query, outputs(vectors[0]))
    errors = [*map(json.loads, results.errors())]
    assert [error["rank"] for error in errors] == [None] * 200
    assert errors[0]["expected"][0]["text"] == "text 100"
    assert [document["id"] for document in errors[0]["found"]] == [
        f"d{number}" for number in range(5)
    ]
    assert results.metrics()["recall_at_100"] == pytest.approx(1 / 3)
    report = results.report()
    assert report.count("query:") == 10 and "no relevant document found" in report


@pytest.mark.parametrize("texts", [[], TEXTS[:3], [TEXTS[0], TEXTS[6]]])
def test_without_a_relevant_document_there_are_no_metrics(texts):
    results = scored(texts)
    assert results.metrics() == {} and results.errors() == []
