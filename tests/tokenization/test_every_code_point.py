"""Each of the 1,114,112 code points: alone, in a word, between words, doubled."""

import itertools
import unicodedata

import numpy as np
import pytest
import tensorflow as tf
from reference import tokenizer as reference

from bert_tf.tokenization import BertTokenizer

pytestmark = pytest.mark.skipif(
    unicodedata.unidata_version != "14.0.0",
    reason="the reference takes characters as the running Python has them; the tables are of 14.0",
)
SMALL = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abΣσςéßµ中가=;-‘ı",
    *(f"##{c}" for c in "abΣσςéßı"),
]  # fmt: skip
FORMS = ("{0}", "a{0}b", "a {0} b", "{0}{0}")
AT_A_TIME = 1 << 16


@pytest.fixture(scope="module", params=[True, False], ids=["uncased", "cased"])
def small(request):
    return BertTokenizer(SMALL, request.param), reference.Tokenizer(SMALL, request.param)


def texts_of(characters):
    """Surrogates as the bytes that reach us."""
    texts = [form.format(character) for character in characters for form in FORMS]
    return [text.encode("utf-8", "surrogatepass") for text in texts]


def assert_words(characters, tokenizer, released):
    """The words joined by blanks: a word holds none."""
    texts = texts_of(characters)
    words = tokenizer.words(tf.constant(texts, tf.string))
    found = tf.strings.reduce_join(words, axis=-1, separator=" ").numpy().tolist()
    alike = [reference.stays_as_it_is(each, released.do_lower_case) for each in characters]
    for at, text in enumerate(texts):
        by_rule = text if alike[at // len(FORMS)] else joined_words(text, released)
        assert found[at] == by_rule, text


def joined_words(text, released):
    return " ".join(reference.words(text, released.do_lower_case)).encode()


def assert_ids(characters, tokenize, released):
    """Characters alike, which no token holds, are one case; the rest go one by one."""
    held = set().union(*released.ids)
    known, alike = [], []
    for character in characters:
        plain = reference.stays_as_it_is(character, released.do_lower_case)
        (alike if plain and character not in held else known).append(character)
    assert_rows(texts_of(known), tokenize, *flat(map(released.tokenize, texts_of(known))))
    rows = [released.tokenize(text) for text in texts_of(alike[:1])]
    values, lengths = flat(rows)
    assert_rows(texts_of(alike), tokenize, values * len(alike), lengths * len(alike))
    for text in texts_of(alike[::199]):  # so that the one case is one
        assert released.tokenize(text) == rows[FORMS.index(form_of(text))]


def flat(rows):
    rows = list(rows)
    return list(itertools.chain(*rows)), [len(row) for row in rows]


def form_of(text):
    text = text.decode()
    return "{0}{0}" if len(text) == 2 else {1: "{0}", 3: "a{0}b", 5: "a {0} b"}[len(text)]


def assert_rows(texts, tokenize, values, lengths):
    found = tokenize(tf.constant(texts, tf.string))
    splits = np.cumsum([0, *lengths])
    if not (np.array_equal(found.row_splits, splits) and np.array_equal(found.values, values)):
        for text, row, first, last in zip(texts, found.to_list(), splits, splits[1:], strict=False):
            assert row == values[first:last], text


def every_code_point(first=0, step=1):
    for start in range(0, 0x110000, AT_A_TIME):
        yield [chr(code) for code in range(start + first, start + AT_A_TIME, step)]


def test_every_256th_code_point(released_vocabulary):
    tokenizer, released = released_vocabulary
    for characters in every_code_point(7, 256):
        assert_words(characters, tokenizer, released)
        assert_ids(characters, tokenizer.tokenize, released)


@pytest.mark.slow
def test_the_words_of_every_code_point(small):
    for characters in every_code_point():
        assert_words(characters, *small)


@pytest.mark.slow
def test_every_code_point(small):
    tokenizer, released = small
    for characters in every_code_point():
        assert_ids(characters, tokenizer.tokenize, released)


@pytest.mark.slow
def test_every_code_point_with_the_released_vocabularies(released_vocabulary):
    tokenizer, released = released_vocabulary
    for characters in every_code_point():
        assert_ids(characters, tokenizer.tokenize, released)


@pytest.mark.slow
def test_every_code_point_in_lite(small):
    """One character alone makes no difference to TFLite, but for the sigma and no UTF-8."""
    tokenizer, released = small
    for characters in every_code_point():
        same = [each for each in characters if each != "Σ" and not "\ud800" <= each <= "\udfff"]
        assert_ids(same, tokenizer.tokenize_in_lite, released)
