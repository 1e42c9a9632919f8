"""New entries of a vocabulary: their rows, and that all other values keep every bit."""

import dataclasses

import numpy as np
import pytest
from reference import new_words as reference

from bert_tf.config import BertConfig
from bert_tf.conversion import CheckpointContents
from bert_tf.conversion.new_words import with_new_words
from bert_tf.modeling import BertClassifier, BertPretrainer, variables_by_name

TOKENS = [
    "[PAD]", "[unused7]", "a", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "##b", "##c",
    "[unused0]",
    "[unused]", "[unused2]x",
]  # fmt: skip
WORDS = {"ab": [2, 7], "abc": [2, 7, 8], "é": [3], "bbbb": [7, 7, 7, 8]}
TABLES = {"bert/embeddings/word_embeddings", "cls/predictions/output_bias"}


def contents_of(tokens=TOKENS, rows=None, kind=BertPretrainer, **extra):
    config = BertConfig(
        rows or len(tokens), 8, 1, 2, 8, max_position_embeddings=8, type_vocab_size=2
    )
    model = kind(
        config, seed=0, **({"num_labels": 2} if kind is BertClassifier else {})
    )
    generator = np.random.default_rng(0)
    arrays = {
        name: generator.normal(size=variable.shape).astype(np.float32)
        for name, variable in variables_by_name(model).items()
    }
    slots = {f"{name}/adam_m": array for name, array in arrays.items()}
    return CheckpointContents(
        "source",
        "bert-tf",
        arrays,
        config,
        list(tokens),
        True,
        extra,
        slots=slots,
        global_step=9,
    )


def check(contents, words):
    """Compares all values of the checkpoint with new words with the rules."""
    before = {name: array.copy() for name, array in contents.arrays.items()}
    adapted = with_new_words(contents, words)
    rows = contents.config.vocab_size
    tokens = reference.new_vocabulary(contents.vocabulary, words, rows)
    assert adapted.vocabulary == tokens
    size = max(rows, len(tokens))
    assert adapted.config == dataclasses.replace(contents.config, vocab_size=size)
    assert adapted.arrays.keys() == before.keys()
    for name, array in adapted.arrays.items():
        np.testing.assert_array_equal(contents.arrays[name], before[name])
        expected = before[name]
        if name in TABLES:
            padding = (
                np.stack([expected[0]] * (size - rows)) if size > rows else expected[:0]
            )
            expected = np.concatenate([expected, padding])
            changed = [tokens.index(word) for word in words]
            means = [
                before[name][ids].astype(np.float64).mean(0) for ids in words.values()
            ]
            np.testing.assert_allclose(array[changed], means, rtol=1e-5, atol=1e-7)
            expected[changed] = array[changed]
        np.testing.assert_array_equal(array.view(np.int32), expected.view(np.int32))
        assert array.dtype == np.float32
    assert (adapted.slots, adapted.global_step) == ({}, 9)
    return adapted


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_words_replace_unused_entries_and_are_then_appended(number):
    adapted = check(contents_of(), dict(list(WORDS.items())[:number]))
    assert adapted.vocabulary[1] == "ab"
    assert adapted.vocabulary[9] == ("abc" if number > 1 else "[unused0]")
    appended = [
        ["é", "[unused1]", "[unused2]", "[unused3]"],
        ["é", "bbbb", "[unused1]", "[unused2]"],
    ]
    assert adapted.vocabulary[12:] == (appended[number - 3] if number > 2 else [])
    assert adapted.config.vocab_size == (16 if number > 2 else 12)


@pytest.mark.parametrize("rows", [7, 8, 9, 11, 24])
def test_words_are_appended_without_unused_entries_and_into_rows_without_a_token(rows):
    tokens = ["[PAD]", "a", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "##b"]
    adapted = check(contents_of(tokens, rows), {"ab": [1, 6]})
    assert adapted.vocabulary[7] == "ab" and adapted.config.vocab_size % 8 == 0
    assert (
        len(adapted.vocabulary)
        == adapted.config.vocab_size
        == max(8, -(-rows // 8) * 8)
    )


def test_a_table_of_another_size_is_unchanged_if_the_unused_entries_are_enough():
    adapted = check(contents_of(rows=13), {"ab": [2, 7]})
    assert (len(adapted.vocabulary), adapted.config.vocab_size) == (12, 13)


def test_the_head_and_facts_of_a_classifier_stay_without_its_evaluation():
    facts = {"labels": ["x", "y"], "task": "custom"}
    contents = contents_of(kind=BertClassifier, **facts, eval={"accuracy": 0.5})
    adapted = check(contents, WORDS)
    assert adapted.facts == facts and "output_weights" in adapted.arrays
