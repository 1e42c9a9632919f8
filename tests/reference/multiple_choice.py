"""Multiple choice in NumPy, as the BERT paper describes SWAG in section 4.4.

Imports no bert_tf.

Each choice is a sequence [CLS] context [SEP] choice [SEP]. The score of a choice is the
dot product of one vector with the pooled output of its sequence, and the loss is the
cross entropy of the softmax over the choices of a row.
"""

import numpy as np
from reference import bert


def record(context, choices, tokenize, length, num_choices, special_ids):
    """Returns ids, mask and segment ids as lists [C][S], and whether one was truncated.

    Args:
        context: The first text of each sequence.
        choices: The second texts.
        tokenize: Converts a text to a list of ids.
        length: S.
        num_choices: C; the sequences of missing choices are padding.
        special_ids: Ids of [CLS], [SEP] and [PAD].
    """
    cls, sep, pad = special_ids
    rows, is_cut = [], False
    for choice in choices:
        first, second = list(tokenize(context)), list(tokenize(choice))
        while len(first) + len(second) > length - 3:
            is_cut = True
            longer = first if len(first) > len(second) else second
            longer.pop()
        ids = [cls, *first, sep, *second, sep]
        segments = [0] * (len(first) + 2) + [1] * (len(second) + 1)
        padding = length - len(ids)
        rows.append(
            (
                ids + [pad] * padding,
                [1] * len(ids) + [0] * padding,
                segments + [0] * padding,
            )
        )
    rows += [([pad] * length, [0] * length, [0] * length)] * (
        num_choices - len(choices)
    )
    return (*map(list, zip(*rows, strict=True)), is_cut)


def scores(weights, config, inputs):
    """Returns the scores of sequences, float64 [R].

    Args:
        weights: float64 tensors by their names in google-research/bert; the head is
            `cls/choice`.
        config: The fields of `bert_config.json`.
        inputs: `input_ids`, `input_mask`, `segment_ids`, int [R, S].
    """
    first = bert.sequence_output(weights, config, inputs)[:, 0]
    pooled = np.tanh(np.asarray(bert.dense(first, weights, "bert/pooler/dense")))
    vector, bias = (
        np.asarray(weights[f"cls/choice/output_{n}"]) for n in ("weights", "bias")
    )
    return pooled @ vector[0] + bias[0]


def probabilities(values):
    """Returns the softmax of the scores of the choices of one row."""
    powers = np.exp(np.asarray(values, np.float64) - np.max(values))
    return powers / powers.sum()


def loss_and_accuracy(rows, labels):
    """Returns the mean cross entropy and the share of rows with the right choice."""
    found = [probabilities(values) for values in rows]
    losses = [-np.log(each[label]) for each, label in zip(found, labels, strict=True)]
    right = [
        int(each.argmax()) == label for each, label in zip(found, labels, strict=True)
    ]
    return float(np.mean(losses)), float(np.mean(right))
