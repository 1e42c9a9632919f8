"""From logits to answers and files, compared with the transcribed released code."""

import json
import random

import numpy as np
import pytest
from json_files import read_json
from reference import squad as oracle
from reference.tokenizer import words
from squad_data import (
    CASES,
    RARE_WORDS,
    VERSIONS,
    WORDS,
    Encoded,
    data_of,
    make_task,
    oracle_predictions,
    paragraph_of,
    random_data,
    random_logits,
    released_vocabulary,
    tokenizers,
    write,
)
from tokenizer_pairs import pair

from bert_tf.tasks.splits import FileSource, Split
from bert_tf.tasks.squad.best_answers import AnswerFinder, final_text

CONTEXTS = [
    "",
    " \t\n",
    "\u200b \u0301",
    "The café's 한 cat, (1895–1943)-x\xa0y zebra. " * 4,
]
WINDOWS = {"doc_stride": 8, "max_query_length": 6}
LENGTH = 28
FILES = ["predictions.json", "nbest_predictions.json", "null_odds.json"]
SETTINGS = {
    "small": {"n_best_size": 4, "max_answer_length": 8},
    "larger than the sequence": {"n_best_size": LENGTH + 5, "max_answer_length": 30},
    "one answer": {"n_best_size": 1, "max_answer_length": 30},
    "one token": {"n_best_size": 10, "max_answer_length": 1},
    "high threshold": {"n_best_size": 3, "null_score_diff_threshold": 1.0},
    "low threshold": {"n_best_size": 3, "null_score_diff_threshold": -2.0},
}


def make(folder, do_lower_case, settings, data=None, length=LENGTH):
    """Returns a task, and the windows of generated or of given questions."""
    tokenizer, reference = tokenizers(do_lower_case)
    task = make_task(tokenizer, WINDOWS, settings)
    data = data or random_data(7, 7, 35, True, CONTEXTS)
    return task, Encoded(write(folder / "dev.json", data), task, reference, length)


def answers_by_id(task, items):
    """Returns the three files as dicts, from examples with outputs."""
    finder = AnswerFinder(task.tokenizer, task.answers, task.windows.doc_stride)
    chosen, nbest, null_odds = {}, {}, {}
    for example, outputs in items:
        best = finder.find(example, outputs)
        chosen[example.id] = best.predicted(task.answers)
        pairs = zip(best.answers, best.probabilities, strict=True)
        nbest[example.id] = [
            {
                "text": answer.text,
                "probability": probability,
                "start_logit": answer.start_logit,
                "end_logit": answer.end_logit,
            }
            for answer, probability in pairs
        ]
        if task.answers.version_2_with_negative:
            null_odds[example.id] = best.null_score_diff
        else:
            assert best.null_score_diff == 0.0
        texts = [answer.text for answer in best.answers if answer.text]
        assert best.best_text == (texts[0] if texts else "")
    return chosen, nbest, null_odds


def check_equal(found, expected):
    """Compares as JSON: also types, order and all digits are equal."""
    for found_part, expected_part in zip(found, expected, strict=True):
        assert json.dumps(found_part, indent=1) == json.dumps(expected_part, indent=1)


@VERSIONS
@CASES
def test_random_logits(tmp_path, do_lower_case, version_2):
    """Each of SETTINGS gets distinct logits in two of the four cases.

    In the other two cases the logits are rounded, so that many are equal.
    """
    chosen, null = set(), "" if version_2 else "empty"
    common = {"version_2_with_negative": version_2, "padding_as_released": True}
    task, found = make(tmp_path, do_lower_case, common)
    assert len(found.features) > len(found.examples) + 20

    for seed, settings in enumerate(SETTINGS.values()):
        settings = {**settings, **common}
        task = make_task(task.tokenizer, WINDOWS, settings)
        is_rounded = (seed + do_lower_case + version_2) % 2 == 1
        logits = random_logits(found, seed, is_rounded)
        expected = oracle_predictions(found, logits, do_lower_case, settings)
        check_equal(answers_by_id(task, found.outputs(*logits)), expected)
        assert null in expected[0].values()
        chosen |= {*expected[0].values()}
    assert len(chosen) > 15


@VERSIONS
def test_padding_does_not_take_part(tmp_path, version_2):
    """As the released code on the tokens only, also if padding has large logits."""
    settings = {"n_best_size": 4, "version_2_with_negative": version_2}
    task, found = make(tmp_path, True, settings)
    mask = found.encoded.columns["input_mask"]
    logits = [values + 9 * (1 - mask) for values in random_logits(found, 0)]
    items = list(found.outputs(*logits))
    lengths = mask.sum(axis=1).tolist()
    expected = oracle_predictions(found, logits, True, settings, lengths)
    check_equal(answers_by_id(task, items), expected)
    short = [(example, [cut(each) for each in outputs]) for example, outputs in items]
    check_equal(answers_by_id(task, short), expected)
    released = {**settings, "padding_as_released": True}
    with_padding = oracle_predictions(found, logits, True, released)
    assert with_padding[0] != expected[0]
    check_equal(answers_by_id(make(tmp_path, True, released)[0], items), with_padding)


def cut(outputs):
    """Removes the padding, as batches of short sequences have less of it."""
    return {
        name: values[: outputs["input_mask"].sum()] for name, values in outputs.items()
    }


@VERSIONS
def test_no_possible_answer(tmp_path, version_2):
    """All best starts are in the question, so that no span is possible."""
    settings = {
        "n_best_size": 2,
        "version_2_with_negative": version_2,
        "padding_as_released": True,
    }
    task, found = make(tmp_path, True, settings)
    start, end = random_logits(found, 0)
    start[:, :2] = 20
    expected = oracle_predictions(found, (start, end), True, settings)
    result = answers_by_id(task, found.outputs(start, end))
    check_equal(result, expected)
    assert set(result[0].values()) == {"" if version_2 else "empty"}
    assert set(result[2].values()) <= {0.0}


def test_a_null_score_of_a_million(tmp_path):
    """As in the released code, it counts as a million, and its logits are 0."""
    settings = {"version_2_with_negative": True, "padding_as_released": True}
    task, found = make(tmp_path, True, settings)
    logits = random_logits(found, 0)
    for values in logits:
        values[:, 0] = 2e6
    result = answers_by_id(task, found.outputs(*logits))
    check_equal(result, oracle_predictions(found, logits, True, settings))
    assert max(result[2].values()) > 999_000


# The context, the first and last piece of the span, and the text.
SPANS = [
    ("b Steve Smith's cat", 1, 2, "Steve Smith"),
    ("Smith's", 2, 2, "S"),  # the first "s" of the word
    ("CAFÉs, y", 0, 0, "CAFÉ"),
    ("CAFÉs, y", 0, 1, "CAFÉs"),
    ("CAFÉs, y", 1, 3, "s, y"),
    (
        "cafe\u0301, y",
        0,
        0,
        "cafe\u0301,",
    ),  # the accent changes the number of characters
    ("x (1895-1943)", 4, 4, "1943"),
    ("zebra, a", 0, 0, "zebra,"),  # an unknown word: all of it
    ("zebra, a", 1, 2, ", a"),
    ("猫犬a", 1, 1, "犬"),
    ("한 a", 0, 0, "한"),
    ("a\u200bbc x", 0, 0, "a\u200bbc"),
    ("\u200b a \u0301 b", 0, 1, "a \u0301 b"),
    ("x\xa0y c", 1, 1, "x\xa0y"),
    ("##", 0, 0, "#"),
    ("the  Cat\tb\n", 0, 2, "the Cat b"),
    ("b a b a", 3, 3, "a"),
    ("a(a)b", 2, 2, "a"),  # the first "a" of the word has the same text
]


@pytest.mark.parametrize(("context", "first", "last", "expected"), SPANS)
def test_texts_by_hand(tmp_path, context, first, last, expected):
    data = data_of(paragraph_of(context, ("1", "who", [])))
    task, found = make(tmp_path, True, {"n_best_size": 1}, data)
    start, end = np.zeros([2, 1, LENGTH], np.float32)
    offset = len(["[CLS]", "who", "[SEP]"])
    start[0, offset + first], end[0, offset + last] = 2.0, 1.0
    chosen, nbest, _ = answers_by_id(task, found.outputs(start, end))
    entry = {"text": expected, "probability": 1.0, "start_logit": 2.0, "end_logit": 1.0}
    assert (chosen, nbest) == ({"1": expected}, {"1": [entry]})


@pytest.mark.parametrize(("threshold", "expected"), [(-2.5, ""), (-2.0, "b")])
def test_the_threshold(tmp_path, threshold, expected):
    """The score of "b" is 5, that of "" is 3: "" if -2 exceeds the threshold."""
    data = data_of(paragraph_of("a b", ("1", "who", [])))
    settings = {"version_2_with_negative": True, "null_score_diff_threshold": threshold}
    task, found = make(tmp_path, True, {**settings, "n_best_size": 1}, data)
    start, end = np.zeros([2, 1, LENGTH], np.float32)
    start[0, 4], end[0, 4], start[0, 0], end[0, 0] = 2.0, 3.0, 1.5, 1.5
    chosen, nbest, null_odds = answers_by_id(task, found.outputs(start, end))
    assert chosen == {"1": expected} and null_odds == {"1": -2.0}
    assert [(each["text"], each["start_logit"]) for each in nbest["1"]] == [
        ("b", 2.0),
        ("", 1.5),
    ]


def normalized(text, do_lower_case):
    return " ".join(words(text, do_lower_case))


@pytest.mark.parametrize(
    ("predicted", "original", "expected"),
    [
        ("steve smith", "Steve Smith's", "Steve Smith"),
        ("cafe", "(Café),", "Café"),
        (", b", "a, B.", ", B"),
        ("steve jones", "Steve Smith", "Steve Smith"),
        ("i", "İ i.", "İ"),
        ("한", "한 글.", "한 글."),
        ("a", "a\u200b b.", "a\u200b b."),
        ("", "a b", "a b"),
        ("猫 犬", "a猫犬b", "猫犬"),
    ],
)
def test_final_text_by_hand(predicted, original, expected):
    assert final_text(predicted, original, normalized(original, True)) == expected
    assert oracle.get_final_text(predicted, original, True) == expected


def random_parts(rng, text, do_lower_case):
    """Returns a part of the normalized text, and the text of a span of tokens."""
    base = normalized(text, do_lower_case)
    start = rng.randrange(len(base) + 1)
    tokens = oracle.tokens_of(tokenizers(do_lower_case)[1], text)
    first = rng.randrange(len(tokens) + 1)
    joined = " ".join(tokens[first : first + rng.randint(1, 5)])
    joined = " ".join(joined.replace(" ##", "").replace("##", "").split())
    return base[start : start + rng.randint(1, 12)].strip(), joined


@CASES
def test_final_text_of_random_texts(do_lower_case):
    rng = random.Random(0)
    characters = [*"aaBcé. ", " ", "İ", "\u0301", "\u200b", "\xa0", "猫", "\u2028", "ß"]
    shorter = 0
    for number in range(3000):
        if number % 2:
            text = " ".join(rng.choices(WORDS + RARE_WORDS, k=rng.randint(1, 6)))
        else:
            text = "".join(rng.choices(characters, k=rng.randint(1, 12))).strip(" ")
        for predicted in random_parts(rng, text, do_lower_case):
            found = final_text(predicted, text, normalized(text, do_lower_case))
            assert found == oracle.get_final_text(predicted, text, do_lower_case)
            shorter += found != text
    assert shorter > 500


def written(task, folder, items):
    """Writes the files of a split, and returns their contents."""
    results = task.make_results(Split("dev", FileSource("dev.json")))
    results.write(
        str(folder), ((each, results.decode(each, outputs)) for each, outputs in items)
    )
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def as_files(parts):
    """Returns the files of the released program.

    Null_odds.json only if it is not empty.
    """
    contents = {name: part for name, part in zip(FILES, parts, strict=True) if part}
    return {
        name: (json.dumps(part, indent=4) + "\n").encode()
        for name, part in contents.items()
    }


@VERSIONS
def test_files(tmp_path, version_2):
    settings = {"version_2_with_negative": version_2, "padding_as_released": True}
    task, found = make(
        tmp_path, True, settings, random_data(5, 5, 20, True, ["Ünï"] * 9)
    )
    logits = random_logits(found, 0)
    files = written(task, tmp_path / "run", found.outputs(*logits))
    threshold = files.pop("squad_threshold.json", None)
    assert files == as_files(oracle_predictions(found, logits, True, settings))
    assert len(files) == 2 + version_2 and bool(threshold) == version_2
    assert b'": "\\u00dcn\\u00ef' in files["predictions.json"]


@pytest.mark.parametrize("version", ["v1.1", "v2.0"])
def test_golden_files(test_data, tmp_path, version):
    """The files of bert-tf and of the reference are the released ones, byte by byte."""
    folder = test_data / "golden/google_squad_postprocess"
    if not folder.is_dir():
        pytest.skip("requires golden/google_squad_postprocess in BERT_TF_TEST_DATA")
    flags = read_json(folder / version / "flags.json")
    length, is_lower = flags.pop("max_seq_length"), flags.pop("do_lower_case")
    windows = {name: flags.pop(name) for name in ("doc_stride", "max_query_length")}
    tokenizer, reference = pair(released_vocabulary(test_data), is_lower)
    task = make_task(tokenizer, windows, {**flags, "padding_as_released": True})
    found = Encoded(folder / f"squad_sample_{version}.json", task, reference, length)
    with np.load(folder / version / "logits.npz") as arrays:
        logits = arrays["start_logits"], arrays["end_logits"]
    files = written(task, tmp_path, found.outputs(*logits))
    files.pop("squad_threshold.json", None)
    assert files == as_files(oracle_predictions(found, logits, is_lower, flags))
    assert files == {name: (folder / version / name).read_bytes() for name in files}
    assert sorted(files) == sorted(FILES if version == "v2.0" else FILES[:2])


@VERSIONS
def test_files_without_questions(tmp_path, version_2):
    task = make_task(
        tokenizers(True)[0], WINDOWS, {"version_2_with_negative": version_2}
    )
    files = written(task, tmp_path, [])
    assert files == dict.fromkeys(FILES[: 2 + version_2], b"{}\n")
