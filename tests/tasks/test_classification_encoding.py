"""Records of examples, compared with a plain transcription of the released code."""

import random

import numpy as np
import pytest
import tensorflow as tf
from small_vocabulary import PLAIN, TOKENIZER, random_text

from bert_tf import features
from bert_tf.tasks.classification.classification_task import ClassificationTask
from bert_tf.tasks.classification.text_examples import TextExample

LENGTH = 12
LABELS = ("no", "yes")


def random_examples(count, pair, label):
    rng = random.Random(0)
    return [
        TextExample(random_text(rng), random_text(rng) if pair else None, label(rng))
        for _ in range(count)
    ]


def truncate_seq_pair(tokens_a, tokens_b, max_length):
    """google-research/bert `run_classifier._truncate_seq_pair`."""
    while len(tokens_a) + len(tokens_b) > max_length:
        longer = tokens_a if len(tokens_a) > len(tokens_b) else tokens_b
        longer.pop()


def expected_record(example):
    """Returns ids, mask and segment ids of `run_classifier.convert_single_example`,

    and whether the example was truncated, and whether a text of it is empty.
    """
    tokens_a = PLAIN.tokenize(example.text_a)
    tokens_b = None if example.text_b is None else PLAIN.tokenize(example.text_b)
    total = len(tokens_a) + len(tokens_b or ())
    is_empty = not tokens_a or tokens_b == []
    if tokens_b is None:
        tokens_a = tokens_a[: LENGTH - 2]
    else:
        truncate_seq_pair(tokens_a, tokens_b, LENGTH - 3)
    ids = [2, *tokens_a, 3]
    segments = [0] * len(ids)
    if tokens_b is not None:
        ids += [*tokens_b, 3]
        segments += [1] * (len(tokens_b) + 1)
    padding = [0] * (LENGTH - len(ids))
    is_truncated = total > LENGTH - (2 if tokens_b is None else 3)
    return (
        ids + padding,
        [1] * len(ids) + padding,
        segments + padding,
        is_truncated,
        is_empty,
    )


@pytest.mark.parametrize("pair", [False, True], ids=["single", "pair"])
def test_records_equal_the_released_ones(pair):
    examples = random_examples(300, pair, lambda rng: rng.choice(LABELS))
    task = ClassificationTask("any", LABELS, pair, None)
    encoded = task.encode(examples, TOKENIZER, LENGTH)
    ids, masks, segments, truncated, empty = zip(
        *map(expected_record, examples), strict=True
    )
    np.testing.assert_array_equal(encoded.columns["input_ids"], ids)
    np.testing.assert_array_equal(encoded.columns["input_mask"], masks)
    np.testing.assert_array_equal(encoded.columns["segment_ids"], segments)
    labels = [LABELS.index(example.label) for example in examples]
    np.testing.assert_array_equal(encoded.columns["label_ids"], labels)
    np.testing.assert_array_equal(encoded.columns["is_real_example"], np.ones(300))
    assert encoded.records_per_example is None
    assert encoded.counts == {
        "truncated": sum(truncated),
        "with an empty text": sum(empty),
    }
    assert 0 < sum(truncated) < 300 and 0 < sum(empty) < 300


TYPES = {
    "classification": (LABELS, ["yes", None, "no"], [1, 0, 0]),
    "regression": ((), [2.5, None, -1.0], [2.5, 0.0, -1.0]),
    "multi_label": (
        ("x", "y", "z"), [("z", "x"), None, ()], [[1.0, 0.0, 1.0], [0.0] * 3, [0.0] * 3]
    ),
}  # fmt: skip


@pytest.mark.parametrize("task_type", TYPES)
def test_labels_pass_through_record_files(task_type):
    labels, given, expected = TYPES[task_type]
    task = ClassificationTask("any", labels, False, None, task_type)
    encoded = task.encode(
        [TextExample("cat", None, label) for label in given], TOKENIZER, LENGTH
    )
    records = features.encode(encoded.columns, task.table)
    parsed = features.parser(task.table, {**task.sizes, "S": LENGTH})(
        tf.constant(records)
    )
    assert parsed["label_ids"].dtype == (
        "int32" if task_type == "classification" else "float32"
    )
    np.testing.assert_array_equal(parsed["label_ids"], np.array(expected))


def test_more_than_256_labels_have_distinct_ids():
    labels = tuple(map(str, range(300)))
    task = ClassificationTask("any", labels, False, None)
    examples = [TextExample("cat", None, label) for label in labels]
    encoded = task.encode(examples, TOKENIZER, LENGTH)
    np.testing.assert_array_equal(encoded.columns["label_ids"], np.arange(300))
