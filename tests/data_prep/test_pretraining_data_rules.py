"""Every created record obeys the rules of google-research/bert."""

import collections
import itertools

import numpy as np
import pytest
from tiny_corpus import (
    CLS,
    MASK,
    PIECES,
    SEP,
    VOCABULARY,
    WORDS,
    corpus,
    ids_of,
    make,
    parsed,
    text_of,
    unmasked,
)

from bert_tf.tokenization import BertTokenizer


def starts_by_token(documents):
    """Returns by token: (document number, token index, tokens of the document)."""
    starts = collections.defaultdict(list)
    for number, document in enumerate(documents):
        flat = [token for sentence in document for token in sentence]
        for i in range(len(flat)):
            starts[flat[i]].append((number, i, flat))
    return starts


def occurrences(part, starts):
    """Returns (document number, index) of each occurrence of the token list `part`."""
    return [(n, i) for n, i, flat in starts[part[0]] if flat[i : i + len(part)] == part]


@pytest.mark.parametrize("whole_words", [False, True])
def test_each_record_obeys_the_rules(tmp_path, vocab_file, whole_words):
    documents = corpus(40)
    _, paths = make(
        tmp_path,
        vocab_file,
        text_of(documents),
        do_whole_word_mask=whole_words,
        dupe_factor=3,
    )
    records = parsed(paths, 128, 20)
    starts = starts_by_token(ids_of(documents, BertTokenizer(VOCABULARY)))
    continues = {VOCABULARY.index(piece) for piece in PIECES}
    assert len(records["input_ids"]) > 500
    for number, ids in enumerate(unmasked(records).tolist()):
        row = {name: value[number] for name, value in records.items()}
        length = row["input_mask"].sum()
        count = int(row["masked_lm_weights"].sum())
        first = ids.index(SEP)
        assert ids[0] == CLS and ids.count(SEP) == 2 and ids[length - 1] == SEP
        assert not any(ids[length:])

        # The features that the lengths determine.
        in_b = range(first + 1, length)
        np.testing.assert_array_equal(row["input_mask"], np.arange(128) < length)
        np.testing.assert_array_equal(row["segment_ids"], np.isin(range(128), in_b))
        np.testing.assert_array_equal(row["masked_lm_weights"], np.arange(20) < count)
        assert not row["masked_lm_positions"][count:].any()
        assert not row["masked_lm_ids"][count:].any()

        # The predictions.
        positions = row["masked_lm_positions"][:count].tolist()
        assert positions == sorted(set(positions))
        assert not {0, first, length - 1} & set(positions)
        expected_count = min(20, max(1, round(int(length) * 0.15)))
        assert count == expected_count or (whole_words and count < expected_count)
        if whole_words:
            ordinary = [j for j in range(length) if ids[j] not in (CLS, SEP)]
            for before, j in itertools.pairwise(ordinary):
                if ids[j] in continues:
                    assert (j in positions) == (before in positions)

        # The texts.
        a, b = ids[1:first], ids[first + 1 : length - 1]
        places_a, places_b = occurrences(a, starts), occurrences(b, starts)
        assert places_a and places_b
        if not row["next_sentence_labels"][0] and length < 128:
            # In a pair that was not truncated, B starts where A ends.
            assert {(n, i + len(a)) for n, i in places_a} & set(places_b)
        elif not row["next_sentence_labels"][0]:
            assert {n for n, _ in places_a} & {n for n, _ in places_b}


def test_random_next_sentences_are_from_another_document(tmp_path, vocab_file):
    # No two documents have a word in common.
    documents = [
        [[WORDS[d * 10 + s] for s in range(8)] for _ in range(12)] for d in range(20)
    ]
    _, paths = make(tmp_path, vocab_file, text_of(documents), masked_lm_prob=1e-9)
    records = parsed(paths, 128, 20)
    labels = records["next_sentence_labels"][:, 0]
    for ids, segment, label in zip(
        unmasked(records), records["segment_ids"], labels, strict=True
    ):
        own = {(i - 5) // 10 for i in ids[(segment == 0) & (ids > MASK)]}
        other = {(i - 5) // 10 for i in ids[(segment == 1) & (ids > MASK)]}
        assert len(own) == len(other) == 1
        assert (own != other) == bool(label)


@pytest.mark.parametrize("same_document_label", ["random", "next", "never"])
def test_ten_draws_of_the_same_document_give_the_label_of_the_setting(
    tmp_path, vocab_file, same_document_label
):
    # Of two documents, ten draws give the same one in 1 of 1,024 random next sentences.
    documents = [
        [[WORDS[d * 10 + s % 10] for s in range(3)] for _ in range(3000)]
        for d in (0, 1)
    ]
    _, paths = make(
        tmp_path, vocab_file, text_of(documents),
        same_document_label=same_document_label,
        max_seq_length=9, masked_lm_prob=1e-9, dupe_factor=6,
    )  # fmt: skip
    records = parsed(paths, 9, 20)
    ids = unmasked(records)
    of_a, of_b = ids[:, 1], ids[np.arange(len(ids)), records["segment_ids"].argmax(1)]
    is_same = (of_a - 5) // 10 == (of_b - 5) // 10
    is_random = records["next_sentence_labels"][:, 0] == 1
    assert is_random.sum() > 5_000
    assert is_same[~is_random].all()
    expected = is_random.sum() / 1024 if same_document_label == "random" else 0
    assert abs((is_same & is_random).sum() - expected) <= 5 * expected**0.5


@pytest.mark.parametrize("objective", ["mlm", "causal"])
def test_sequences_without_b_contain_each_token_once(tmp_path, vocab_file, objective):
    documents = corpus(20)
    _, paths = make(
        tmp_path, vocab_file, text_of(documents), objective=objective, dupe_factor=1,
        short_seq_prob=0.0,
    )  # fmt: skip
    records = parsed(paths, 128, 20)
    ids = ids_of(documents, BertTokenizer(VOCABULARY))
    tokens = sum(map(len, itertools.chain(*ids)))
    lengths = records["input_mask"].sum(axis=1)
    # Tokens are lost only in sentences that are too long, and this corpus has no such
    # sentence.
    assert (lengths - 2).sum() == tokens
    assert (records["input_ids"][:, 0] == CLS).all()
    assert (records["input_ids"][np.arange(len(lengths)), lengths - 1] == SEP).all()
    assert not records["segment_ids"].any()
    assert not records["next_sentence_labels"].any()
    expected = np.rint(lengths * 0.15).clip(1, 20)
    if objective == "causal":
        expected[:] = 0
        assert not (records["input_ids"] == MASK).any()
    np.testing.assert_array_equal(records["masked_lm_weights"].sum(axis=1), expected)


def test_unused_predictions_of_short_sequences_are_padded_as_released(
    tmp_path, vocab_file
):
    text = text_of(corpus(20))
    for flags in ({}, {"do_whole_word_mask": True}, {"max_ngram_size": 2}):
        name = f"{len(flags)}{flags.get('max_ngram_size', 1)}.tfrecord"
        _, paths = make(tmp_path, vocab_file, text, name, max_seq_length=16, **flags)
        records = parsed(paths, 16, 20)
        counts = records["masked_lm_weights"].sum(axis=1)
        assert counts.max() == 2
        for name in ("masked_lm_positions", "masked_lm_ids"):
            assert records[name].shape[1] == 20 and not records[name][:, 3:].any()
    _, paths = make(
        tmp_path, vocab_file, text, "all.tfrecord", max_seq_length=8, masked_lm_prob=1.0
    )
    assert parsed(paths, 8, 20)["masked_lm_weights"].sum(axis=1).max() == 5
