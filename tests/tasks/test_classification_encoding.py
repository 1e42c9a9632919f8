"""Records of examples, compared with a plain transcription of the released code."""

import random

import numpy as np
import pytest
import tensorflow as tf
from golden_checkpoints import assert_same_arrays
from reference import multiple_choice as reference
from small_vocabulary import PLAIN, TOKENIZER, random_text
from squad_data import INPUTS

from bert_tf import record_format
from bert_tf.tasks.classification.classification_task import ClassificationTask
from bert_tf.tasks.classification.text_examples import TextExample

LENGTH = 12
LABELS = ("no", "yes")


def random_examples(pair):
    rng = random.Random(0)
    return [
        TextExample(
            random_text(rng), random_text(rng) if pair else None, rng.choice(LABELS)
        )
        for _ in range(300)
    ]


def expected_record(example):
    """Returns ids, mask and segment ids of `run_classifier.convert_single_example`,

    and whether the example was truncated.
    """
    if example.text_b is not None:
        *columns, is_truncated = reference.record(
            example.text_a, [example.text_b], PLAIN.tokenize, LENGTH, 1, (2, 3, 0)
        )
        return *(row for (row,) in columns), is_truncated
    tokens = PLAIN.tokenize(example.text_a)
    ids = [2, *tokens[: LENGTH - 2], 3]
    padding = [0] * (LENGTH - len(ids))
    mask = [1] * len(ids) + padding
    return ids + padding, mask, [0] * LENGTH, len(tokens) > LENGTH - 2


@pytest.mark.parametrize("pair", [False, True], ids=["single", "pair"])
def test_records_equal_the_released_ones(pair):
    examples = random_examples(pair)
    task = ClassificationTask("any", LABELS, pair, None)
    encoded = task.encode(examples, TOKENIZER, LENGTH)
    *inputs, truncated = zip(*map(expected_record, examples), strict=True)
    expected = dict(zip(INPUTS, inputs, strict=True))
    expected |= {
        "label_ids": [LABELS.index(example.label) for example in examples],
        "is_real_example": np.ones(300),
    }
    assert_same_arrays(encoded.columns, expected)
    assert encoded.records_per_example is None

    texts = [(e.text_a, e.text_b) if pair else (e.text_a,) for e in examples]
    empty = sum(not all(map(PLAIN.tokenize, each)) for each in texts)
    assert encoded.counts == {"truncated": sum(truncated), "with an empty text": empty}
    assert 0 < sum(truncated) < 300 and 0 < empty < 300


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
    records = record_format.encode(encoded.columns, task.table)
    parsed = record_format.parser(task.table, {**task.sizes, "S": LENGTH})(
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
