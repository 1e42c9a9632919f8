"""`SearchResults`: the metrics of search with the vectors of documents and queries."""

import json
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from bert_tf.tasks.embedding.search_data import SearchText
from bert_tf.tasks.embedding.search_metrics import (
    best_documents,
    rank_of_first_relevant,
    search_metrics,
)
from bert_tf.tasks.results import Metrics, Outputs, TaskResults
from bert_tf.tasks.tables import Row

_MAX_ERRORS = 200
_REPORTED = 10  # queries in the report
_SHOWN_DOCUMENTS = 5  # of each kind for a query
_SHOWN_CHARACTERS = 300


class SearchResults(TaskResults):
    """Collects the vectors of all texts, and searches when the metrics are read.

    The vectors are held in memory in float32, with the queries, and the ids and the
    first 300 characters of the documents.

    Args:
        loss_of: Returns the loss of each row of a batch, float [B], from `vectors`,
            float32 [B, 2, D], and `text_keys`, int32 [B, 2, 1]. None for no loss.
        batch_size: The number of rows of a batch in training. The loss is the mean of
            batches of this size, of the pairs of query and relevant document in the
            order of the file.
    """

    scores_predictions = True

    def __init__(
        self,
        loss_of: Callable[[Outputs], np.ndarray] | None,
        batch_size: int,
    ) -> None:
        super().__init__()
        self._loss_of = loss_of
        self._batch_size = batch_size
        self._queries: list[SearchText] = []
        self._relevance: list[Mapping[str, int]] = []  # of the documents for a query
        self._ids: list[str] = []
        self._texts: list[str] = []
        # Bytes of float32 values: a bytearray grows without a second copy of all
        # vectors, and NumPy reads it in place.
        self._query_bytes = bytearray()
        self._document_bytes = bytearray()
        self._size = 1
        self._cached: list[list[str]] | None = None

    def score(self, example: SearchText, prediction: Outputs) -> None:
        """Adds a document or a query.

        Args:
            example: The text.
            prediction: `vectors`, float32 [1, D], a vector of length 1.
        """
        vector: np.ndarray = prediction["vectors"][0].astype(np.float32)
        self._size = len(vector)
        self._cached = None
        if example.relevance is None:
            self._ids.append(example.id)
            self._texts.append(_excerpt(example.text))
            self._document_bytes += vector.tobytes()
        else:
            self._queries.append(example)
            self._relevance.append(example.relevance)
            self._query_bytes += vector.tobytes()

    def metrics(self) -> Metrics:
        """Returns `search_metrics` and the loss; {} if no query has a relevant document.

        The first call searches.
        """
        metrics = search_metrics(self._rankings(), self._relevance)
        if metrics and self._loss_of:
            metrics["loss"] = self._mean_loss(self._loss_of)
        return metrics

    def _mean_loss(self, loss_of: Callable[[Outputs], np.ndarray]) -> float:
        """Returns the mean loss of batches of queries and relevant documents."""
        places = {name: index for index, name in enumerate(self._ids)}
        pairs = [
            (number, places[name])
            for number, relevance in enumerate(self._relevance)
            for name, gain in relevance.items()
            if gain > 0
        ]
        queries = self._vectors(self._query_bytes)
        documents = self._vectors(self._document_bytes)
        total = 0.0
        for start in range(0, len(pairs), self._batch_size):
            batch = np.array(
                pairs[start : start + self._batch_size], np.int32
            )  # [B, 2]
            texts = [queries[batch[:, 0]], documents[batch[:, 1]]]
            # A query and a document with the same number differ; 0 is a missing text.
            keys = batch * 2 + [1, 2]
            vectors = np.stack(texts, axis=1)
            losses = loss_of({"vectors": vectors, "text_keys": keys[..., None]})
            total += float(np.sum(losses, dtype=np.float64))
        return total / len(pairs)

    def lines(self, example: SearchText, prediction: Outputs) -> Sequence[str]:
        """Returns no lines: there are no files with predictions."""
        return ()

    def baseline(self) -> Metrics:
        """Returns the metrics of the vectors before the training."""
        return self.before_training

    def report(self) -> str:
        """Returns the metrics, and the ten queries with the worst rankings."""
        lines = [f"{name:15} {value:.4f}" for name, value in self.metrics().items()]
        for row in self._worst(_REPORTED):
            rank = row["rank"] or "no relevant document found"
            lines += ["", f"query:    {row['query']}", f"rank:     {rank}"]
            lines += [
                f"{kind + ':':9} {document['cosine']:.4f} {document['text']}"
                for kind in ("expected", "found")
                for document in row[kind]
            ]
        return "\n".join(lines) + "\n"

    def errors(self) -> list[str]:
        """Returns at most 200 wrong rankings as lines of JSON, the worst first.

        A ranking is wrong if its first document is not relevant. A line has the query,
        the rank of the first relevant document, the most relevant documents in
        `expected`, and the first irrelevant documents in `found`.
        """
        rows = self._worst(_MAX_ERRORS)
        return [f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows]

    def _rankings(self) -> list[list[str]]:
        """Returns the ids of the best documents of each query."""
        if self._cached is None:
            best = best_documents(
                self._vectors(self._query_bytes),
                self._vectors(self._document_bytes),
                [query.id for query in self._queries],
                self._ids,
            )
            self._cached = [[self._ids[index] for index in row] for row in best]
        return self._cached

    def _vectors(self, values: bytearray) -> np.ndarray:
        """Returns float32 [texts, D], which shares the memory of the bytes."""
        return np.frombuffer(values, np.float32).reshape(-1, self._size)

    def _worst(self, count: int) -> list[Row]:
        """Returns the queries with the highest rank of the first relevant document."""
        rankings = self._rankings()
        ranks = [*map(rank_of_first_relevant, rankings, self._relevance)]
        wrong = [
            number
            for number, relevance in enumerate(self._relevance)
            if ranks[number] != 1 and any(gain > 0 for gain in relevance.values())
        ]
        wrong.sort(key=lambda number: ranks[number] or math.inf, reverse=True)

        rows: list[Row] = []
        places = {name: index for index, name in enumerate(self._ids)}
        for number in wrong[:count]:
            query, relevance = self._queries[number], self._relevance[number]
            relevant = [name for name in relevance if relevance[name] > 0]
            relevant.sort(key=relevance.__getitem__, reverse=True)
            instead = [name for name in rankings[number] if name not in relevant]
            rows.append(
                {
                    "id": query.id,
                    "query": _excerpt(query.text),
                    "rank": ranks[number],
                    "expected": self._documents(number, relevant, places),
                    "found": self._documents(number, instead, places),
                }
            )
        return rows

    def _documents(
        self, number: int, names: Sequence[str], places: Mapping[str, int]
    ) -> list[Row]:
        """Returns the first documents, with their cosines with the query of a number."""
        indices = [places[name] for name in names[:_SHOWN_DOCUMENTS]]
        query = self._vectors(self._query_bytes)[number]
        cosines = self._vectors(self._document_bytes)[indices] @ query
        return [
            {
                "id": self._ids[index],
                "cosine": round(float(cosine), 4),
                "text": self._texts[index],
            }
            for index, cosine in zip(indices, cosines, strict=True)
        ]


def _excerpt(text: str) -> str:
    """Returns the start of a text in one line."""
    return " ".join(text[:_SHOWN_CHARACTERS].split())
