"""Exact search by the cosine of vectors, and the metrics of its rankings.

Shape letters: Q queries, N documents, D elements of a vector.
"""

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from bert_tf.progress import Progress

# Queries and documents of a block, whose scores in float64 take 32 MiB.
_BLOCK = 2048


def best_documents(
    queries: np.ndarray,
    documents: np.ndarray,
    query_ids: Sequence[str],
    document_ids: Sequence[str],
    depth: int = 100,
) -> list[np.ndarray]:
    """Returns the documents with the highest cosines, for each query.

    The search is exact. A score is the dot product in float64, rounded to float32, so
    that it depends only on the two vectors. The documents are searched in blocks, and
    no more than 32 MiB of scores are in memory.

    Args:
        queries: float32 [Q, D], vectors of length 1.
        documents: float32 [N, D], vectors of length 1.
        query_ids: The id of each query. A document with the same id is the query itself
            and is left out, as in BEIR.
        document_ids: The id of each document; all are different.
        depth: The maximum number of documents for each query, at least 1.

    Returns:
        For each query, the indices of its best documents, int64 [at most `depth`], the
        best first. Documents with equal scores are in the order of their ids as text.
    """
    # The places of the documents in the order of their ids: [N]
    by_id = sorted(range(len(document_ids)), key=document_ids.__getitem__)
    places = np.argsort(by_id)
    names = {*query_ids}
    own = {name: index for index, name in enumerate(document_ids) if name in names}

    # More than the error of a product in float64, for vectors of length 1.
    error = (queries.shape[-1] + 1) * np.finfo(np.float64).eps
    best: list[np.ndarray] = [np.empty(0, np.int64)] * len(queries)
    best_scores: list[np.ndarray] = [np.empty(0, np.float32)] * len(queries)
    total = len(queries) * len(documents)
    blocks = itertools.product(
        range(0, len(queries), _BLOCK), range(0, len(documents), _BLOCK)
    )
    with Progress("searching", total, "comparisons", log_end=False) as progress:
        for start, first in blocks:
            block: np.ndarray = documents[first : first + _BLOCK].astype(np.float64)
            rows: np.ndarray = queries[start : start + _BLOCK].astype(np.float64)
            scores = rows @ block.T
            for number, (query, row) in enumerate(
                zip(rows, scores, strict=True), start
            ):
                # BLAS adds in an order that depends on the shape of a block and the
                # position in it, which can change the rounding to float32. The sum over
                # the last axis has the same order for all documents.
                exact = (row - error).astype(np.float32)
                unsure = np.flatnonzero(exact != (row + error).astype(np.float32))
                exact[unsure] = (block[unsure] * query).sum(axis=-1)

                # The documents that may be among the best: those of earlier blocks, and
                # those of this block that are not below the worst of them.
                known = best_scores[number]
                lowest = known.min() if len(known) == depth else -math.inf
                near: np.ndarray = np.flatnonzero(exact >= lowest)
                near = near[first + near != own.get(query_ids[number], -1)]
                candidates: np.ndarray = np.append(best[number], first + near)
                exact = np.append(known, exact[near])
                order = np.lexsort((places[candidates], -exact))[:depth]
                best[number] = candidates[order]
                best_scores[number] = exact[order]
            progress.update(scores.size)
    return best


def search_metrics(
    best: Sequence[Sequence[str]], relevance: Sequence[Mapping[str, int]]
) -> dict[str, float]:
    """Returns the means of the metrics of rankings.

    A document is relevant if its relevance is above 0; a negative relevance counts as
    0, and so does that of a document without judgement. Queries without a relevant
    document are left out of the means. BEIR and pytrec_eval leave out only queries
    without judgements, and count a query whose judgements are all 0 as 0.

    Args:
        best: For each query, the ids of the documents that were found, best first.
        relevance: For each query, the relevance of the judged documents, by id.

    Returns:
        "ndcg_at_10", with the relevance as gain; "mrr_at_10", the reciprocal of the
        rank of the first relevant document, 0 beyond rank 10; and "recall_at_1",
        "recall_at_10" and "recall_at_100", the shares of the relevant documents that
        were found up to these ranks. {} if no query has a relevant document.

    Source: nDCG of Järvelin and Kekäläinen (2002), with the discount log2(rank + 1) of
    trec_eval.
    """
    rows = [*filter(None, map(_query_metrics, best, relevance))]
    names = rows[0] if rows else ()
    return {name: statistics.fmean(row[name] for row in rows) for name in names}


def rank_of_first_relevant(
    best: Sequence[str], relevance: Mapping[str, int]
) -> int | None:
    """Returns the rank, from 1, of the first relevant document; None if none was found."""
    ranks = (rank for rank, name in enumerate(best, 1) if relevance.get(name, 0) > 0)
    return next(ranks, None)


def _query_metrics(
    best: Sequence[str], relevance: Mapping[str, int]
) -> dict[str, float]:
    """Returns the metrics of a query; {} without a relevant document."""
    ideal = sorted((gain for gain in relevance.values() if gain > 0), reverse=True)
    if not ideal:
        return {}

    gains = [max(relevance.get(name, 0), 0) for name in best]
    rank = rank_of_first_relevant(best[:10], relevance)
    metrics = {
        "ndcg_at_10": _discounted_gain(gains) / _discounted_gain(ideal),
        "mrr_at_10": 1 / rank if rank else 0.0,
    }
    for cutoff in (1, 10, 100):
        found = sum(gain > 0 for gain in gains[:cutoff])
        metrics[f"recall_at_{cutoff}"] = found / len(ideal)
    return metrics


def _discounted_gain(gains: Sequence[int]) -> float:
    """Returns the discounted cumulative gain of the first ten documents."""
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains[:10], 1))
