"""Search and its metrics in plain Python, with exact arithmetic. Imports no bert_tf.

nDCG is that of Järvelin and Kekäläinen (2002): a document with relevance g at rank r adds
g / log2(r + 1), and the sum is divided by the sum of the best possible ranking.
"""

import fractions
import math

import numpy as np


def ranking(query, documents, query_id, document_ids, depth):
    """Returns the indices of the best documents; equal scores are in the order of ids.

    Args:
        query: float32 [D].
        documents: float32 [N, D].
    """

    def score(document):
        pairs = zip(query.tolist(), document.tolist(), strict=True)
        exact = sum(fractions.Fraction(a) * fractions.Fraction(b) for a, b in pairs)
        return float(np.float32(float(exact)))

    keys = [
        (-score(document), name, index)
        for index, (document, name) in enumerate(
            zip(documents, document_ids, strict=True)
        )
        if name != query_id
    ]
    return [index for _, _, index in sorted(keys)[:depth]]


def metrics(best, relevance):
    """Returns the metrics of one query; None if no document is relevant."""
    relevant = {name for name in relevance if relevance[name] > 0}
    if not relevant:
        return None

    def gain(names):
        total = 0.0
        for place in range(min(10, len(names))):
            if names[place] in relevant:
                total += relevance[names[place]] / math.log2(place + 2)
        return total

    ideal = sorted(relevant, key=lambda name: -relevance[name])
    reciprocal = 0.0
    for place in reversed(range(min(10, len(best)))):
        if best[place] in relevant:
            reciprocal = 1 / (place + 1)
    return {
        "ndcg_at_10": gain(best) / gain(ideal),
        "mrr_at_10": reciprocal,
        **{
            f"recall_at_{depth}": len(relevant & set(best[:depth])) / len(relevant)
            for depth in (1, 10, 100)
        },
    }
