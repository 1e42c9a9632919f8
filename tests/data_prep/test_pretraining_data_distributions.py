"""Chi-square tests: records have the distributions of google-research/bert's records.

`reference/pretraining_data.py` is a transcription of the rules of google-research/bert.
The code of this project and the transcription get the same documents.
"""

import collections
import itertools
import random

import numpy as np
import pytest
from reference import pretraining_data as released

from bert_tf.masking import algorithm, random_draws
from bert_tf.masking.random_draws import Purpose
from bert_tf.record_creation import sentence_pairs
from bert_tf.record_creation.records_config import RecordsConfig
from bert_tf.record_creation.segments import Documents, offsets

CLS, SEP, MASK = 2, 3, 4
V = 400
CONTINUES = set(range(300, 400))
IS_SUFFIX = np.array([i in CONTINUES for i in range(V)])
VOCABULARY = algorithm.Vocabulary(V, CLS, SEP, MASK, 1, IS_SUFFIX, "")


def corpus(documents=60, seed=3):
    """Returns documents as lists of sentences; a sentence is a list of token ids."""
    rng = random.Random(seed)

    def sentence():
        words = rng.choice([1, 4, 12, 12, 25, 25, 70])
        out = []
        for _ in range(words):
            out.append(rng.randrange(5, 300))
            out += [rng.randrange(300, 400) for _ in range(rng.choice([0, 0, 0, 1, 3]))]
        return out

    return [
        [sentence() for _ in range(rng.choice([1, 2, 5, 20, 60]))]
        for _ in range(documents)
    ]


def as_documents(documents):
    sentences = [s for document in documents for s in document]
    return Documents(
        np.array([t for s in sentences for t in s], np.uint16),
        offsets(np.array([len(s) for s in sentences])),
        offsets(np.array([len(d) for d in documents])),
        np.arange(len(documents), dtype=np.uint64),
    )


def created_examples(config, documents):
    arrays = as_documents(documents)
    rows = np.concatenate(
        list(
            sentence_pairs.paired_rows(
                config, Documents.joined([arrays, arrays]), len(arrays), VOCABULARY
            )
        )
    )
    columns = algorithm.mask_rows(config, rows, VOCABULARY)
    found = []
    for i in range(len(rows)):
        length = int(columns["input_mask"][i].sum())
        count = int(columns["masked_lm_weights"][i].sum())
        found.append(
            {
                "tokens": columns["input_ids"][i][:length].tolist(),
                "unmasked": rows["ids"][i][:length].tolist(),
                "segment_ids": columns["segment_ids"][i][:length].tolist(),
                "positions": columns["masked_lm_positions"][i][:count].tolist(),
                "labels": columns["masked_lm_ids"][i][:count].tolist(),
                "random": bool(columns["next_sentence_labels"][i, 0]),
            }
        )
    return found


def released_examples(config, documents):
    return released.instances(
        documents,
        cls=CLS,
        sep=SEP,
        mask_token=MASK,
        vocabulary=list(range(V)),
        continues=CONTINUES,
        max_seq_length=config.max_seq_length,
        max_predictions_per_seq=config.max_predictions_per_seq,
        dupe_factor=config.dupe_factor,
        do_whole_word_mask=config.do_whole_word_mask,
    )


def kind(example, position, label):
    shown = example["tokens"][position]
    return "mask" if shown == MASK else "same" if shown == label else "random"


FIGURES = {
    "length": lambda e: [len(e["unmasked"]) // 4],
    "length of A": lambda e: [(e["segment_ids"].count(0) - 2) // 4],
    "random next": lambda e: [e["random"]],
    "random next by length": lambda e: [(e["random"], len(e["unmasked"]) // 16)],
    "predictions": lambda e: [len(e["positions"])],
    "relative position": lambda e: [
        p * 20 // len(e["unmasked"]) for p in e["positions"]
    ],
    "kind": lambda e: [
        kind(e, p, t) for p, t in zip(e["positions"], e["labels"], strict=True)
    ],
    "predicted word piece": lambda e: [t in CONTINUES for t in e["labels"]],
    "random token": lambda e: [
        e["tokens"][p] // 20
        for p, t in zip(e["positions"], e["labels"], strict=True)
        if kind(e, p, t) == "random"
    ],
    "first token of A": lambda e: [e["unmasked"][1] // 20],
    "first token of B": lambda e: [e["unmasked"][e["segment_ids"].count(0)] // 20],
}


def random_keys(seed, count):
    seed_key = random_draws.seed_key(seed)
    return random_draws.derive_keys(seed_key, Purpose.SENTENCE, np.arange(count))


def chi_square(sample, other_sample):
    """Returns by how many standard deviations the chi-square exceeds its mean."""
    a, b = collections.Counter(sample), collections.Counter(other_sample)
    total_a, total_b = sum(a.values()), sum(b.values())
    rare_a = rare_b = 0
    statistic, cells = 0.0, 0
    for value in a.keys() | b.keys():
        if a[value] + b[value] < 20:
            rare_a, rare_b = rare_a + a[value], rare_b + b[value]
            continue
        statistic += cell(a[value], b[value], total_a, total_b)
        cells += 1
    if rare_a + rare_b >= 20:
        statistic += cell(rare_a, rare_b, total_a, total_b)
        cells += 1
    freedom = max(cells - 1, 1)
    return (statistic - freedom) / np.sqrt(2 * freedom)


def cell(a, b, total_a, total_b):
    expected_a = (a + b) * total_a / (total_a + total_b)
    expected_b = (a + b) * total_b / (total_a + total_b)
    return (a - expected_a) ** 2 / expected_a + (b - expected_b) ** 2 / expected_b


@pytest.mark.slow
@pytest.mark.parametrize("whole_words", [False, True])
def test_distributions_equal_the_released_values(whole_words):
    config = RecordsConfig(
        "",
        dupe_factor=60,
        do_whole_word_mask=whole_words,
        max_seq_length=64,
        max_predictions_per_seq=10,
    )
    documents = corpus()
    sets = created_examples(config, documents), released_examples(config, documents)
    for name, figure in FIGURES.items():
        samples = (
            [value for example in examples for value in figure(example)]
            for examples in sets
        )
        off = chi_square(*samples)
        # All examples that one pass makes from a document have the same target length.
        # Therefore the counts are not independent, and the limit is 6 standard
        # deviations. An error of 1 % in a probability still exceeds 6 standard
        # deviations.
        assert off < 6, f"{name}: {off:.1f} standard deviations"


@pytest.mark.slow
def test_numbers_of_examples_equal_the_released_values():
    documents, counts = corpus(), {True: [], False: []}
    for seed in range(40):
        config = RecordsConfig("", dupe_factor=1, random_seed=seed)
        arrays = as_documents(documents)
        spans = sentence_pairs.pair_documents(
            config, Documents.joined([arrays, arrays]), len(arrays), 0
        )
        counts[True].append(len(spans))
        rng = random.Random(seed)
        counts[False].append(
            sum(
                len(released.pairs_of_document(documents, i, 128, 0.1, rng))
                for i in range(len(documents))
            )
        )
    a, b = np.array(counts[True]), np.array(counts[False])
    assert abs(a.mean() - b.mean()) < 4 * np.sqrt((a.var() + b.var()) / len(a))


def test_truncation_removes_as_many_tokens_as_the_released_rule():
    rng = random.Random(1)
    config = RecordsConfig("", max_seq_length=32, max_predictions_per_seq=5)
    lengths = np.array([(rng.randint(1, 60), rng.randint(1, 60)) for _ in range(500)])
    keys = random_keys(1, 500)
    zeros = np.zeros(500, np.int64)
    spans = sentence_pairs._truncate(
        config, keys, zeros, lengths[:, 0], zeros, lengths[:, 1], zeros > 0
    )
    for i, (a, b) in enumerate(lengths):
        tokens_a, tokens_b = list(range(a)), list(range(b))
        released.truncate(tokens_a, tokens_b, 29, rng)
        assert spans["length_a"][i] == len(tokens_a)
        assert spans["length_b"][i] == len(tokens_b)
        assert 0 <= spans["start_a"][i] <= a - len(tokens_a)
        assert 0 <= spans["start_b"][i] <= b - len(tokens_b)


def test_truncation_removes_tokens_from_the_front_and_the_back_with_equal_probability():
    keys = random_keys(1, 20000)
    for tosses in (1, 7, 64, 65, 200):
        heads = random_draws.count_heads(keys, Purpose.TRIM_A, np.full(20000, tosses))
        rng = np.random.default_rng(tosses)
        expected = rng.binomial(tosses, 0.5, 20000)
        assert chi_square(heads.tolist(), expected.tolist()) < 6


# Exact details of the released rules --------------------------------------------------


def test_prediction_counts_are_rounded_half_to_even_as_released():
    config = RecordsConfig("")
    lengths = np.arange(3, 129)
    expected = [min(20, max(1, round(int(length) * 0.15))) for length in lengths]
    assert algorithm.prediction_counts(config, lengths).tolist() == expected
    assert algorithm.prediction_counts(config, np.array([30])).tolist() == [4]
    half_up = RecordsConfig("", round_half_up=True)
    assert algorithm.prediction_counts(half_up, np.array([30])).tolist() == [5]


def positions_of(columns):
    """Returns the predicted positions of each sequence, in ascending order."""
    names = "masked_lm_positions", "masked_lm_weights"
    pairs = zip(*(columns[name] for name in names), strict=True)
    return [tuple(positions[weights > 0].tolist()) for positions, weights in pairs]


def rows_of(config, parts, copies):
    """Returns `copies` sequences [CLS] A [SEP] B [SEP]; only `key` differs."""
    a, b = parts
    rows = np.zeros(copies, algorithm.row_dtype(config.max_seq_length, V))
    rows["key"] = random_keys(5, copies)
    rows["length_a"], rows["length_b"] = len(a), len(b)
    rows["ids"][:, : len(a) + len(b) + 3] = [CLS, *a, SEP, *b, SEP]
    return rows


@pytest.mark.parametrize("apart", [False, True])
def test_a_word_continues_over_sep_as_released(apart):
    config = RecordsConfig("", do_whole_word_mask=True, keep_words_apart_at_sep=apart)
    rows = rows_of(config, ([10, 11, 12], [310, 13, 14, 15, 16, 17]), 400)
    columns = algorithm.mask_rows(config, rows, VOCABULARY)
    masked_together = [
        {3, 5} <= {*p} or not {3, 5} & {*p} for p in positions_of(columns)
    ]
    assert all(masked_together) != apart


@pytest.mark.parametrize("whole_words", [False, True])
def test_replacement_is_drawn_for_each_token_as_released(whole_words):
    config = RecordsConfig(
        "", do_whole_word_mask=True, replace_whole_words=whole_words, masked_lm_prob=0.5
    )
    rows = rows_of(config, ([10, 310, 311], [11, 312, 313]), 3000)
    columns = algorithm.mask_rows(config, rows, VOCABULARY)
    ids = columns["input_ids"]
    masked = ids == MASK
    rows_with_a = np.array(
        [set(range(1, 4)) <= set(p) for p in columns["masked_lm_positions"].tolist()]
    )
    masked_a = masked[rows_with_a, 1:4]
    mixed = masked_a.any(axis=1) & ~masked_a.all(axis=1)
    # If each token had its own draw, 1 - 0.8**3 - 0.2**3 = 48 % of the words (three
    # tokens each) would contain both [MASK] and other tokens.
    assert abs(mixed.mean() - (0 if whole_words else 0.48)) < 0.05


def test_a_word_that_exceeds_the_budget_is_skipped():
    config = RecordsConfig("", do_whole_word_mask=True)
    rows = rows_of(config, ([10, 310, 311, 312], [11, 313, 314]), 50)
    columns = algorithm.mask_rows(config, rows, VOCABULARY)
    assert not columns["masked_lm_weights"].any()


@pytest.mark.parametrize("whole_words", [False, True])
def test_ngrams_are_drawn_by_the_rule_of_the_model_garden(whole_words):
    config = RecordsConfig(
        "",
        do_whole_word_mask=whole_words,
        max_ngram_size=3,
        masked_lm_prob=0.3,
        max_seq_length=32,
    )
    a, b = (
        [10, 310, 11, 12, 13, 14, 311, 312, 15, 16],
        [17, 18, 313, 19, 20, 21, 22, 23, 24],
    )
    rows = rows_of(config, (a, b), 4000)
    columns = algorithm.mask_rows(config, rows, VOCABULARY)
    created = positions_of(columns)
    words = [[1, 2], [3], [4], [5], [6, 7, 8], [9], [10], [12], [13, 14]]
    words += [[i] for i in range(15, 21)]
    if not whole_words:
        words = [[i] for i in range(1, 21) if i != 11]
    rng = random.Random(1)
    expected = [
        tuple(sorted(itertools.chain(*released.ngram_positions(words, 3, 7, rng))))
        for _ in range(4000)
    ]
    assert chi_square(map(len, created), map(len, expected)) < 6
    for figure in (
        lambda p: p,
        lambda p: [y - x for x, y in itertools.pairwise(p)],
        lambda p: [sum(y - x == 1 for x, y in itertools.pairwise(p))],
    ):
        samples = [
            [value for p in each for value in figure(p)] for each in (created, expected)
        ]
        assert chi_square(*samples) < 6
