"""Weights of labels and of records in the loss of training.

Shape letters: C labels, N examples, R records.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf import record_format
from bert_tf.errors import InputError, shortened
from bert_tf.record_format import Sizes
from bert_tf.runs.batches import ToBatch
from bert_tf.runs.fine_tuning_config import BALANCED, ClassWeights, parse_class_weights
from bert_tf.runs.record_files import RecordFile
from bert_tf.tasks.task import LABEL_WEIGHTS, Task

_RECORDS_PER_BLOCK = 2048
_SHOWN_LABELS = 20


def check_labels(task: Task, class_weights: ClassWeights) -> None:
    """Raises `InputError` if the task has no labels, or `class_weights` has an unknown label."""
    facts = task.facts
    if task.first_label_id is None or not facts.labels:
        raise InputError(
            "class_weights needs a task that gives one label to each text or word. "
            f"Received: the task {facts.task} of the type {facts.task_type}. Leave out "
            "class_weights."
        )
    for label in parse_class_weights(class_weights):
        if label not in facts.labels:
            raise InputError(
                f"class_weights has the label {label!r}, which the task does not have. "
                f"Give labels of {shortened(facts.labels, _SHOWN_LABELS)}."
            )


def weights_of_label_ids(
    task: Task,
    class_weights: ClassWeights,
    records: RecordFile,
    sizes: Sizes,
) -> np.ndarray:
    """Returns the weight of each value of `label_ids`: float32 [first_label_id + C].

    If the weights are "balanced", a label with n of the N examples in the train split
    has the weight N / (K n), where K is the number of labels with examples. Otherwise,
    the given weights are divided by their mean over the N examples. In both cases, the
    mean over the examples is then 1. Labels without examples, and the values below
    `first_label_id`, which stand for no label, have the weight 0.

    Raises:
        InputError: All labels in the train split have the weight 0.

    Source: `sklearn.utils.class_weight.compute_class_weight`.
    """
    labels = task.facts.labels or ()
    first = task.first_label_id or 0
    per_example = records.index.records_per_example

    # The number of each label: int [C]. If records share a weight, each example counts
    # once.
    counted = np.arange(len(records))
    if task.records_share_weight and per_example is not None:
        counted = np.cumsum(per_example) - per_example
    counted = counted[counted < records.num_labelled]

    # Count in blocks of records, because each block is read into memory.
    table = [feature for feature in task.table if feature.name == "label_ids"]
    parse = record_format.parser(table, sizes)
    counts: np.ndarray = np.zeros(first + len(labels), np.int64)
    for start in range(0, len(counted), _RECORDS_PER_BLOCK):
        block = records.read(counted[start : start + _RECORDS_PER_BLOCK])
        label_ids = parse(block)["label_ids"].numpy()
        counts += np.bincount(label_ids.ravel(), minlength=len(counts))
    counts = counts[first:]

    label_weights = parse_class_weights(class_weights)
    weights = np.array([label_weights.get(label, 1.0) for label in labels])
    if class_weights == BALANCED:
        weights = 1 / np.maximum(counts, 1)
    weights = np.where(counts > 0, weights, 0)

    mean = weights @ counts / counts.sum()
    if not mean > 0:
        raise InputError(
            "class_weights gives the weight 0 to all labels of the train split. Give a "
            "weight above 0 to a label that occurs."
        )
    return np.concatenate([np.zeros(first), weights / mean]).astype(np.float32)


def weights_of_records(task: Task, records: RecordFile) -> np.ndarray | None:
    """Returns weights of records with which all examples count equally: float32 [R].

    A record of an example with n records has the weight R / (N n), so that the mean is
    1. The result is None if all records have the same weight.
    """
    per_example = records.index.records_per_example
    if not task.records_share_weight or per_example is None:
        return None
    weights = len(records) / (len(per_example) * per_example)
    return np.repeat(weights, per_example).astype(np.float32)


def with_label_weights(parse: ToBatch, weights: np.ndarray) -> ToBatch:
    """Returns a parser that also adds the feature `LABEL_WEIGHTS` to a batch."""

    def parse_and_weigh(serialized: Any) -> dict[str, Any]:
        batch = parse(serialized)
        return {**batch, LABEL_WEIGHTS: tf.gather(weights, batch["label_ids"])}

    return parse_and_weigh


def describe_weights(task: Task, weights: np.ndarray) -> str:
    """Formats the labels with their weights, from `weights_of_label_ids`, for a message."""
    of_labels = weights[task.first_label_id :].tolist()
    pairs = zip(task.facts.labels or (), of_labels, strict=True)
    texts = [f"{label} {weight:.4g}" for label, weight in pairs]
    return shortened(texts, _SHOWN_LABELS)
