"""Windows of long texts and the averages of their predictions, as plain loops."""

import math


def windows(tokens, room, stride):
    """Returns a text's windows, as the loop of google-research/bert `run_squad` does.

    A text without tokens has one empty window.
    """
    found, start = [], 0
    while start < len(tokens):
        length = min(len(tokens) - start, room)
        found.append(tokens[start : start + length])
        if start + length == len(tokens):
            break
        start += min(length, stride)
    return found or [[]]


def spread(count, limit):
    """Returns at most `limit` of `count` window numbers, evenly from first to last.

    The i-th of them is the last window that is not after the place i (count - 1) /
    (limit - 1).
    """
    if count <= limit:
        return list(range(count))
    if limit == 1:
        return [0]
    return [
        max(n for n in range(count) if n * (limit - 1) <= i * (count - 1))
        for i in range(limit)
    ]


def softmax(logits):
    exponentials = [math.exp(each) for each in logits]
    return [each / sum(exponentials) for each in exponentials]


def sigmoid(logits):
    return [1 / (1 + math.exp(-each)) for each in logits]


def mean(rows):
    """Returns the mean of rows of equal length."""
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)]


def mean_prediction(logits, task_type):
    """Returns the mean probabilities, or score, of windows with these logits."""
    function = {"classification": softmax, "multi_label": sigmoid, "regression": list}[
        task_type
    ]
    return mean([function(row) for row in logits])


def loss(predicted, label, task_type):
    """Returns the loss of a prediction.

    `label` is an index, a list of 0 and 1, or a score.
    """
    if task_type == "regression":
        return (predicted[0] - label) ** 2
    if task_type == "classification":
        return -math.log(predicted[label])
    terms = [
        math.log(p if is_label else 1 - p)
        for p, is_label in zip(predicted, label, strict=True)
    ]
    return -sum(terms) / len(terms)
