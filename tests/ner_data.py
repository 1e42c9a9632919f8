"""Random tags, small files and tasks, for the tests of named-entity recognition."""

import dataclasses

import numpy as np
from squad_data import tokenizers

from bert_tf.tasks.ner.ner_task import NerTask
from bert_tf.tasks.splits import RowCounts
from bert_tf.tasks.task import DataLocation

TYPES = ["PER", "LOC", "creative-work"]


def random_entities(rng, length):
    """Returns (type, start, end) of entities that do not overlap.

    Some follow each other.
    """
    found, start = [], 0
    while start < length:
        if rng.random() < 0.4:
            end = min(length, start + int(rng.integers(1, 4)))
            found.append((str(rng.choice(TYPES)), start, end))
            start = end
        else:
            start += 1
    return found


def tags_of(entities, length, scheme):
    """Returns the tags of entities, by the definition of the scheme."""
    tags = ["O"] * length
    ends = {(kind, end) for kind, _, end in entities}
    for kind, start, end in entities:
        for word in range(start, end):
            is_first, is_last = word == start, word == end - 1
            if scheme == "iobes":
                prefix = {(1, 1): "S", (1, 0): "B", (0, 1): "E", (0, 0): "I"}[
                    is_first, is_last
                ]
            elif scheme == "iob2":
                prefix = "B" if is_first else "I"
            else:
                prefix = "B" if is_first and (kind, start) in ends else "I"
            tags[word] = f"{prefix}-{kind}"
    return tags


def random_tags(rng, length, scheme):
    """Returns tags that are correct in a scheme.

    For None, tags of all prefixes in any order.
    """
    if scheme is not None:
        return tags_of(random_entities(rng, length), length, scheme)
    choices = [
        "O",
        "O",
        *(f"{prefix}-{kind}" for prefix in "BIES" for kind in TYPES[:2]),
    ]
    return [str(tag) for tag in rng.choice(choices, length)]


def disturbed(rng, tags):
    """Returns tags of which some are replaced, as the predictions of a model."""
    others = random_tags(rng, len(tags), None)
    return [b if rng.random() < 0.3 else a for a, b in zip(tags, others, strict=True)]


def random_pairs(seed, number, longest=12):
    """Yields correct and predicted tags of sentences in all schemes, or malformed."""
    rng = np.random.default_rng(seed)
    for index in range(number):
        scheme = ["iob1", "iob2", "iobes", None][index % 4]
        tags = random_tags(rng, int(rng.integers(1, longest + 1)), scheme)
        yield tags, disturbed(rng, tags)


def make_task(
    labels=("O", "B-PER", "I-PER", "B-LOC", "I-LOC"), do_lower_case=True, **options
):
    """Returns a task with a small vocabulary; see `squad_data.tokenizers`."""
    return NerTask(tokenizers(do_lower_case)[0], tuple(labels), **options)


def read(task, path, kind="dev", limit=0):
    """Returns the examples of a file, and the counts of unusual sentences."""
    location = DataLocation(**{f"{kind}_file": str(path)})
    (split,) = task.splits(kind, location)
    counts = RowCounts()
    return list(task.read(dataclasses.replace(split, limit=limit), counts)), counts


def outputs_of(columns, per_example, predictions):
    """Returns for each example the outputs of its records.

    Each word has a prediction.

    Args:
        columns: The columns of the records.
        per_example: The number of records of each example.
        predictions: The index of the predicted tag for each word of all examples, in
            order.
    """
    labels = columns["label_ids"].astype(np.int32)
    table = np.full(labels.shape, -1, np.int32)
    table[labels > 0] = predictions
    rows = [
        {"predictions": a, "label_ids": b} for a, b in zip(table, labels, strict=True)
    ]
    ends = np.cumsum(per_example).tolist()
    return [rows[start:end] for start, end in zip([0, *ends], ends, strict=False)]
