"""`BertTokenizer.pack`: special tokens, truncation and padding."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import tokenizer as reference

from bert_tf.errors import InputError
from bert_tf.tokenization import BertTokenizer

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmn"]
PAD, UNK, CLS, SEP, MASK, A, B, C, D = range(9)
NAMES = ("input_ids", "input_mask", "segment_ids")


@pytest.fixture(scope="module")
def tokenizer():
    return BertTokenizer(TOKENS)


def packed(ids_a, ids_b, seq_length):
    """The released convert_single_example, for one example: ids and segment ids."""
    specials = 2 if ids_b is None else 3
    if seq_length is not None:
        ids_a, kept_b = reference.truncate(ids_a, ids_b or [], seq_length - specials)
        ids_b = None if ids_b is None else kept_b
    ids = [CLS, *ids_a, SEP]
    segments = [0] * len(ids)
    if ids_b is not None:
        ids, segments = [*ids, *ids_b, SEP], [*segments, *[1] * (len(ids_b) + 1)]
    return ids, segments


def assert_packed(found, rows, pair, seq_length):
    """Compares packed inputs with the released rules applied to rows of (ids_a, ids_b)."""
    expected = [packed(a, b if pair else None, seq_length) for a, b in rows]
    longest = max((len(ids) for ids, _ in expected), default=0)
    size = longest if seq_length is None else seq_length
    for name in NAMES:
        assert found[name].shape == (len(rows), size) and found[name].dtype == tf.int32
    for index, (ids, segments) in enumerate(expected):
        padding = [0] * (size - len(ids))
        assert found["input_ids"][index].numpy().tolist() == ids + padding
        assert found["input_mask"][index].numpy().tolist() == [1] * len(ids) + padding
        assert found["segment_ids"][index].numpy().tolist() == segments + padding


ROWS = st.lists(
    st.tuples(*[st.lists(st.integers(5, 18), max_size=12)] * 2), min_size=1, max_size=5
)  # fmt: skip
SEQ_LENGTHS = st.one_of(st.none(), st.integers(3, 20))


@settings(max_examples=60, deadline=None)
@given(ROWS, st.booleans(), SEQ_LENGTHS)
def test_pack_follows_the_released_rules(rows, pair, seq_length):
    tokenizer = BertTokenizer(TOKENS)
    ids_a, ids_b = (
        tf.ragged.constant(ids, tf.int32, ragged_rank=1) for ids in zip(*rows, strict=True)
    )
    found = tokenizer.pack(ids_a, ids_b if pair else None, seq_length)
    assert_packed(found, rows, pair, seq_length)


def test_pack_refuses_a_length_without_room_for_special_tokens(tokenizer):
    with pytest.raises(InputError, match=r"at least 3\. Received: 2"):
        tokenizer.pack([[A]], [[B]], seq_length=2)
    for length in ("8", 8.0, -1):
        with pytest.raises(InputError, match=rf"an integer of at least 2\. Received: {length!r}"):
            tokenizer.pack([[A]], seq_length=length)
    assert tokenizer.pack([A], seq_length=np.int64(3))["input_ids"].shape == [3]
