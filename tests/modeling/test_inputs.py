"""The errors for inputs that a model cannot use."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from refusals import refused, refused_exactly
from tiny_bert import small_config

from bert_tf.modeling import BertClassifier, BertMultipleChoice, BertPretrainer

CONFIG = small_config(300, num_hidden_layers=1, max_position_embeddings=10)
IDS = np.ones((2, 6), np.int32)
EXPECTED = (
    "Expected: a dict {input_ids: int32 [B, S], input_mask: int32 [B, S] (1 = token, 0 "
    "= padding; default: 1 where input_ids is not 0), segment_ids: int32 [B, S] "
    "(default: 0)} of NumPy arrays or tensors, as BertTokenizer.encode returns it."
)
HUGGING_FACE = {"input_ids": IDS, "token_type_ids": IDS, "attention_mask": IDS}
# For each wrong input: the input, the problem, and the description of the input.
WRONG = {
    "list": ([IDS, IDS, IDS], "they are not a dict", "list of 3 items"),
    "ragged ids": (
        {"input_ids": tf.ragged.constant([[1], [1, 2]])},
        "input_ids is not a dense array or tensor of numbers",
        "{input_ids: RaggedTensor}",
    ),
    "list of ids": (
        {"input_ids": IDS.tolist()},
        "input_ids is not a dense array or tensor of numbers",
        "{input_ids: list of 2 items}",
    ),
    "text": (
        {"input_ids": tf.constant([["a", "b"]])},
        "input_ids is not a dense array or tensor of numbers",
        "{input_ids: string [1, 2]}",
    ),
    "no ids": (
        {"input_mask": IDS},
        "input_ids is missing",
        "{input_mask: int32 [2, 6]}",
    ),
    "Hugging Face": (
        HUGGING_FACE,
        "the name of attention_mask is input_mask in bert-tf",
        "{input_ids: int32 [2, 6], token_type_ids: int32 [2, 6], attention_mask: int32 "
        "[2, 6]}",
    ),
    "rank 1": (
        {"input_ids": IDS[0]},
        "the rank of input_ids is 1 instead of 2",
        "{input_ids: int32 [6]}",
    ),
    "lengths": (
        {"input_ids": IDS, "input_mask": IDS[:, :5]},
        "the shape of input_mask differs from the shape of input_ids",
        "{input_ids: int32 [2, 6], input_mask: int32 [2, 5]}",
    ),
    "bfloat16": (
        {"input_ids": tf.cast(IDS, tf.bfloat16)},
        "input_ids is bfloat16, which does not represent each value below 300 exactly",
        "{input_ids: bfloat16 [2, 6]}",
    ),
    "symbolic": (
        keras.Input((6,), dtype="int32"),
        "they are not a dict",
        "int32 [None, 6]",
    ),
}


@pytest.fixture(scope="module")
def model():
    return BertClassifier(CONFIG, num_labels=2, seed=0)


@pytest.mark.parametrize("case", WRONG)
def test_wrong_inputs_give_one_line_with_the_expected_inputs(model, case):
    inputs, problem, received = WRONG[case]
    with refused_exactly(
        f"The inputs of BertClassifier are invalid: {problem}. Received: {received}. "
        f"{EXPECTED}"
    ):
        model(inputs)


def test_fit_raises_the_same_error(model):
    model.compile("sgd", "mse")
    with refused("the name of attention_mask is input_mask"):
        model.fit(HUGGING_FACE, np.ones((2, 2)), verbose=0)


def test_a_tensor_of_unknown_rank_is_refused(model):
    call = tf.function(
        model.__call__,
        input_signature=[{"input_ids": tf.TensorSpec(None, tf.int32)}],
        autograph=False,
    )
    with refused(r"rank of input_ids is unknown instead of 2.*int32 \?"):
        call({"input_ids": IDS})


@pytest.mark.parametrize(
    ("model_class", "positions", "problem", "expected"),
    [
        (
            BertMultipleChoice,
            None,
            "rank of input_ids is 2 instead of 3",
            "{input_ids: int32 [B, C, S], input_mask: int32 [B, C, S] (1",
        ),
        (
            BertPretrainer,
            IDS[0],
            "rank of masked_lm_positions is 1 instead of 2",
            "masked_lm_positions: int32 [B, P] (default: all positions)}",
        ),
        (BertPretrainer, IDS[:1], "shape of masked_lm_positions differs", "[B, P]"),
    ],
)
def test_choices_and_positions_have_their_own_axes(
    model_class, positions, problem, expected
):
    model = model_class(CONFIG, seed=0)
    with refused(problem) as error:
        model({"input_ids": IDS, "masked_lm_positions": positions})
    assert expected in str(error.value)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("input_ids", -1, "contains -1, but its values must be from 0 to 299."),
        (
            "input_ids",
            300,
            "contains 300, but its values must be from 0 to 299. Use the tokenizer",
        ),
        (
            "input_ids",
            2**40,
            "contains 1099511627776, but its values must be from 0 to 299.",
        ),
        ("input_ids", np.nan, "contains nan, but its values must be from 0 to 299."),
        ("segment_ids", -1, "contains -1, but its values must be from 0 to 1."),
        ("segment_ids", 2, "contains 2, but its values must be from 0 to 1."),
        (
            "input_mask",
            2,
            "contains 2, but its values must be from 0 to 1. Use 1 for tokens",
        ),
        ("masked_lm_positions", -1, "contains -1, but its values must be from 0 to 5."),
        ("masked_lm_positions", 6, "contains 6, but its values must be from 0 to 5."),
    ],
)
@pytest.mark.parametrize("convert", [np.asarray, tf.constant])
def test_values_out_of_range_raise_in_eager_calls(name, value, message, convert):
    model = BertPretrainer(CONFIG, seed=0)
    inputs = {"input_ids": IDS, "segment_ids": IDS, "masked_lm_positions": IDS[:, :3]}
    model(inputs)
    wrong = inputs.get(name, IDS).astype(np.result_type(np.int64, type(value)))
    wrong[0, 0] = 0  # a value at the other end of the range
    wrong[1, 2] = value
    with refused(re.escape(f"{name} {message}")):
        model({**inputs, name: convert(wrong)})


def test_the_largest_values_and_lengths_are_accepted(model):
    model({"input_ids": IDS * 299, "segment_ids": IDS, "input_mask": IDS})
    model({"input_ids": np.ones((1, 10), np.int32)})
    with refused("have 11 tokens, but this model accepts at most 10"):
        model({"input_ids": np.ones((1, 11), np.int32)})
