"""inspect_records.py prints any program's records and checks rules and statistics."""

import math
import random

import pytest
import tensorflow as tf
from reference import pretraining_data as released
from run_programs import assert_refused, run_lines
from tiny_corpus import (
    CLS,
    MASK,
    SEP,
    VOCABULARY,
    corpus,
    make,
    parsed,
    text_of,
    write_records,
)

from bert_tf.record_creation import record_rules, statistical_tests, stats
from bert_tf.record_creation.records_config import RecordsConfig
from bert_tf.record_jobs import inspection, stages
from bert_tf.tokenization import BertTokenizer

IDS = {token: number for number, token in enumerate(VOCABULARY)}


def example(length, predictions, instance, v2=False):
    """Serializes an instance with the feature names of another program.

    These are the names of google-research/bert or of the Model Garden.
    """
    ids = [IDS[token] for token in instance["tokens"]]
    labels = [IDS[token] for token in instance["labels"]]

    def ints(values, size):
        return {"int64_list": {"value": [*values, *[0] * (size - len(values))]}}

    weights = [1.0] * len(labels) + [0.0] * (predictions - len(labels))
    feature = {
        "input_word_ids" if v2 else "input_ids": ints(ids, length),
        "input_mask": ints([1] * len(ids), length),
        "input_type_ids" if v2 else "segment_ids": ints(
            instance["segment_ids"], length
        ),
        "masked_lm_positions": ints(instance["positions"], predictions),
        "masked_lm_ids": ints(labels, predictions),
        "masked_lm_weights": {"float_list": {"value": weights}},
        "next_sentence_labels": ints([int(instance["random"])], 1),
    }
    return tf.train.Example(features={"feature": feature}).SerializeToString()


@pytest.fixture(scope="module")
def released_instances():
    """Returns instances of up to 64 tokens and 10 predictions, by transcribed rules."""
    tokenizer = BertTokenizer(VOCABULARY)
    documents = [
        [
            [VOCABULARY[i] for i in tokenizer.tokenize([" ".join(s)]).to_list()[0]]
            for s in document
        ]
        for document in corpus(40)
    ]
    return released.instances(
        documents, cls="[CLS]", sep="[SEP]", mask_token="[MASK]", vocabulary=VOCABULARY,
        max_seq_length=64, max_predictions_per_seq=10, dupe_factor=8,
    )  # fmt: skip


def mask_again(
    instances, seed=0, prob=0.15, kinds=(0.8, 0.1), tokens=VOCABULARY, part=1.0
):
    """Masks the original tokens of each instance again, with the given settings."""
    rng, found = random.Random(seed), []
    for each in instances:
        output = list(each["unmasked"])
        maskable = [i for i, t in enumerate(output) if t not in ("[CLS]", "[SEP]")]
        maskable = maskable[: max(int(len(maskable) * part), 10)]
        count = min(10, max(1, round(len(output) * prob)))
        positions = sorted(rng.sample(maskable, min(count, len(maskable))))
        for i in positions:
            draw = rng.random()
            if draw < kinds[0]:
                output[i] = "[MASK]"
            elif draw < sum(kinds):
                output[i] = rng.choice(tokens)
        labels = [each["unmasked"][i] for i in positions]
        masks = {"tokens": output, "positions": positions, "labels": labels}
        found.append({**each, **masks})
    return found


KINDS = {"[MASK] at a prediction", "a random token"}
EQUAL = "records of 32 tokens and more that equal another"
NEXT = "random next sentences"


def write(path, instances):
    return write_records(path, [example(64, 10, each) for each in instances])


def with_label(random_next, instances):
    return [each for each in instances if each["random"] == random_next]


@pytest.mark.parametrize(
    ("change", "flags", "unexpected"),
    [
        (lambda good: good, {}, set()),
        (lambda good: mask_again(good, kinds=(0.7, 0.2)), {}, KINDS),
        (
            lambda good: mask_again(good, kinds=(0.7, 0.2)),
            {"mask_token_prob": 0.7, "random_token_prob": 0.2},
            set(),
        ),
        (lambda good: mask_again(good, prob=0.1), {}, {"predictions for each length"}),
        (
            lambda good: mask_again(good, tokens=VOCABULARY[200:]),
            {},
            {"random tokens over the vocabulary"},
        ),
        (lambda good: mask_again(good, part=0.5), {}, {"predictions over positions"}),
        (
            lambda good: with_label(False, good) + with_label(True, good)[:600],
            {},
            {NEXT},
        ),
        (lambda good: good + good[:100], {}, {EQUAL}),
        (lambda good: good, {"objective": "mlm"}, {NEXT}),
    ],
)  # fmt: skip
def test_unexpected_figures_of_records_are_reported(
    tmp_path, inspect, released_instances, change, flags, unexpected
):
    instances = change(released_instances)
    path = write(tmp_path / "a", instances)
    assert inspect(path, **flags).unexpected == unexpected


def test_too_few_short_sequences_are_reported(
    tmp_path, inspect, monkeypatch, released_instances
):
    monkeypatch.setattr(statistical_tests, "_MAX_SEQUENCES_PER_DOCUMENT", 4)
    full = [each for each in released_instances if len(each["unmasked"]) == 64]
    path = write(tmp_path / "a", full)
    assert inspect(path).unexpected == {"sequences below 64 tokens"}
    assert inspect(path, short_seq_prob=0.0).passed


def test_equal_records_are_found_in_a_sample(
    tmp_path, inspect, monkeypatch, released_instances
):
    monkeypatch.setattr(stats, "MAX_HASHES", 500)
    good = released_instances
    once = write(tmp_path / "a", good)
    assert inspect(once).passed
    again = write(tmp_path / "b", good + good[:200])
    assert inspect(again).unexpected == {EQUAL}


def test_both_ways_of_rounding_are_accepted_but_not_both_in_the_same_records(
    tmp_path, inspect, released_instances
):
    up = []
    for seed, each in enumerate(released_instances):
        length = len(each["unmasked"])
        # For the lengths 10, 30 and 50, 15 % is 1.5, 4.5 or 7.5 predictions.
        rounded_half_up = math.floor(length * 0.15 + 0.5)
        up += mask_again([each], seed, rounded_half_up / length)
    assert sum(len(each["unmasked"]) == 30 for each in up)
    even = inspect(write(tmp_path / "e", released_instances))
    assert "half to even, as Python 3" in even.out and even.passed
    half_up = inspect(write(tmp_path / "u", up))
    assert "half up, as Python 2" in half_up.out and half_up.passed
    both = inspect(f"{tmp_path}/e,{tmp_path}/u")
    assert both.unexpected == {"predictions for each length"}


def test_the_exit_code_shows_whether_the_records_are_as_expected(
    tmp_path, vocab_file, released_instances
):
    write(tmp_path / "a", released_instances)
    flags = f"--vocab_file={vocab_file} --input_file={tmp_path}"
    good, wrong, missing = run_lines(
        "bert_tf.data_prep.inspect_records",
        f"{flags}/a",
        f"{flags}/a --mask_token_prob=0.7 --random_token_prob=0.2",
        f"{flags}/none",
    )
    assert good.code == 0 and "[MASK=" in good.out, good.err
    assert good.out.count("\n  B is ") == 3
    assert wrong.code == 1 and "NOT as expected: [MASK]" in wrong.out
    assert_refused(missing, "No record file matches")


def test_each_broken_rule_is_found(tmp_path, vocab_file):
    _, paths = make(tmp_path, vocab_file, text_of(corpus(5)), dupe_factor=1)
    vocabulary = stages.vocabulary(RecordsConfig(vocab_file))
    columns = parsed(paths, 128, 20)
    broken_rules = record_rules.broken_rules(columns, vocabulary)
    assert not any(broken.any() for broken in broken_rules.values())
    for name, row, column, value, rule in (
        ("input_ids", 0, 5, len(VOCABULARY), "outside the vocabulary"),
        ("input_ids", 1, 0, 9, "not [CLS]"),
        ("segment_ids", 2, 1, 1, "segment_ids"),
        ("segment_ids", 2, 1, 2, "segment_ids"),
        ("input_mask", 3, 1, 0, "input_mask"),
        ("input_mask", 3, 1, 2, "input_mask"),
        ("masked_lm_positions", 4, 0, 127, "not ascending"),
        ("masked_lm_positions", 4, 1, 0, "is to be predicted"),
        ("masked_lm_positions", 4, 1, 500, "outside the text"),
        ("masked_lm_ids", 4, 1, -1, "in masked_lm_ids is outside"),
        ("masked_lm_ids", 4, 1, SEP, "inside A or B"),
        ("next_sentence_labels", 5, 0, 2, "next_sentence_labels"),
        ("masked_lm_weights", 6, 0, 0.0, "weights"),
        ("masked_lm_weights", 6, 0, 0.5, "other than 0 and 1"),
    ):
        damaged = {key: array.copy() for key, array in columns.items()}
        damaged[name][row, column] = value
        broken_rules = record_rules.broken_rules(damaged, vocabulary)
        found = {each: broken for each, broken in broken_rules.items() if broken.any()}
        assert any(rule in each for each in found), (name, found)
        assert all(broken.tolist().index(True) == row for broken in found.values())


@pytest.mark.parametrize(
    "flags",
    [
        {}, {"max_ngram_size": 3},
        {"do_whole_word_mask": True, "replace_whole_words": True},
        {"objective": "mlm"}, {"objective": "causal"},
        {"max_seq_length": 8, "masked_lm_prob": 1.0},
    ],
)  # fmt: skip
def test_created_records_are_as_expected(tmp_path, vocab_file, inspect, flags):
    _, (path,) = make(tmp_path, vocab_file, text_of(corpus(30)), dupe_factor=3, **flags)
    assert not inspect(path, **flags).unexpected


def test_compressed_records_of_the_model_garden_are_read(tmp_path, vocab_file):
    instance = {
        "tokens": ["[CLS]", "wae", "[MASK]", "[SEP]", "wad", "[SEP]"], "positions": [2],
        "labels": ["wac"], "segment_ids": [0, 0, 0, 0, 1, 1], "random": True,
    }  # fmt: skip
    path = write_records(
        tmp_path / "garden.tfrecord", [example(8, 2, instance, v2=True)], "GZIP"
    )
    (batch,) = inspection.read_records(path, None, 0)
    vocabulary = stages.vocabulary(RecordsConfig(vocab_file))
    broken_rules = record_rules.broken_rules(batch.columns, vocabulary)
    assert not any(broken.any() for broken in broken_rules.values())
    text = record_rules.format_record(batch.columns, 0, VOCABULARY, MASK)
    assert text == "[CLS] wae [MASK=wac] [SEP] wad [SEP]\n  B is random; 6 tokens"
    assert batch.columns["input_ids"][0, 0] == CLS
