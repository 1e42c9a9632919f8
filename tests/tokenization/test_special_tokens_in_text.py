"""`special_tokens_in_text`: special tokens and the parts of a text between them."""

import functools
import re

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import tokenizer as reference
from refusals import refused
from tiny_bert import SPECIAL
from tokenizer_pairs import both_casings, needs_unicode_14, pair

from bert_tf.tokenization import BertTokenizer

PRIVATE = ["\ue000", "\ue001", "\ue004", "\ue005", "\ue006", "\uf8ff"]
LETTERS = [*"aeσςあ中1,.=[]", *PRIVATE[:2], "mask"]
TOKENS = [*SPECIAL, *LETTERS, *(f"##{letter}" for letter in "aeσςあ1"), "##\ue001"]
BEFORE = {
    "start": "",
    "Latin": "a",
    "capital": "A",
    "kana": "あ",
    "CJK": "中",
    "digit": "1",
    "accent": "e\u0301",
    "kept accents": "\u302e\u1b44",
    "final sigma": "aΣ",
    "[MASK]": "[MASK]",
    "[SEP]": "[SEP]",
    "bracket": "[",
    "private use": "\ue004",
    "removed": "a\u00ad",
    "joiner": "a\u200d",
    "unassigned": "\u0378",
    "4 bytes": "\U0001f600",
    "comma": ",",
}


def cut(text):
    """Yields (part, byte offset).

    A part is a special token or the text between special tokens.
    """
    pattern = re.compile("|".join(map(re.escape, SPECIAL)).encode())
    at = 0
    for match in pattern.finditer(text):
        yield from ((text[at : match.start()], at), (match[0], match.start()))
        at = match.end()
    yield text[at:], at


def is_special(part):
    return part in [token.encode() for token in SPECIAL]


def expected(text, released):
    """Returns the words and ids of a text with special tokens by the reference."""
    words, ids = [], []
    for part, _ in cut(text):
        if is_special(part):
            words.append(part.decode())
            ids.append(released.ids[words[-1]])
        else:
            split = reference.words(part, released.do_lower_case)
            words += split
            ids += released.ids_of(split)
    return words, ids


@functools.cache
def tokenizers(tokens, do_lower_case):
    """Returns a tokenizer that finds special tokens, another one, and the reference."""
    finds = BertTokenizer(tokens, do_lower_case, special_tokens_in_text=True)
    return finds, *pair(tokens, do_lower_case)


def assert_cut(texts, do_lower_case=True, tokens=TOKENS):
    tokenizer, plain, released = tokenizers(tuple(tokens), do_lower_case)
    texts = [text if isinstance(text, bytes) else text.encode() for text in texts]
    batch = tf.constant(texts, tf.string)
    ids, starts, ends = (
        each.to_list() for each in tokenizer.tokenize_with_offsets(batch)
    )
    assert ids == tokenizer.tokenize(batch).to_list()
    words = tokenizer.words(batch).to_list()
    all_spans = spans_of_parts(texts, plain)
    for text, spans, *found in zip(
        texts, all_spans, words, ids, starts, ends, strict=True
    ):
        expected_words, expected_ids = expected(text, released)
        assert [word.decode() for word in found[0]] == expected_words, text
        assert found[1] == expected_ids, text
        assert list(zip(*found[2:], strict=True)) == spans, text


def spans_of_parts(texts, plain):
    """Returns each text's list of token spans (start, end).

    `plain` tokenizes each part alone.
    """
    parts = [(row, *part) for row, text in enumerate(texts) for part in cut(text)]
    _, starts, ends = plain.tokenize_with_offsets(
        tf.constant([part for _, part, _ in parts])
    )
    spans = [[] for _ in texts]
    for (row, part, at), *found in zip(
        parts, starts.to_list(), ends.to_list(), strict=True
    ):
        if is_special(part):
            spans[row].append((at, at + len(part)))
        else:
            spans[row] += [
                (at + start, at + end) for start, end in zip(*found, strict=True)
            ]
    return spans


@both_casings
@pytest.mark.parametrize("token", SPECIAL)
def test_special_tokens_are_found_next_to_every_kind_of_character(token, do_lower_case):
    texts = [
        form.format(before, token, behind)
        for before in BEFORE.values()
        for behind in ("", "a", "\u0301a", "Σ", " 中", "]")
        for form in ("{0}{1}{2}", "{2} {0}{1}", "{0}{1}{1}{2}")
    ]
    assert_cut(texts, do_lower_case)


@pytest.mark.parametrize(
    "texts",
    [
        [
            "[mask]",
            "[MASK",
            "MASK]",
            "[ MASK]",
            "[MA\u00adSK]",
            "[M\u0301ASK]",
            "［MASK］",
        ],
        [
            b"\xff[MASK]\xff",
            b"a\xc3[MASK]",
            b"\xee\x80[MASK]\x80",
            b"\xed\xa0\x80[SEP]a",
        ],
        ["[MASK]" + "a" * length + "[MASK]" for length in (199, 200, 201, 5000)],
        ["[MASK]" + "あ" * length + "[MASK]" for length in (199, 200, 201)],
    ],
    ids=["similar texts", "invalid UTF-8", "long words", "long words of 3 bytes"],
)
def test_texts_are_cut_only_at_special_tokens(texts):
    assert_cut(texts)


def test_private_use_characters_in_a_text_are_ordinary_text():
    """Some of these characters are the tokenizer's placeholders for special tokens."""
    characters = [
        chr(code) for code in (*range(0xE000, 0xF900), *range(0x10FFE0, 0x110000))
    ]
    forms = ("{0}", "a{0}", "{0}1", "{0}{0}[MASK]{0}", "a {0} [SEP]")
    assert_cut([form.format(each) for each in characters[::7] for form in forms[3:]])
    assert_cut([form.format(each) for each in PRIVATE for form in forms])


@needs_unicode_14
@both_casings
@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(
        st.lists(
            st.one_of(
                st.sampled_from([*SPECIAL, *PRIVATE, *BEFORE.values(), *"Σ 05[]"]),
                st.text(max_size=2),
            ),
            max_size=12,
        ).map("".join),
        min_size=1,
        max_size=6,
    )
)
def test_any_text(texts, do_lower_case):
    assert_cut([text.encode("utf-8", "ignore") for text in texts], do_lower_case)


def test_a_vocabulary_with_nearly_all_private_use_characters():
    tokens = [*SPECIAL, "a", *map(chr, range(0xE000, 0xF8FA))]
    assert_cut(["a[MASK]\ue000[SEP]\uf8ff\uf8fa"], tokens=tokens)


def test_tokenize_in_lite_refuses_special_tokens_in_text():
    tokenizer = BertTokenizer(TOKENS, special_tokens_in_text=True)
    with refused("without special_tokens_in_text"):
        tokenizer.tokenize_in_lite(["a"])
