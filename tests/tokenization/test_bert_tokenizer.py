"""The methods of BertTokenizer: kinds of input, offsets, words, detokenization."""

import hashlib

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import tokenizer as reference
from tiny_bert import SPECIAL
from tokenizer_pairs import CLS, MASK, PAD, SEP, pair

from bert_tf.tokenization import BertTokenizer

TOKENS = [
    *SPECIAL,
    "hello",
    "world",
    ",",
    "un",
    "##aff",
    "##able",
    "e",
    "##a",
    "=",
    "中",
    "ας",
    "[",
    "]",
    "mask",
]
HELLO, WORLD, COMMA, UN, AFF, ABLE = range(5, 11)


@pytest.fixture(scope="module")
def tokenizer():
    return BertTokenizer(TOKENS)


def test_attributes_describe_the_vocabulary(tokenizer):
    assert tokenizer.vocabulary == TOKENS and tokenizer.vocab_size == len(TOKENS)
    assert tokenizer.do_lower_case is True
    assert (
        tokenizer.vocabulary_sha256
        == hashlib.sha256("\n".join(TOKENS).encode()).hexdigest()
    )


def test_a_lone_surrogate_makes_a_word_unknown_as_in_python():
    texts = ["hello \ud800 world", "hello\udfff"]
    tokenizer, released = pair(tuple(TOKENS), True)
    assert tokenizer.tokenize(texts).to_list() == [
        released.tokenize(text) for text in texts
    ]


def test_tokenize_in_functions_and_datasets(tokenizer):
    texts = [
        "Hello, world",
        "ΑΣ \udcff".encode("utf-8", "surrogateescape"),
        "unaffable",
    ]
    expected = [[HELLO, COMMA, WORLD], [15], [UN, AFF, ABLE]]
    function = tf.function(tokenizer.tokenize)
    assert function(tf.constant(texts)).to_list() == expected
    dataset = tf.data.Dataset.from_tensor_slices(texts)
    batched = dataset.batch(3).map(tokenizer.tokenize, num_parallel_calls=2)
    assert next(iter(batched)).to_list() == expected
    assert [
        ids.tolist() for ids in dataset.map(tokenizer.tokenize).as_numpy_iterator()
    ] == expected


def test_words_are_normalized_and_split_at_punctuation(tokenizer):
    assert tokenizer.words(["Héllo,WORLD 中b"]).to_list() == [
        [b"hello", b",", b"world", "中".encode(), b"b"]
    ]


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("Hello, WORLD", ["Hello", ",", "WORLD"]),
        ("  un\u00adaffAble ", ["un\u00ad", "aff", "Able"]),
        ("e\u0301 é\u0301a ≠", ["e\u0301", "é\u0301", "a", "≠"]),
        ("中hello中", ["中", "hello", "中"]),
        ("ΑΣ,hello", ["ΑΣ", ",", "hello"]),
        ("ΑΣ \u302e\u1b44 hello", ["ΑΣ", "\u302e\u1b44", "hello"]),
        ("x" * 201 + ",ΑΣ", ["x" * 201, ",", "ΑΣ"]),
        ("я" * 150 + " hello", ["я" * 150, "hello"]),
    ],
)
def test_offsets_are_spans_of_the_original_text(tokenizer, text, spans):
    ids, starts, ends = tokenizer.tokenize_with_offsets([text])
    assert ids.to_list() == tokenizer.tokenize([text]).to_list()
    encoded = text.encode()
    found = zip(starts.to_list()[0], ends.to_list()[0], strict=True)
    assert [encoded[start:end].decode() for start, end in found] == spans
    first, last = (
        tokenizer.in_characters([text], each).to_list()[0] for each in (starts, ends)
    )
    assert [text[start:end] for start, end in zip(first, last, strict=True)] == spans


def test_offsets_skip_invalid_utf8(tokenizer):
    text = b"\xffhello\xc3 \xce\x91\xce\xa3"
    _, starts, ends = tokenizer.tokenize_with_offsets(text)
    assert starts.numpy().tolist() == [1, 8] and ends.numpy().tolist()[1] == 12


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.text("aéΣ,. \u0301中≠x\u00ad가\u302e", max_size=30), min_size=1, max_size=4
    )
)
def test_each_span_tokenized_alone_gives_its_token(texts):
    tokens = (*SPECIAL, *"aeσς,.中=x", *(f"##{c}" for c in "aeσςx"))
    tokenizer, _ = pair(tokens, True)
    ids, starts, ends = (
        each.to_list() for each in tokenizer.tokenize_with_offsets(texts)
    )
    assert ids == tokenizer.tokenize(texts).to_list()
    for text, row, first, last in zip(texts, ids, starts, ends, strict=True):
        spans = [text.encode()[a:b].decode() for a, b in zip(first, last, strict=True)]
        for token, span in zip(row, spans, strict=True):
            letter = tokens[token].removeprefix("##").replace("ς", "σ")
            assert (
                token == 1 or reference.words(span, True)[0].replace("ς", "σ") == letter
            )


def test_detokenize_joins_pieces_and_drops_special_tokens(tokenizer):
    assert tokenizer.detokenize(
        [CLS, UN, AFF, ABLE, COMMA, MASK, SEP, PAD]
    ).numpy() == (b"unaffable , [MASK]")
    ids = tokenizer.tokenize(["Hello world", "", "unaffable"])
    assert tokenizer.detokenize(ids).numpy().tolist() == [
        b"hello world",
        b"",
        b"unaffable",
    ]
