"""Encoding and parsing of records, compared with TensorFlow's protobuf classes."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import record_format

SIZES = {"S": 8, "P": 3}


def columns(count):
    rng = np.random.default_rng(0)
    shapes = {
        f.name: [int(SIZES.get(d, d)) for d in f.shape]
        for f in record_format.PRETRAINING
    }
    return {
        f.name: rng.integers(0, 40_000, [count, *shapes[f.name]]).astype(f.dtype)
        for f in record_format.PRETRAINING
    }


def examples_of(columns):
    """Returns the examples of a table for pretraining, built by protobuf."""
    examples = []
    for row in range(len(columns["input_ids"])):
        example = tf.train.Example()
        for feature in record_format.PRETRAINING:
            value = example.features.feature[feature.name]
            lists = value.int64_list if feature.dtype == "int64" else value.float_list
            numbers = columns[feature.name][row].astype(feature.dtype)
            lists.value.extend(numbers.tolist())
        examples.append(example)
    return examples


def test_parser_reads_examples_of_protobuf():
    data = columns(4)
    records = [example.SerializeToString() for example in examples_of(data)]
    parsed = record_format.parser(record_format.PRETRAINING, SIZES)(
        tf.constant(records)
    )
    for feature in record_format.PRETRAINING:
        np.testing.assert_array_equal(parsed[feature.name], data[feature.name])
        assert parsed[feature.name].dtype == (
            tf.int32 if feature.dtype == "int64" else tf.float32
        )


def test_scalar_features_have_rank_1():
    data = {
        name: np.zeros([2, 8], np.int64)
        for name in ("input_ids", "input_mask", "segment_ids")
    }
    data |= {"label_ids": np.array([1, 0]), "is_real_example": np.array([1, 1])}
    records = record_format.encode(data, record_format.CLASSIFICATION)
    parsed = record_format.parser(record_format.CLASSIFICATION, {"S": 8})(
        tf.constant(records)
    )
    assert parsed["label_ids"].shape == [2]


def test_model_garden_feature_names_are_recognized():
    data = columns(1)
    renamed = tuple(
        record_format.Feature(
            f.aliases[0] if f.aliases else f.name, f.dtype, f.shape, f.meaning
        )
        for f in record_format.PRETRAINING
    )
    data |= {"input_word_ids": data["input_ids"], "input_type_ids": data["segment_ids"]}
    record = record_format.encode(data, renamed)[0]
    names = record_format.names_in(
        record, record_format.PRETRAINING, SIZES, "a.tfrecord"
    )
    assert (
        names["input_ids"] == "input_word_ids"
        and names["segment_ids"] == "input_type_ids"
    )
    parsed = record_format.parser(record_format.PRETRAINING, SIZES, names)(
        tf.constant([record])
    )
    np.testing.assert_array_equal(parsed["input_ids"], data["input_ids"])


@pytest.mark.parametrize(
    "largest", [1, 127, 128, 16383, 16384, 30521, 2**31 - 1, 2**62, -1]
)
def test_encoded_bytes_equal_tensorflow(largest):
    rng = np.random.default_rng(0)
    low, high = min(largest, 0), max(largest, 0)
    columns = {
        "input_ids": rng.integers(low, high, (50, 16), endpoint=True),
        "input_mask": rng.integers(0, 2, (50, 16)) > 0,
        "segment_ids": np.zeros((50, 16), np.int32),
        "masked_lm_positions": rng.integers(0, 300, (50, 4), dtype=np.uint16),
        "masked_lm_ids": np.full((50, 4), largest),
        "masked_lm_weights": rng.random((50, 4)) > 0.5,
        "next_sentence_labels": np.arange(50)[:, None],
    }
    made = record_format.encode(columns, record_format.PRETRAINING)
    assert [tf.train.Example.FromString(record) for record in made] == examples_of(
        columns
    )
