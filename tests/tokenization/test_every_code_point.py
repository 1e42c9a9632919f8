"""Words and ids of all 1,114,112 code points: alone, doubled, in and between words."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from reference import tokenizer as reference
from tiny_bert import SPECIAL
from tokenizer_pairs import needs_unicode_14, pair

pytestmark = needs_unicode_14
SMALL = (*SPECIAL, *"abΣσςéßµ中가=;-‘ı", *(f"##{c}" for c in "abΣσςéßı"))
FORMS = ("{0}", "a{0}b", "a {0} b", "{0}{0}")
AT_A_TIME = 1 << 16


@pytest.fixture(scope="module", params=[True, False], ids=["uncased", "cased"])
def small(request):
    return pair(SMALL, request.param)


def texts_of(characters):
    """Returns each character in each of FORMS, as bytes.

    Surrogates become invalid UTF-8.
    """
    texts = [form.format(character) for character in characters for form in FORMS]
    return [text.encode("utf-8", "surrogatepass") for text in texts]


def assert_words(characters, tokenizer, released):
    """Compares words with the reference, as strings with a space between words."""
    texts = texts_of(characters)
    words = tokenizer.words(tf.constant(texts, tf.string))
    found = tf.strings.reduce_join(words, axis=-1, separator=" ").numpy().tolist()
    unchanged = [
        reference.is_unchanged(each, released.do_lower_case) for each in characters
    ]
    for index, text in enumerate(texts):
        expected = (
            text if unchanged[index // len(FORMS)] else joined_words(text, released)
        )
        assert found[index] == expected, text


def joined_words(text, released):
    return " ".join(reference.words(text, released.do_lower_case)).encode()


def assert_ids(characters, tokenize, released):
    """Compares the ids with the reference.

    A character is equivalent if no rule changes the character and no token contains the
    character. In the same form, all equivalent characters give the same ids. Therefore,
    to save time, the reference tokenizes only the first equivalent character, and every
    199th as a check. The reference tokenizes all characters that are not equivalent.
    """
    in_tokens = set().union(*released.ids)
    individual, equivalent = [], []
    for character in characters:
        unchanged = reference.is_unchanged(character, released.do_lower_case)
        group = equivalent if unchanged and character not in in_tokens else individual
        group.append(character)
    expected = concatenated(map(released.tokenize, texts_of(individual)))
    assert_rows(texts_of(individual), tokenize, *expected)
    rows = [released.tokenize(text) for text in texts_of(equivalent[:1])]
    values, lengths = concatenated(rows)
    count = len(equivalent)
    assert_rows(texts_of(equivalent), tokenize, values * count, lengths * count)
    for number, text in enumerate(texts_of(equivalent[::199])):
        assert released.tokenize(text) == rows[number % len(FORMS)], text


def concatenated(rows):
    """Returns the values of all rows in one list, and the length of each row."""
    rows = list(rows)
    return list(itertools.chain(*rows)), [len(row) for row in rows]


def assert_rows(texts, tokenize, values, lengths):
    found = tokenize(tf.constant(texts, tf.string))
    splits = np.cumsum([0, *lengths])
    if not (
        np.array_equal(found.row_splits, splits)
        and np.array_equal(found.values, values)
    ):
        for text, row, first, last in zip(
            texts, found.to_list(), splits, splits[1:], strict=False
        ):
            assert row == values[first:last], text


def every_code_point(first=0, step=1):
    for start in range(0, 0x110000, AT_A_TIME):
        yield [chr(code) for code in range(start + first, start + AT_A_TIME, step)]


def test_words_and_ids_of_every_256th_code_point(released_vocabulary):
    tokenizer, released = released_vocabulary
    for characters in every_code_point(7, 256):
        assert_words(characters, tokenizer, released)
        assert_ids(characters, tokenizer.tokenize, released)


@pytest.mark.slow
def test_the_words_of_every_code_point(small):
    for characters in every_code_point():
        assert_words(characters, *small)


@pytest.mark.slow
def test_the_ids_of_every_code_point(small):
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
    """Each character except Σ and surrogates gives the same ids in TFLite."""
    tokenizer, released = small
    for characters in every_code_point():
        same = [
            each
            for each in characters
            if each != "Σ" and not "\ud800" <= each <= "\udfff"
        ]
        assert_ids(same, tokenizer.tokenize_in_lite, released)
