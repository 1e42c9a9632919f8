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
)  # fmt: skip

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
    for i in range(len(records["input_ids"])):
        row = {name: value[i] for name, value in records.items()}
        length = row["input_mask"].sum()
        assert row["input_mask"].tolist() == [1] * length + [0] * (128 - length)
        count = int(row["masked_lm_weights"].sum())
        positions = row["masked_lm_positions"][:count].tolist()
        assert row["masked_lm_weights"].tolist() == [1.0] * count + [0.0] * (20 - count)
        assert positions == sorted(set(positions))
        unmasked = row["input_ids"].tolist()
        for position, token in zip(
            positions, row["masked_lm_ids"].tolist(), strict=False
        ):
            unmasked[position] = token
        assert not any(unmasked[length:])
        assert not row["masked_lm_positions"][count:].any()
        assert not row["masked_lm_ids"][count:].any()
        separators = [j for j in range(length) if unmasked[j] == SEP]
        assert (
            unmasked[0] == CLS and len(separators) == 2 and separators[1] == length - 1
        )
        assert not {0, *separators} & set(positions)
        first = separators[0]
        expected = [0] * (first + 1) + [1] * (length - first - 1) + [0] * (128 - length)
        assert row["segment_ids"].tolist() == expected
        expected_count = min(20, max(1, round(int(length) * 0.15)))
        assert count == expected_count or (whole_words and count < expected_count)
        if whole_words:
            ordinary = [j for j in range(length) if unmasked[j] not in (CLS, SEP)]
            for before, j in itertools.pairwise(ordinary):
                if unmasked[j] in continues:
                    assert (j in positions) == (before in positions)
        a, b = unmasked[1:first], unmasked[first + 1 : length - 1]
        places_a, places_b = occurrences(a, starts), occurrences(b, starts)
        assert places_a and places_b
        if not row["next_sentence_labels"][0] and length < 128:
            # In a pair that was not truncated, B starts where A ends.
            assert {(n, i + len(a)) for n, i in places_a} & set(places_b)
        elif not row["next_sentence_labels"][0]:
            assert {n for n, _ in places_a} & {n for n, _ in places_b}


def unmasked(records):
    """Returns the ids before masking, of records with one prediction."""
    ids = records["input_ids"].copy()
    positions, labels = records["masked_lm_positions"], records["masked_lm_ids"]
    np.put_along_axis(ids, positions[:, :1], labels[:, :1], 1)
    return ids


def test_random_next_sentences_are_from_another_document(tmp_path, vocab_file):
    # No two documents have a word in common.
    documents = [
        [[WORDS[d * 10 + s] for s in range(8)] for _ in range(12)] for d in range(20)
    ]
    _, paths = make(tmp_path, vocab_file, text_of(documents), masked_lm_prob=1e-9)
    records = parsed(paths, 128, 20)
    for ids, segment, label in zip(
        unmasked(records),
        records["segment_ids"],
        records["next_sentence_labels"][:, 0],
        strict=True,
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
    tokens = sum(
        len(s)
        for document in ids_of(documents, BertTokenizer(VOCABULARY))
        for s in document
    )
    lengths = records["input_mask"].sum(axis=1)
    # Tokens are lost only in sentences that are too long, and this corpus has no such
    # sentence.
    assert (lengths - 2).sum() == tokens
    assert (records["input_ids"][:, 0] == CLS).all()
    assert (records["input_ids"][np.arange(len(lengths)), lengths - 1] == SEP).all()
    assert (
        not records["segment_ids"].any() and not records["next_sentence_labels"].any()
    )
    predicted = records["masked_lm_weights"].sum(axis=1)
    if objective == "causal":
        assert not predicted.any()
        assert not (records["input_ids"] == MASK).any()
    else:
        assert predicted.tolist() == [
            min(20, max(1, round(int(n) * 0.15))) for n in lengths
        ]


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
