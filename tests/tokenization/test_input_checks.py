"""The texts, ids and vocabularies that are accepted, and messages for all others."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf
from refusals import refused
from tiny_bert import SPECIAL
from tokenizer_pairs import CLS, MASK, PAD, SEP

from bert_tf.errors import InputError
from bert_tf.tokenization import BertTokenizer

TOKENS = [*SPECIAL, "hello", "un", "##aff", "##able"]
HELLO, UN, AFF, ABLE = range(5, 9)


@pytest.fixture(scope="module")
def tokenizer():
    return BertTokenizer(TOKENS)


METHODS = ("tokenize", "tokenize_with_offsets", "words", "tokenize_in_lite")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("texts", "rows"),
    [
        (["hello", b"hello"], 2),
        (np.array(["hello", b"hello"], object), 2),
        (("hello",), 1),
        ([np.str_("hello")], 1),
        ([tf.constant("hello"), "hello"], 2),
        ([], 0),
        (np.array([]), 0),
        (np.array([], object), 0),
        (tf.Variable(["hello"]), 1),
        (["hello\ud800"], 1),
        (np.array(["hello", "\ud800"]), 2),
        (np.array(["\ud800", b"hello"], object), 2),
        *(
            (text, None)
            for text in (
                "hello",
                b"hello",
                np.str_("hello"),
                np.array("hello"),
                np.array("hello", object),
                tf.constant("hello"),
                "hello\ud800",
                np.array("\ud800"),
            )
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_kind_of_texts_is_accepted(tokenizer, method, texts, rows):
    """The results are ragged for a batch, and tensors for one text (`rows` is None)."""
    found = getattr(tokenizer, method)(texts)
    for each in found if isinstance(found, tuple) else (found,):
        if rows is None:
            assert isinstance(each, tf.Tensor) and each.shape == [1]
        else:
            assert isinstance(each, tf.RaggedTensor) and each.shape.rank == 2
            assert len(each.to_list()) == rows


@pytest.mark.parametrize("texts", [None, [["a"], ["b"]], tf.constant([1])], ids=str)
def test_values_that_are_not_texts_are_refused(tokenizer, texts):
    with pytest.raises((TypeError, ValueError, tf.errors.InvalidArgumentError)):
        tokenizer.tokenize(texts)


@pytest.mark.parametrize("texts", [["a", None], np.array(["a", None], object)], ids=str)
def test_an_empty_cell_among_the_texts_is_named(tokenizer, texts):
    with refused("Received: None, a value of type NoneType"):
        tokenizer.encode(texts)


IDS = [
    [UN, AFF, ABLE, MASK],
    (UN, AFF, ABLE, MASK),
    np.array([UN, AFF, ABLE, MASK]),
    np.array([UN, AFF, ABLE, MASK], np.uint8),
    tf.constant([UN, AFF, ABLE, MASK], tf.int64),
    [np.int64(UN), AFF, ABLE, MASK],
]


@pytest.mark.parametrize("ids", IDS, ids=lambda ids: type(ids).__name__)
def test_every_kind_of_ids_of_one_text_is_accepted(tokenizer, ids):
    assert tokenizer.detokenize(ids).numpy() == b"unaffable [MASK]"
    packed = tokenizer.pack(ids, seq_length=7)
    assert packed["input_ids"].numpy().tolist() == [CLS, UN, AFF, ABLE, MASK, SEP, PAD]
    assert packed["input_mask"].numpy().tolist() == [1] * 6 + [0]
    of_tensors = tokenizer.pack([tf.constant(int(each)) for each in ids], seq_length=7)
    assert np.array_equal(of_tensors["input_ids"], packed["input_ids"])
    pair = tokenizer.pack(ids, ids, seq_length=None)
    assert pair["segment_ids"].numpy().tolist() == [0] * 6 + [1] * 5
    twice = tokenizer.pack([ids, ids[:1]], seq_length=7)["input_ids"].numpy().tolist()
    assert twice == [
        [CLS, UN, AFF, ABLE, MASK, SEP, PAD],
        [CLS, UN, SEP, PAD, PAD, PAD, PAD],
    ]


@pytest.mark.parametrize(
    "ids",
    [
        [[UN, AFF], []],
        tf.ragged.constant([[UN, AFF], []]),
        np.array([[UN, AFF], [PAD, PAD]]),
        [np.array([UN, AFF]), np.array([], np.int64)],
        ([UN, AFF], ()),
        np.array([[UN, AFF], []], object),
        [tf.constant([UN, AFF]), tf.constant([], tf.int32)],
    ],
    ids=["lists", "ragged", "dense", "arrays", "tuples", "objects", "tensors"],
)
def test_every_kind_of_ids_of_a_batch_is_accepted(tokenizer, ids):
    assert tokenizer.detokenize(ids).numpy().tolist() == [b"unaff", b""]
    assert tokenizer.pack(ids, seq_length=5)["input_ids"][0].numpy().tolist() == [
        CLS,
        UN,
        AFF,
        SEP,
        PAD,
    ]


def test_texts_without_tokens_and_batches_without_texts_are_accepted(tokenizer):
    """[] is one text without tokens, and [[]] is a batch of one such text."""
    for none in ([], np.array([]), tf.constant([], tf.int32)):
        assert tokenizer.detokenize(none).numpy() == b""
        packed = tokenizer.pack(none, seq_length=3)["input_ids"]
        assert packed.numpy().tolist() == [CLS, SEP, PAD]
    for empty in ([[]], np.zeros([1, 0]), tokenizer.tokenize([""])):
        assert tokenizer.detokenize(empty).numpy().tolist() == [b""]
        assert tokenizer.pack(empty, seq_length=None)["input_ids"].numpy().tolist() == [
            [CLS, SEP]
        ]
    no_texts = tokenizer.tokenize([])
    assert tokenizer.detokenize(no_texts).shape == [0]
    assert tokenizer.pack(no_texts, seq_length=None)["input_ids"].shape == (0, 0)
    assert tokenizer.pack(no_texts, no_texts, seq_length=9)["input_ids"].shape == (0, 9)


@pytest.mark.parametrize("ids", [5, [[[1]]], tf.constant([1.0])], ids=str)
def test_tensors_that_are_not_ids_are_refused(tokenizer, ids):
    for method in (tokenizer.detokenize, tokenizer.pack):
        with refused("Ids must be integers.*Received: .*shape"):
            method(ids)


@pytest.mark.parametrize("ids", [[1.5], [[1], 2], [9], [[5, -1]], [2**32 + 5]], ids=str)
def test_values_that_are_not_ids_of_the_vocabulary_are_refused(tokenizer, ids):
    with pytest.raises((TypeError, ValueError, tf.errors.InvalidArgumentError)):
        tokenizer.detokenize(ids)


def test_batches_of_different_sizes_are_refused_as_pairs(tokenizer):
    with refused(r"same number .* Received: a batch of 2 and a batch of 1"):
        tokenizer.pack([[HELLO], [HELLO]], [[HELLO]])
    with refused(r"same number .* Received: one text and a batch of 1"):
        tokenizer.pack([HELLO], [[HELLO]])


def test_batches_of_different_sizes_are_refused_as_pairs_when_a_graph_runs(tokenizer):
    """Batches of 1 and 2 texts would broadcast; batches of 2 and 3 texts would not."""
    ragged = tf.RaggedTensorSpec([None, None], tf.int32)
    function = tf.function(tokenizer.pack, input_signature=[ragged, ragged])
    one, two = (tf.ragged.constant([[HELLO]] * size) for size in (1, 2))
    assert function(two, two)["input_ids"].shape == [2, 128]
    for first, second in (
        (two, one),
        (one, two),
        (two, tf.ragged.constant([[HELLO]] * 3)),
    ):
        rows = rf"\[{first.shape[0]}\] \[and\] \[{second.shape[0]}\]"
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=f"same number.*{rows}"
        ):
            function(first, second)


def test_ids_are_accepted_in_functions(tokenizer):
    function = tf.function(lambda ids: (tokenizer.detokenize(ids), tokenizer.pack(ids)))
    text, packed = function(tf.constant([UN, AFF]))
    assert text.numpy() == b"unaff" and packed["input_ids"].shape == [128]
    texts, packed = function(tf.ragged.constant([[UN, AFF], []]))
    assert texts.numpy().tolist() == [b"unaff", b""] and packed["input_ids"].shape == [
        2,
        128,
    ]


def test_offsets_in_characters_are_accepted_as_lists(tokenizer):
    assert tokenizer.in_characters("éa", [0, 2, 3]).numpy().tolist() == [0, 1, 2]
    assert tokenizer.in_characters(["éa", ""], [[2, 3], []]).to_list() == [[1, 2], []]


@pytest.mark.parametrize(
    ("vocab", "message"),
    [
        ([], "none of the 0 lines"),
        ([*TOKENS, ""], "line 10 is empty"),
        (pathlib.Path("nowhere"), "no file nowhere"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_that_are_not_vocabularies_are_refused(vocab, message):
    with refused(message):
        BertTokenizer(vocab)


@pytest.mark.parametrize(
    "vocab", [tuple(TOKENS), np.array(TOKENS), np.array(TOKENS, object)]
)
def test_every_kind_of_vocabulary_is_accepted(vocab):
    tokenizer = BertTokenizer(vocab)
    assert tokenizer.vocabulary == TOKENS and {
        type(token) for token in tokenizer.vocabulary
    } == {str}


def test_a_casing_that_is_not_a_bool_is_refused():
    with refused(r"must be True or False\. Received: 'False'"):
        BertTokenizer(TOKENS, do_lower_case="False")


def test_arrays_of_floats_are_not_ids(tokenizer):
    for ids in (np.array([1.5, 2.0]), np.array([1.5, 2], object)):
        with pytest.raises((TypeError, InputError)):
            tokenizer.detokenize(ids)
