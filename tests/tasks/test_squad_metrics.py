"""The metrics of SQuAD and the answers of ensembles, as in the official programs."""

import json
import logging
import math
import random

import pytest
import reading
from json_files import read_json, write_json
from reading import check, refused
from reference import squad as oracle
from refusals import refused_with
from squad_data import (
    VERSIONS,
    Encoded,
    answers_of,
    data_of,
    make_task,
    oracle_predictions,
    paragraph_of,
    random_data,
    random_logits,
    read,
    tokenizers,
    write,
)

from bert_tf.tasks.splits import FileSource, Split
from bert_tf.tasks.squad import ensemble, squad_metrics
from bert_tf.tasks.squad.best_answers import AnswerSettings
from bert_tf.tasks.squad.squad_examples import SquadExample
from bert_tf.tasks.squad.squad_results import AnswerMetrics

# Prediction, correct answer, exact match, and F1 in version 1.1 and in version 2.0.
PAIRS = [
    ("cat", "cat", 1, 1, 1),
    ("The  cat's HAT.", "cats hat", 1, 1, 1),
    ("an a the", "", 1, 0, 1),
    ("", "", 1, 0, 1),
    ("cat", "", 0, 0, 0),
    ("...", "cat", 0, 0, 0),
    ("red green", "red", 0, 2 / 3, 2 / 3),
    ("red red red", "red red", 0, 0.8, 0.8),
    ("red green", "blue", 0, 0, 0),
    ("theory a-b", "theory ab", 1, 1, 1),
    ("a\u2019b", "ab", 0, 0, 0),  # only ASCII punctuation is removed
    ("thé", "th\xe9", 1, 1, 1),
    ("x\xa0y", "x y", 1, 1, 1),
]


@pytest.mark.parametrize(("prediction", "answer", "em", "f1", "f1_v2"), PAIRS)
def test_scores_by_hand(prediction, answer, em, f1, f1_v2):
    for pair in ((prediction, answer), (answer, prediction)):
        assert squad_metrics.exact_match(*pair) == em
        assert squad_metrics.f1(*pair) == pytest.approx(f1)
        assert squad_metrics.f1_with_negative(*pair) == pytest.approx(f1_v2)


def random_answer(rng):
    words = "the,a,An,cat,cat.,CAT,dog,(dog),'s,-,\xa0,é,x_y"
    parts = words.split(",")
    return rng.choice([" ", "  "]).join(rng.choices(parts, k=rng.randrange(5)))


def test_scores_of_random_texts():
    rng = random.Random(0)
    values = set()
    for _ in range(3000):
        pair = random_answer(rng), random_answer(rng)
        assert squad_metrics.normalize(pair[0]) == oracle.normalize_answer(pair[0])
        assert squad_metrics.exact_match(*pair) == oracle.exact(*pair)
        assert squad_metrics.f1(*pair) == oracle.f1_v1(*pair)
        assert squad_metrics.f1_with_negative(*pair) == oracle.f1_v2(*pair)
        values.add(squad_metrics.f1(*pair))
    assert len(values) > 8


# Prediction, correct answer, and F1 by characters.
CHARACTERS = [
    ("서울특별시", "서울", 2 * (2 / 5) / (7 / 5)),
    ("《서울》 <대학교>", "서울대학교", 1),
    ("‘KBS’ 1TV", "kbs1tv", 1),
    ("1,889년", "1889년", 1),
    ("the cat", "cat", 2 * (3 / 6) / (9 / 6)),  # articles are characters as others
    ("東京都", "京都", 2 * (2 / 3) / (5 / 3)),
    ("猫", "犬", 0),
    ("?!", "", 0),
]


@pytest.mark.parametrize(("prediction", "answer", "f1"), CHARACTERS)
def test_f1_by_characters(prediction, answer, f1):
    for pair in ((prediction, answer), (answer, prediction)):
        assert squad_metrics.f1(*pair, by="characters") == pytest.approx(f1)
        # Two texts without characters are equal in version 2.0.
        expected = 1 if pair in (("?!", ""), ("", "?!")) else f1
        assert squad_metrics.f1_with_negative(*pair, by="characters") == pytest.approx(
            expected
        )


def test_f1_by_characters_of_random_texts():
    """The F1 of KorQuAD's official script, on texts with its punctuation."""
    rng, parts = (
        random.Random(0),
        [*"서울대학교 AbＫ1,.()《》〈〉‘’'\"-", "the ", "\xa0", "　"],
    )
    values = set()
    for _ in range(3000):
        pair = ["".join(rng.choices(parts, k=rng.randrange(9))) for _ in range(2)]
        values.add(squad_metrics.f1(*pair, by="characters"))
        assert squad_metrics.f1(*pair, by="characters") == oracle.f1_korquad(*pair)
    assert len(values) > 30


@VERSIONS
def test_the_units_of_f1(version_2, caplog):
    """EM stays.

    A text without blanks gets a line that names the setting, one with blanks does not.

    The answer has two of the three characters of the prediction.
    """
    contexts = {
        "東京都は日本の首都であり、人口が最も多い都市である。": True,
        "東京都 is big ": False,
    }
    for context, has_no_blanks in contexts.items():
        example = SquadExample("1", "q", tuple(context.split()), context, ("京都",))
        for f1_by, expected in (("words", 0.0), ("characters", 80.0)):
            caplog.clear()
            metrics = AnswerMetrics(
                AnswerSettings(version_2_with_negative=version_2, f1_by=f1_by)
            )
            metrics.add(example, "東京都", "東京都", 0.0)
            results = metrics.results()
            assert results["f1"] == pytest.approx(expected)
            assert results["exact" if version_2 else "exact_match"] == 0.0
            is_named = any("Set f1_by=characters" in each for each in caplog.messages)
            assert is_named == (has_no_blanks and f1_by == "words")
    with refused_with("f1_by must be one of words, characters"):
        AnswerSettings(f1_by="bytes")


def results_of(examples, version_2, best, diffs=None, threshold=0.0):
    """Returns the results of `AnswerMetrics`, and the predictions, by question id.

    Args:
        examples: The questions.
        version_2: Whether questions may have no answer.
        best: By question id, the best answer; in version 2.0, the best one other than
            "".
        diffs: By question id, the null score differences of version 2.0.
        threshold: Above it, the prediction is "".
    """
    collected = AnswerMetrics(AnswerSettings(version_2_with_negative=version_2))
    predictions = {}
    for example in examples:
        diff = diffs[example.id] if version_2 else 0.0
        text = "" if diff > threshold else best[example.id]
        predictions[example.id] = text
        collected.add(example, text, best[example.id], diff)
    return collected.results(), predictions


def check_version_1(data, examples, best):
    found, _ = results_of(examples, False, best)
    assert found == oracle.metrics_v1(data, best)
    return found


def check_version_2(data, examples, best, diffs, threshold=0.0):
    """The scores are those of the predictions, the thresholds those of the answers."""
    found, predictions = results_of(examples, True, best, diffs, threshold)
    expected = oracle.metrics_v2(data, predictions)
    expected = {
        name: value for name, value in expected.items() if not name.endswith("total")
    }
    has_answer = {qa["id"]: bool(qa["answers"]) for qa in oracle.questions(data)}
    # The sum of Python 3.12 is more exact than that of earlier versions.
    assert {name: found[name] for name in expected} == pytest.approx(
        expected, rel=1e-12
    )
    for name, scores in zip(
        ("exact", "f1"), oracle.raw_scores_v2(data, best), strict=True
    ):
        score, thresh = oracle.find_best_thresh(best, scores, diffs, has_answer)
        expected |= {f"best_{name}": score, f"best_{name}_thresh": thresh}
        assert (found[f"best_{name}"], found[f"best_{name}_thresh"]) == (score, thresh)
    assert list(found) == list(expected)
    return found


def perturbed(rng, text):
    """Returns the text with other articles, case, punctuation and words."""
    words = [
        rng.choice([word, word, word.upper(), f"the {word},", "other"])
        for word in text.split()
    ]
    return " ".join(words[rng.randrange(2) :])


def predictions_of(kind, questions, rng):
    """Returns a prediction for each question."""
    correct = [(qa["answers"] or [{"text": ""}])[0]["text"] for qa in questions]
    if kind == "shuffled":
        rng.shuffle(correct)
    elif kind == "empty":
        correct = [""] * len(correct)
    elif kind == "perturbed":
        correct = [perturbed(rng, text) or "guess" for text in correct]
    return dict(zip((qa["id"] for qa in questions), correct, strict=True))


KINDS = ["perfect", "shuffled", "empty", "perturbed"]


@pytest.fixture(scope="module", params=["1.1", "2.0"])
def real(request, test_data):
    """The contents and the examples of a dev set."""
    path = test_data / f"data/squad/dev-v{request.param}.json"
    if not path.is_file():
        pytest.skip(f"requires data/squad/{path.name} in BERT_TF_TEST_DATA")
    version_2 = request.param == "2.0"
    return (
        version_2,
        read_json(path),
        read(str(path), False, version_2)[0],
    )


@pytest.mark.parametrize("kind", KINDS)
def test_real_questions(real, kind):
    """Each kind of prediction is for another quarter of the articles."""
    version_2, contents, examples = real
    data = {"data": contents["data"][KINDS.index(kind) :: len(KINDS)]}
    questions = oracle.questions(data)
    chosen = {qa["id"] for qa in questions}
    examples = [example for example in examples if example.id in chosen]
    rng = random.Random(kind)
    best = predictions_of(kind, questions, rng)
    if not version_2:
        found = check_version_1(data, examples, best)
        low, high = {"perfect": (100, 100), "empty": (0, 1), "shuffled": (0, 20)}.get(
            kind, (5, 95)
        )
        assert low <= found["exact_match"] <= high and len(examples) > 1000
        return
    has_answer = {qa["id"]: bool(qa["answers"]) for qa in questions}
    diffs = {
        name: round(rng.gauss(-2 if has_answer[name] else 1, 2), 1) for name in best
    }
    found = check_version_2(data, examples, best, diffs, 1.5)
    assert len(set(diffs.values())) < len(diffs) and len(examples) > 1000
    assert (kind == "perfect") == (found["best_f1"] == 100)
    assert (kind == "empty") == (found["HasAns_f1"] == 0)


def small(*answers):
    """Returns the contents of a file.

    Each argument is the list of a question's answers.
    """
    questions = [
        (str(number), "who", answers_of(*texts), not texts)
        for number, texts in enumerate(answers)
    ]
    return data_of(paragraph_of("any", *questions))


def check_small(folder, version_2, data, best, diffs=None, threshold=0.0):
    """Checks predictions, which are given in the order of the questions."""
    examples, _ = read(write(folder / "dev.json", data), False, version_2)
    best = {example.id: text for example, text in zip(examples, best, strict=True)}
    if not version_2:
        return check_version_1(data, examples, best)
    diffs = {example.id: diff for example, diff in zip(examples, diffs, strict=True)}
    return check_version_2(data, examples, best, diffs, threshold)


def test_version_1_by_hand(tmp_path):
    data = small(["The cat's hat", "a dog"], ["red green blue", "red"], ["the"], ["x"])
    found = check_small(
        tmp_path, False, data, ["cats  HAT.", "red green", "a", "empty"]
    )
    # F1 of the second: precision 1, recall 2/3; of the third: no words, but an exact
    # match.
    assert found == {"exact_match": 50.0, "f1": pytest.approx(45.0)}


def test_version_2_by_hand(tmp_path):
    """The second question counts as having an answer, but "" is correct."""
    data = small(["red", "red green blue"], ["the"], [], [])
    found = check_small(
        tmp_path, True, data, ["red green", "", "x", "blue"], [-2, -1, 3, -0.5]
    )
    assert found == {
        "exact": 50.0, "f1": pytest.approx(70.0),
        "HasAns_exact": 50.0, "HasAns_f1": pytest.approx(90.0),
        "NoAns_exact": 50.0, "NoAns_f1": 50.0,
        "best_exact": 75.0, "best_exact_thresh": -1.0,
        "best_f1": pytest.approx(95.0), "best_f1_thresh": -1.0,
    }  # fmt: skip


@pytest.mark.parametrize("has_answer", [True, False])
def test_version_2_with_questions_of_one_kind(tmp_path, has_answer):
    data = small(*[["x"] if has_answer else []] * 3)
    found = check_small(tmp_path, True, data, ["x", "y", "x"], [1.0, -1.0, -2.0])
    kind, other = ("HasAns", "NoAns") if has_answer else ("NoAns", "HasAns")
    assert f"{kind}_f1" in found and f"{other}_f1" not in found
    assert found["best_f1"] == pytest.approx(200 / 3 if has_answer else 100)
    assert found["best_f1_thresh"] == (1.0 if has_answer else 0.0)


@pytest.mark.parametrize(
    ("answers", "expected"), [([["x"], []], (100.0, 3.0)), ([[], ["x"]], (50.0, 0.0))]
)
def test_equal_differences_are_not_taken_together(tmp_path, answers, expected):
    """As in the official program, the order of the questions then counts."""
    found = check_small(tmp_path, True, small(*answers), ["x", "x"], [3.0, 3.0])
    assert (found["best_f1"], found["best_f1_thresh"]) == expected


def test_the_best_answer_is_always_empty(tmp_path):
    data = small(["x"], [], ["the"], [])
    found = check_small(tmp_path, True, data, [""] * 4, [0.0] * 4)
    assert found["exact"] == found["f1"] == 75.0
    assert (found["HasAns_f1"], found["NoAns_f1"]) == (50.0, 100.0)
    # The third question is correct after its answer "" is chosen, at the same
    # difference.
    assert (found["best_f1"], found["best_f1_thresh"]) == (75.0, 0.0)


@VERSIONS
def test_unlabelled_questions_do_not_count(caplog, version_2):
    unknown = SquadExample("2", "", (), "", None)
    examples = [SquadExample("1", "", (), "", ("x",)), unknown]
    with caplog.at_level(logging.WARNING, "bert_tf"):
        found, _ = results_of(
            examples, version_2, {"1": "x", "2": "y"}, {"1": -1.0, "2": -1.0}
        )
    assert found["f1"] == 100
    assert "do not include 1 questions without answers" in caplog.text
    assert results_of([unknown], version_2, {"2": "y"}, {"2": 0.0})[0] == {}


def scored(folder, data, settings):
    """Returns the results without and with files, for random logits, and the files."""
    tokenizer, reference = tokenizers(True)
    task = make_task(tokenizer, {"doc_stride": 8, "max_query_length": 6}, settings)
    found = Encoded(write(folder / "dev.json", data), task, reference, 24)
    split = Split("dev", FileSource(str(folder / "dev.json")))
    results, written, run = (
        task.make_results(split),
        task.make_results(split),
        folder / "run",
    )
    predictions = [
        (example, results.decode(example, outputs))
        for example, outputs in found.outputs(*random_logits(found, 0))
    ]
    for example, prediction in predictions:
        results.score(example, prediction)
    written.write(str(run), predictions)
    files = {path.name: read_json(path) for path in run.iterdir()}
    return results, written.metrics(), files


def check_report(report, data, predictions):
    """The report shows the first questions with their answers."""
    lines = [line.split(maxsplit=1)[1] for line in report.split("\n") if line]
    expected = []
    for qa in oracle.questions(data):
        correct = " | ".join(answer["text"] for answer in qa["answers"])
        expected += [qa["question"], predictions[qa["id"]], correct]
    assert len(lines) >= 9 and len(lines) % 3 == 0
    assert lines == [text or "(no answer)" for text in expected[: len(lines)]]


@VERSIONS
def test_the_scores_of_the_written_predictions(tmp_path, version_2):
    contexts = ["a b c", "the cat", "猫 x"] * 3
    data = data_of(
        *(
            paragraph_of(
                text,
                (str(n), "who", [] if n % 4 == 3 else answers_of(text), n % 4 == 3),
            )
            for n, text in enumerate(contexts)
        )
    )
    if not version_2:
        data["data"][0]["paragraphs"] = [
            each for each in data["data"][0]["paragraphs"] if each["qas"][0]["answers"]
        ]
    scorer, results, files = scored(
        tmp_path, data, {"version_2_with_negative": version_2}
    )
    assert scorer.metrics() == results
    check_report(scorer.report(), data, files["predictions.json"])
    official = oracle.metrics_v2 if version_2 else oracle.metrics_v1
    expected = official(data, files["predictions.json"])
    assert 0 < expected["f1"] < 100
    assert {name: results[name] for name in expected if not name.endswith("total")} == (
        pytest.approx(
            {name: v for name, v in expected.items() if not name.endswith("total")}
        )
    )
    assert ("squad_threshold.json" in files) == version_2
    if version_2:
        assert files["squad_threshold.json"] == {
            "null_score_diff_threshold": results["best_f1_thresh"],
            "f1": results["best_f1"],
        }


def test_the_threshold_file_gives_the_best_f1_if_no_question_has_an_answer(tmp_path):
    data = data_of(paragraph_of("a b", ("1", "who", []), ("2", "what", [])))
    _, results, files = scored(tmp_path, data, {"version_2_with_negative": True})
    assert (results["best_f1"], results["best_f1_thresh"]) == (
        100.0,
        0.0,
    )  # as the official script
    threshold = files["squad_threshold.json"]["null_score_diff_threshold"]
    assert threshold < min(files["null_odds.json"].values())


# Ensembles


def nbest_of(probabilities):
    """Returns the n-best list with the given probabilities by text."""
    return [
        {"text": text, "probability": value, "start_logit": 0.0, "end_logit": 0.0}
        for text, value in probabilities.items()
    ]


def write_runs(folder, *runs):
    """Writes n-best files; a run has the probabilities by text for each question."""
    paths = []
    for number, run in enumerate(runs):
        contents = {question: nbest_of(values) for question, values in run.items()}
        paths.append(folder / f"{number}.json")
        write_json(paths[-1], contents)
    return [str(path) for path in paths]


def averaged(folder, runs, data=None, **settings):
    """Returns the results of `ensemble.average`, and the written files."""
    data_file = data and write(folder / "dev.json", data)
    paths = write_runs(folder, *runs)
    results = ensemble.average(
        paths, str(folder / "out"), AnswerSettings(**settings), data_file
    )
    files = {path.name: path.read_text("utf-8") for path in (folder / "out").iterdir()}
    return results, files


RUNS = [{"q": {"x": 0.6, "é": 0.4}}, {"q": {"é": 0.9, "z": 0.1}}, {"q": {"z": 1.0}}]


def test_probabilities_are_averaged(tmp_path):
    results, files = averaged(tmp_path, RUNS)
    assert results == {} and sorted(files) == [
        "nbest_predictions.json",
        "predictions.json",
    ]
    assert files["predictions.json"] == '{\n    "q": "\\u00e9"\n}\n'
    entries = json.loads(files["nbest_predictions.json"])["q"]
    expected = {"é": 1.3 / 3, "z": 1.1 / 3, "x": 0.2}
    assert [each["text"] for each in entries] == list(expected)
    assert [each["probability"] for each in entries] == pytest.approx(
        list(expected.values())
    )
    for each in entries:
        half = pytest.approx(math.log(each["probability"]) / 2)
        assert each["start_logit"] == each["end_logit"] == half


@pytest.mark.parametrize(
    ("threshold", "expected"),
    [(math.log(3 / 2) - 1e-6, ""), (math.log(3 / 2) + 1e-6, "x")],
)
def test_the_difference_of_version_2_is_that_of_the_logarithms(
    tmp_path, threshold, expected
):
    """The mean of "" is 0.3, which is 3/2 of that of "x".

    It is in the list though not the best.
    """
    runs = [{"q": {"x": 0.2, "y": 0.1, "": 0.6}}, {"q": {"x": 0.2, "y": 0.1}}]
    settings = {"version_2_with_negative": True, "null_score_diff_threshold": threshold}
    _, files = averaged(tmp_path, runs, n_best_size=2, **settings)
    assert json.loads(files["predictions.json"]) == {"q": expected}
    assert json.loads(files["null_odds.json"])["q"] == pytest.approx(math.log(3 / 2))
    texts = [each["text"] for each in json.loads(files["nbest_predictions.json"])["q"]]
    assert texts == ["", "x"]


def test_a_probability_of_0_has_a_finite_logarithm(tmp_path):
    _, files = averaged(
        tmp_path, [{"q": {"": 1.0, "x": 0.0}}], version_2_with_negative=True
    )
    assert 80 < json.loads(files["null_odds.json"])["q"] < 100


def test_metrics_and_the_order_of_the_data_set(tmp_path):
    data = small(["x"], [], ["y"])
    run = {"2": {"y": 0.6, "": 0.4}, "0": {"z": 0.9, "": 0.1}, "1": {"": 0.8, "x": 0.2}}
    results, files = averaged(tmp_path, [run], data, version_2_with_negative=True)
    predictions = {"0": "z", "1": "", "2": "y"}
    assert files["predictions.json"] == json.dumps(predictions, indent=4) + "\n"
    expected = oracle.metrics_v2(data, predictions)
    for name in ("exact", "f1", "HasAns_exact", "HasAns_f1", "NoAns_exact", "NoAns_f1"):
        assert results[f"eval_{name}"] == pytest.approx(expected[name])
    lines = [line.split(" = ") for line in files["eval_results.txt"].splitlines()]
    assert {name: float(value) for name, value in lines} == results
    threshold = json.loads(files["squad_threshold.json"])
    assert threshold == {
        "f1": results["eval_best_f1"],
        "null_score_diff_threshold": results["eval_best_f1_thresh"],
    }


@pytest.mark.parametrize("threshold", [-3.0, 2.0])
@VERSIONS
@pytest.mark.parametrize("n_best_size", [1, 5])
def test_a_single_file_gives_its_own_predictions(
    tmp_path, version_2, threshold, n_best_size
):
    settings = {
        "version_2_with_negative": version_2, "null_score_diff_threshold": threshold,
        "n_best_size": n_best_size,
    }  # fmt: skip
    tokenizer, reference = tokenizers(True)
    task = make_task(tokenizer, {"doc_stride": 8, "max_query_length": 6}, settings)
    path = write(tmp_path / "dev.json", random_data(2, 10, 20))
    found = Encoded(path, task, reference, 24)
    predictions, nbest, null_odds = oracle_predictions(
        found, random_logits(found, 0), True, settings
    )
    paths = [str(tmp_path / f"{number}.json") for number in range(2)]
    for each in paths:
        with open(each, "w", encoding="utf-8") as file:
            json.dump(nbest, file)
    for runs in (paths[:1], paths):
        ensemble.average(runs, str(tmp_path / "out"), AnswerSettings(**settings))
        written = read_json(tmp_path / "out/predictions.json")
        assert written == predictions and list(written) == list(predictions)
        if version_2:
            odds = read_json(tmp_path / "out/null_odds.json")
            assert odds == pytest.approx(null_odds, abs=1e-6)
    assert len(set(predictions.values())) > 3


ONE = {"q": {"x": 1.0}}


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        (
            [ONE, {**ONE, "r": {"x": 1.0}}],
            ("1.json and ", "0.json have different", "'r'"),
        ),
        ([{"q": {"x": 0.6, "": 0.4}}], ("contains empty answers, as for SQuAD",)),
    ],
    ids=["questions", "empty answers"],
)
def test_refused_runs(tmp_path, runs, words):
    check(lambda folder: averaged(folder, runs), tmp_path, refused(*words))
    assert not (tmp_path / "out").exists()


def test_a_file_of_predictions_is_no_file_of_answers(tmp_path):
    path, settings = reading.write(tmp_path / "0.json", '{"q": "x"}'), AnswerSettings()
    words = refused("0.json has no lists of answers")
    check(
        lambda path: ensemble.average([path], str(tmp_path / "out"), settings),
        path,
        words,
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["nbest_predictions.json", "predictions.json"])
def test_an_ensemble_does_not_replace_its_input(tmp_path, name):
    content = json.dumps({"q": nbest_of({"x": 1.0})})
    (tmp_path / name).write_text(content)
    with refused_with(f"would be replaced, because {name} is the name of an"):
        ensemble.average([str(tmp_path / name)], str(tmp_path), AnswerSettings())
    assert (tmp_path / name).read_text() == content


def test_the_baseline_of_version_2_answers_no_question():
    collected = AnswerMetrics(AnswerSettings(version_2_with_negative=True))
    for answers in (("cat",), (), ()):
        collected.add(SquadExample("q", "q", ("cat",), "cat", answers), "", "cat", 0.0)
    assert collected.baseline() == {"exact": 200 / 3, "f1": 200 / 3}
    results = collected.results()
    assert collected.baseline() == {name: results[name] for name in ("exact", "f1")}
    assert AnswerMetrics(AnswerSettings()).baseline() == {}
