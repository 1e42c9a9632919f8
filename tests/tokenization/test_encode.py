"""`encode` and `pack`: special tokens, truncation, padding and trimming."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import tokenizer as reference
from refusals import refused
from tiny_bert import SPECIAL
from tokenizer_pairs import CLS, PAD, SEP, pair

from bert_tf.tokenization import BertTokenizer

TOKENS = [*SPECIAL, *"abcdefghijklmn"]
A, B, C = range(5, 8)
NAMES = ("input_ids", "input_mask", "segment_ids")


@pytest.fixture(scope="module")
def tokenizer():
    return BertTokenizer(TOKENS)


def packed(ids_a, ids_b, seq_length):
    """Returns ids and segment ids of an example by google-research/bert's rules."""
    specials = 2 if ids_b is None else 3
    if seq_length is not None:
        ids_a, kept_b = reference.truncate(ids_a, ids_b or [], seq_length - specials)
        ids_b = None if ids_b is None else kept_b
    ids = [CLS, *ids_a, SEP]
    segments = [0] * len(ids)
    if ids_b is not None:
        ids, segments = [*ids, *ids_b, SEP], [*segments, *[1] * (len(ids_b) + 1)]
    return ids, segments


def assert_packed(found, rows, in_pairs, seq_length, trim_to_longest=False):
    """Compares packed inputs with the results of `packed` for each (ids_a, ids_b)."""
    expected = [packed(a, b if in_pairs else None, seq_length) for a, b in rows]
    longest = max((len(ids) for ids, _ in expected), default=0)
    size = longest if seq_length is None or trim_to_longest else seq_length
    for name in NAMES:
        assert found[name].shape == (len(rows), size) and found[name].dtype == tf.int32
    for index, (ids, segments) in enumerate(expected):
        padding = [0] * (size - len(ids))
        assert found["input_ids"][index].numpy().tolist() == ids + padding
        assert found["input_mask"][index].numpy().tolist() == [1] * len(ids) + padding
        assert found["segment_ids"][index].numpy().tolist() == segments + padding


ROWS = st.lists(
    st.tuples(*[st.lists(st.integers(5, 18), max_size=12)] * 2), min_size=1, max_size=5
)
SEQ_LENGTHS = st.one_of(st.none(), st.integers(3, 20))


@settings(max_examples=60, deadline=None)
@given(ROWS, st.booleans(), SEQ_LENGTHS, st.booleans())
def test_pack_and_encode_follow_the_released_rules(
    rows, in_pairs, seq_length, trim_to_longest
):
    tokenizer, _ = pair(tuple(TOKENS), True)
    sides = [*zip(*rows, strict=True)][: 1 + in_pairs]
    ids = [tf.ragged.constant(side, tf.int32, ragged_rank=1) for side in sides]
    texts = [[" ".join(TOKENS[i] for i in each) for each in side] for side in sides]
    options = {"seq_length": seq_length, "trim_to_longest": trim_to_longest}
    for found in (tokenizer.pack(*ids, **options), tokenizer.encode(*texts, **options)):
        assert_packed(found, rows, in_pairs, **options)


def test_pack_refuses_a_length_without_room_for_special_tokens(tokenizer):
    with refused(r"at least 3\. Received: 2"):
        tokenizer.pack([[A]], [[B]], seq_length=2)
    with refused(r"an integer of at least 2\. Received: -1"):
        tokenizer.pack([[A]], seq_length=-1)
    assert tokenizer.pack([A], seq_length=np.int64(3))["input_ids"].shape == [3]


@pytest.mark.parametrize(
    ("texts", "options", "shape", "lengths"),
    [
        (["a " * 200, "b"], {}, (2, 128), [128, 3]),
        ([], {"seq_length": 9}, (0, 9), []),
        ([], {"seq_length": 9, "trim_to_longest": True}, (0, 0), []),
    ],
)
def test_encode_gives_batches_of_these_shapes(
    tokenizer, texts, options, shape, lengths
):
    inputs = tokenizer.encode(texts, **options)
    assert {name: each.shape for name, each in inputs.items()} == dict.fromkeys(
        NAMES, shape
    )
    assert tf.reduce_sum(inputs["input_mask"], axis=1).numpy().tolist() == lengths


def test_encode_returns_vectors_for_one_text(tokenizer):
    inputs = tokenizer.encode("a b", seq_length=6)
    assert inputs["input_ids"].numpy().tolist() == [CLS, A, B, SEP, PAD, PAD]
    assert inputs["input_mask"].numpy().tolist() == [1, 1, 1, 1, 0, 0]
    trimmed = tokenizer.encode("a b", "c", seq_length=20, trim_to_longest=True)
    assert trimmed["input_ids"].numpy().tolist() == [CLS, A, B, SEP, C, SEP]
    assert trimmed["segment_ids"].numpy().tolist() == [0, 0, 0, 0, 1, 1]


@pytest.mark.parametrize(("trim_to_longest", "length"), [(False, 16), (True, None)])
def test_encode_in_graphs_equals_eager_encode(tokenizer, trim_to_longest, length):
    """In a graph, the length is static unless it is trimmed."""

    def encode(*texts):
        return tokenizer.encode(*texts, seq_length=16, trim_to_longest=trim_to_longest)

    texts = ["a b c", "", "d" + " a" * 30], ["b", "c d", "a"]
    expected = encode(*texts)
    function = tf.function(
        encode, input_signature=[tf.TensorSpec([None], tf.string)] * 2
    )
    for value in function.get_concrete_function().structured_outputs.values():
        assert value.shape.as_list() == [None, length]
    dataset = tf.data.Dataset.from_tensor_slices(texts).batch(3)
    in_dataset = next(iter(dataset.map(function)))
    for found in (function(*map(tf.constant, texts)), in_dataset):
        for name in NAMES:
            np.testing.assert_array_equal(found[name], expected[name], name)
