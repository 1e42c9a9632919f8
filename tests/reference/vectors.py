"""Losses of vectors of texts by their definitions, with loops over rows and texts.

Sources: van den Oord et al. 2018 (arXiv:1807.03748), equation 4; Reimers and Gurevych
2019 (arXiv:1908.10084), section 3; Su 2022, https://kexue.fm/archives/8847; Kusupati
et al. 2022 (arXiv:2205.13147), equation 1, with equal weights.
"""

import numpy as np


def contrastive(rows, scale, both_directions=False):
    """Returns the loss of each row.

    A row is a list of texts: the first one, the one that belongs to it, and negatives. A
    text is a pair of tokens and vector, or None if it is missing.
    """
    losses = []
    for number, (first, second, *_) in enumerate(rows):
        known = (first[0], second[0])
        others = [
            text
            for other, row in enumerate(rows)
            for place, text in enumerate(row[1:])
            if text is not None
            and text[0] not in known
            # The second text of a row with the same first text belongs to it too.
            and not (place == 0 and other != number and row[0][0] == first[0])
        ]
        loss = cross_entropy(first, second, others, scale)
        if both_directions:
            firsts = [
                row[0]
                for other, row in enumerate(rows)
                if other != number and row[0][0] not in known and row[1][0] != second[0]
            ]
            loss = (loss + cross_entropy(second, first, firsts, scale)) / 2
        losses.append(loss)
    return np.array(losses)


def cross_entropy(query, right, wrong, scale):
    """Returns -log of the softmax of `right` among the texts `right` and `wrong`."""
    logits = [scale * cosine(query[1], text[1]) for text in (right, *wrong)]
    return np.log(np.sum(np.exp(np.array(logits) - logits[0])))


def cosine(a, b):
    """Returns the cosine of two vectors."""
    return a @ b / np.sqrt((a @ a) * (b @ b))


def squared(pairs, scores):
    """Returns the squared difference of cosine and score of each pair of vectors."""
    return np.array(
        [
            (cosine(*pair) - score) ** 2
            for pair, score in zip(pairs, scores, strict=True)
        ]
    )


def cosent(pairs, scores, scale):
    """Returns log(1 + sum of exp(scale * (cosine of lower - cosine of higher)))."""
    cosines = [cosine(*pair) for pair in pairs]
    total = 1.0
    for high, high_score in zip(cosines, scores, strict=True):
        for low, low_score in zip(cosines, scores, strict=True):
            if high_score > low_score:
                total += np.exp(scale * (low - high))
    return np.log(total)


def gradient(function, values, step=1e-6):
    """Returns the gradient of a scalar function by central differences, in float64."""
    result = np.zeros_like(values)
    for index in np.ndindex(values.shape):
        ends = []
        for sign in (1, -1):
            changed = values.copy()
            changed[index] += sign * step
            ends.append(function(changed))
        result[index] = (ends[0] - ends[1]) / (2 * step)
    return result
