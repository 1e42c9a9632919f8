"""Class weights in NumPy, by their definition; not with the code of bert-tf."""

import numpy as np


def normalized(given, labels):
    """Divides weights [C] by their mean over examples with the labels [N]."""
    given = np.asarray(given, np.float64)
    return given / np.mean([given[label] for label in labels])


def loss(logits, labels, weights):
    """Returns the sum of weight * -log(probability), divided by the number of labels.

    Args:
        logits: [N, C].
        labels: int [N].
        weights: [C].
    """
    total = 0.0
    for row, label in zip(np.asarray(logits, np.float64), labels, strict=True):
        probability = np.exp(row[label]) / np.exp(row).sum()
        total -= weights[label] * np.log(probability)
    return total / len(labels)
