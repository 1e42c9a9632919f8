"""The losses of a student in NumPy, by their definitions; not with the code of bert-tf.

The teacher's term is the squared temperature times the KL divergence of the student's
softened probabilities from the teacher's (Hinton et al. 2015, arXiv:1503.02531, section
2).
"""

import numpy as np


def softmax(logits):
    powers = np.exp(np.asarray(logits, np.float64) - np.max(logits))
    return powers / powers.sum()


def sigmoid(logit):
    return 1 / (1 + np.exp(-float(logit)))


def divergence(teacher, student):
    """Returns the sum of p log(p / q) of two distributions."""
    return sum(
        p * np.log(p / q) for p, q in zip(teacher, student, strict=True) if p > 0
    )


def of_classes(teacher, student, temperature):
    """Returns the teacher's loss for the logits [C] of one text or word."""
    given, own = (
        np.asarray(each, np.float64) / temperature for each in (teacher, student)
    )
    return temperature**2 * divergence(softmax(given), softmax(own))


def of_labels(teacher, student, temperature):
    """Returns the mean over labels, each of which has a sigmoid of its own."""
    losses = []
    for given, own in zip(teacher, student, strict=True):
        p, q = sigmoid(given / temperature), sigmoid(own / temperature)
        losses.append(temperature**2 * divergence([p, 1 - p], [q, 1 - q]))
    return np.mean(losses)


def of_score(teacher, student, temperature):
    return (float(teacher[0]) - float(student[0])) ** 2


def of_tags(teacher, student, temperature, is_word):
    """Returns the sum over the words of a sequence, for logits [S, C]."""
    places = np.flatnonzero(is_word)
    return sum(
        of_classes(teacher[place], student[place], temperature) for place in places
    )


def of_span(teacher, student, temperature, length):
    """Returns the mean loss of start and end, for logits [S, 2] of `length` tokens."""
    return np.mean(
        [
            of_classes(teacher[:length, n], student[:length, n], temperature)
            for n in (0, 1)
        ]
    )
