"""inspect_records.py: records of any origin as text, and their audit."""

import dataclasses
import math
import random

import pytest
import tensorflow as tf
from mains import assert_refused, run_main
from reference import pretraining_data as released
from tiny_corpus import CLS, MASK, SEP, VOCABULARY, corpus, make, parsed, text_of, vocabulary_file

from bert_tf.errors import InputError
from bert_tf.tokenization import BertTokenizer
from data_prep.pretraining_data import auditing, expectations
from data_prep.pretraining_data.settings import RecordsConfig
from data_prep.runners import inspecting
from data_prep.runners import records as records_reading


@pytest.fixture
def vocab_file(tmp_path):
    return vocabulary_file(tmp_path)


def example(length, predictions, instance, v2=False):
    """As google-research/bert writes an instance; by hand, from its list of features."""
    ids = [VOCABULARY.index(token) for token in instance["tokens"]]
    labels = [VOCABULARY.index(token) for token in instance["labels"]]

    def ints(values, size):
        padded = [*values, *[0] * (size - len(values))]
        return tf.train.Feature(int64_list=tf.train.Int64List(value=padded))

    weights = [1.0] * len(labels) + [0.0] * (predictions - len(labels))
    feature = {
        "input_word_ids" if v2 else "input_ids": ints(ids, length),
        "input_mask": ints([1] * len(ids), length),
        "input_type_ids" if v2 else "segment_ids": ints(instance["segment_ids"], length),
        "masked_lm_positions": ints(instance["positions"], predictions),
        "masked_lm_ids": ints(labels, predictions),
        "masked_lm_weights": tf.train.Feature(float_list=tf.train.FloatList(value=weights)),
        "next_sentence_labels": ints([int(instance["random"])], 1),
    }
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def write(path, examples, compression=""):
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for each in examples:
            writer.write(each)
    return str(path)


@pytest.fixture(scope="module")
def of_the_released_program():
    """Instances of its rules, transcribed, with 64 tokens and 10 predictions."""
    tokenizer = BertTokenizer(VOCABULARY)
    documents = [
        [[VOCABULARY[i] for i in tokenizer.tokenize([" ".join(s)]).to_list()[0]] for s in document]
        for document in corpus(40)
    ]
    return released.instances(
        documents, cls="[CLS]", sep="[SEP]", mask_token="[MASK]", vocabulary=VOCABULARY,
        max_seq_length=64, max_predictions_per_seq=10, dupe_factor=8,
    )  # fmt: skip


@dataclasses.dataclass
class Audit:
    good: bool
    out: str

    @property
    def unexpected(self):
        """The figures that are not as expected, and the rules that are broken."""
        lines = [line.split(": ") for line in self.out.splitlines()]
        wrong = ("  NOT as expected", "  BROKEN")
        return {line[1].split(", in ")[0] for line in lines if line[0] in wrong}


@pytest.fixture
def audit(vocab_file, capsys):
    def run(path, num_examples=0, **flags):
        capsys.readouterr()
        good = inspecting.inspect(RecordsConfig(vocab_file, **flags), str(path), num_examples)
        result = Audit(good, capsys.readouterr().out)
        assert result.good == (not result.unexpected), result.out
        assert result.good == ("every figure is as expected" in result.out)
        return result

    return run


def remade(instances, seed=0, prob=0.15, max_predictions=10, kinds=(0.8, 0.1), tokens=VOCABULARY):
    """The same sequences, masked by other rules."""
    rng, found = random.Random(seed), []
    for each in instances:
        places = [i for i, t in enumerate(each["unmasked"]) if t not in ("[CLS]", "[SEP]")]
        wanted = min(max_predictions, max(1, round(len(each["unmasked"]) * prob)))
        positions = sorted(rng.sample(places, min(wanted, len(places))))
        output = list(each["unmasked"])
        for i in positions:
            draw = rng.random()
            if draw < kinds[0]:
                output[i] = "[MASK]"
            elif draw < sum(kinds):
                output[i] = rng.choice(tokens)
        labels = [each["unmasked"][i] for i in positions]
        found.append({**each, "tokens": output, "positions": positions, "labels": labels})
    return found


KINDS = {"[MASK] at a prediction", "a random token"}
EQUAL = "records of 32 tokens and more that equal another, masks too"


def only(random_next, instances):
    return [each for each in instances if each["random"] == random_next]


@pytest.mark.parametrize(
    ("change", "flags", "unexpected"),
    [
        (lambda good: good, {}, set()),
        (lambda good: good[:3], {}, set()),
        (lambda good: remade(good, kinds=(0.7, 0.2)), {}, KINDS),
        (
            lambda good: remade(good, kinds=(0.7, 0.2)),
            {"mask_token_prob": 0.7, "random_token_prob": 0.2},
            set(),
        ),
        (lambda good: remade(good, prob=0.1), {}, {"predictions for each length"}),
        (lambda good: remade(good, prob=0.1), {"masked_lm_prob": 0.1}, set()),
        (
            lambda good: remade(good, tokens=VOCABULARY[200:]),
            {},
            {"random tokens over the vocabulary"},
        ),
        (lambda good: only(False, good) + only(True, good)[:600], {}, {"next sentences"}),
        (lambda good: only(True, good), {}, set()),
        (lambda good: good + good[:100], {}, {EQUAL}),
        (lambda good: good, {"objective": "mlm"}, {"next sentences"}),
    ],
)  # fmt: skip
def test_records_of_the_released_rules_are_as_expected(
    tmp_path, audit, of_the_released_program, change, flags, unexpected
):
    instances = change(of_the_released_program)
    path = write(tmp_path / "a", [example(64, 10, each) for each in instances])
    assert audit(path, **flags).unexpected == unexpected


def test_too_few_short_sequences_are_not_as_expected(
    tmp_path, audit, monkeypatch, of_the_released_program
):
    monkeypatch.setattr(expectations, "_SEQUENCES_A_DOCUMENT", 4)
    full = [each for each in of_the_released_program if len(each["unmasked"]) == 64]
    path = write(tmp_path / "a", [example(64, 10, each) for each in full])
    assert audit(path).unexpected == {"sequences below 64 tokens"}
    assert audit(path, short_seq_prob=0.0).good


def test_equal_records_are_found_in_a_sample_too(
    tmp_path, audit, monkeypatch, of_the_released_program
):
    monkeypatch.setattr(expectations, "_SAMPLE_SIZE", 500)
    good = of_the_released_program
    once = write(tmp_path / "a", [example(64, 10, each) for each in good])
    assert audit(once).good
    again = write(tmp_path / "b", [example(64, 10, each) for each in good + good[:200]])
    assert audit(again).unexpected == {EQUAL}


def test_both_roundings_are_known(tmp_path, audit, of_the_released_program):
    up = []
    for seed, each in enumerate(of_the_released_program):
        length = len(each["unmasked"])
        # 1.5, 4.5 and 7.5 masks are the cases in which the two differ.
        prob = math.floor(length * 0.15 + 0.5) / length if length in (10, 30, 50) else 0.15
        up += remade([each], seed, prob)
    assert sum(len(each["unmasked"]) == 30 for each in up)
    even = audit(write(tmp_path / "e", [example(64, 10, e) for e in of_the_released_program]))
    assert "half to even, as Python 3" in even.out and even.good
    half_up = audit(write(tmp_path / "u", [example(64, 10, each) for each in up]))
    assert "half up, as Python 2" in half_up.out and half_up.good
    assert audit(f"{tmp_path}/e,{tmp_path}/u").unexpected == {"predictions for each length"}


def test_predictions_at_the_front_are_not_as_expected(tmp_path, audit):
    rng, instances = random.Random(1), []
    for number in range(2000):
        words = [VOCABULARY[5 + (number * 7 + i) % 300] for i in range(57)]
        tokens = ["[CLS]", *words[:28], "[SEP]", *words[28:], "[SEP]"]
        positions = sorted(rng.sample(range(1, 29), 9))
        shown = [
            "[MASK]" if i in positions and rng.random() < 0.8 else token
            for i, token in enumerate(tokens)
        ]
        instances.append(
            {
                "tokens": shown, "positions": positions, "labels": [tokens[i] for i in positions],
                "segment_ids": [0] * 30 + [1] * 30 if number % 2 else [0] * 30 + [1] * 29 + [1],
                "random": number % 2,
            }
        )  # fmt: skip
    path = write(tmp_path / "front", [example(60, 10, each) for each in instances])
    result = audit(path, random_token_prob=0.0, short_seq_prob=0.0)
    assert "predictions over positions" in result.unexpected


def test_records_with_numbers_that_point_nowhere_are_named(
    tmp_path, audit, of_the_released_program
):
    examples = [
        tf.train.Example.FromString(example(64, 10, each)) for each in of_the_released_program[:10]
    ]

    def ints(number, name):
        return examples[number].features.feature[name].int64_list.value

    ints(1, "input_ids")[3] = len(VOCABULARY)
    ints(2, "masked_lm_positions")[0] = 64
    ints(3, "masked_lm_positions")[0] = -1
    ints(4, "masked_lm_ids")[0] = len(VOCABULARY) + 1000
    ints(5, "input_ids")[2] = -7
    ints(6, "next_sentence_labels")[0] = 9
    ints(7, "input_mask").append(1)
    path = write(tmp_path / "odd", [each.SerializeToString() for each in examples])
    result = audit(path, num_examples=10)
    broken = [line for line in result.out.splitlines() if "BROKEN" in line]
    for number in range(10):
        named = any(f"odd record {number}" in line for line in broken)
        assert named == (1 <= number <= 7), (number, broken)
    assert f"<{len(VOCABULARY)}>" in result.out and "<-7>" in result.out
    assert "  examples        3\n" in result.out


def test_files_that_cannot_be_audited(tmp_path, audit):
    for path, words in ((tmp_path, "folder"), (tmp_path / "missing*", "No record file matches")):
        with pytest.raises(InputError, match=words):
            audit(path)


@pytest.mark.slow
def test_the_main_says_by_its_exit_code(tmp_path, vocab_file, of_the_released_program):
    path = write(tmp_path / "a", [example(64, 10, each) for each in of_the_released_program])
    good = [f"--input_file={path}", f"--vocab_file={vocab_file}"]
    fine, wrong, missing = run_main(
        "data_prep.inspect_records",
        good,
        [*good, "--mask_token_prob=0.7", "--random_token_prob=0.2", "--masked_lm_prob=0.15"],
        [f"--input_file={tmp_path}/none", f"--vocab_file={vocab_file}"],
    )
    assert fine.code == 0 and "[MASK=" in fine.out, fine.err
    assert wrong.code == 1 and "NOT as expected: [MASK]" in wrong.out
    assert_refused(missing, "No record file matches")


def test_an_audit_finds_what_is_wrong(tmp_path, vocab_file):
    _, paths = make(tmp_path, vocab_file, text_of(corpus(5)), dupe_factor=1)
    vocabulary, _ = records_reading.load_vocabulary(vocab_file, True)
    columns = parsed(paths, 128, 20)
    assert not any(broken.any() for broken in auditing.violations(columns, vocabulary).values())
    for name, row, column, value, rule in (
        ("input_ids", 0, 5, len(VOCABULARY), "outside the vocabulary"),
        ("input_ids", 1, 0, 9, "not [CLS]"),
        ("segment_ids", 2, 1, 1, "segment_ids"),
        ("segment_ids", 2, 1, 2, "segment_ids"),
        ("input_mask", 3, 1, 0, "input_mask"),
        ("input_mask", 3, 1, 2, "input_mask"),
        ("masked_lm_positions", 4, 0, 127, "ascend"),
        ("masked_lm_positions", 4, 1, 0, "is to be predicted"),
        ("masked_lm_positions", 4, 1, 500, "not at a token"),
        ("masked_lm_ids", 4, 1, -1, "predict is outside"),
        ("masked_lm_ids", 4, 1, SEP, "inside A or B"),
        ("next_sentence_labels", 5, 0, 2, "next_sentence_labels"),
        ("masked_lm_weights", 6, 0, 0.0, "weights"),
        ("masked_lm_weights", 6, 0, 0.5, "another number"),
    ):
        damaged = {key: array.copy() for key, array in columns.items()}
        damaged[name][row, column] = value
        found = {r: n for r, n in auditing.violations(damaged, vocabulary).items() if n.any()}
        assert any(rule in each for each in found), (name, found)
        assert all(broken.tolist().index(True) == row for broken in found.values())


@pytest.mark.parametrize(
    "flags",
    [
        {}, {"do_whole_word_mask": True}, {"max_ngram_size": 3},
        {"do_whole_word_mask": True, "replace_whole_words": True}, {"objective": "mlm"},
        {"objective": "causal"}, {"round_half_up": True}, {"max_seq_length": 16},
    ],
)  # fmt: skip
def test_our_own_records_are_as_expected(tmp_path, vocab_file, audit, flags):
    _, (path,) = make(tmp_path, vocab_file, text_of(corpus(30)), dupe_factor=3, **flags)
    assert not audit(path, **flags).unexpected


def test_records_of_the_model_garden_are_read(tmp_path, vocab_file):
    instance = {
        "tokens": ["[CLS]", "wae", "[MASK]", "[SEP]", "wad", "[SEP]"], "positions": [2],
        "labels": ["wac"], "segment_ids": [0, 0, 0, 0, 1, 1], "random": True,
    }  # fmt: skip
    path = write(tmp_path / "garden.tfrecord", [example(8, 2, instance, v2=True)], "GZIP")
    (batch,) = records_reading.read(path)
    vocabulary, tokens = records_reading.load_vocabulary(vocab_file, True)
    found = auditing.violations(batch.columns, vocabulary)
    assert not any(broken.any() for broken in found.values())
    text = auditing.as_text(batch.columns, 0, tokens, MASK)
    assert text == "[CLS] wae [MASK=wac] [SEP] wad [SEP]\n  B is random; 6 tokens"
    assert batch.columns["input_ids"][0, 0] == CLS
