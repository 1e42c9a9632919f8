"""run_squad.py: training, predictions, metrics, ensembles, and refused input."""

import gzip
import json

import numpy as np
import pytest
import tensorflow as tf
from reference import squad as reference
from run_programs import (
    assert_each_refused,
    assert_refused,
    commands,
    results_of,
    run_main,
)
from tiny_bert import SPECIAL, write_architecture

MODULE = "bert_tf.run_scripts.run_squad"
WORDS = [
    "ann",
    "bob",
    "carl",
    "dora",
    "lives",
    "in",
    "rome",
    "paris",
    "oslo",
    "who",
    "where",
    ".",
]
VOCABULARY = [*SPECIAL, *WORDS, "##s"]


def data_set(num_paragraphs, version_2, seed, with_answers=True):
    """Returns sentences about people and cities, with one or two questions for each."""
    rng = np.random.default_rng(seed)
    paragraphs = []
    for number in range(num_paragraphs):
        people, cities = rng.permutation(WORDS[:4]), rng.permutation(WORDS[6:9])
        facts = [
            f"{who} lives in {city}." for who, city in zip(people, cities, strict=False)
        ]
        context = "  ".join(facts[: rng.integers(1, 4)])
        city = cities[0]
        answer = [{"text": str(city), "answer_start": context.index(city)}]
        qas = [
            {
                "id": f"q{number}",
                "question": f"where lives {people[0]}",
                "answers": answer,
            }
        ]
        if version_2:
            qas[0]["is_impossible"] = False
            other = {"id": f"n{number}", "question": f"where lives {people[3]}"}
            qas.append({**other, "answers": [], "is_impossible": True})
        if not with_answers:
            qas = [{"id": qa["id"], "question": qa["question"]} for qa in qas]
        paragraphs.append({"context": context, "qas": qas})
    return {"version": "1", "data": [{"title": "people", "paragraphs": paragraphs}]}


@pytest.fixture
def folder(tmp_path):
    write_architecture(tmp_path, VOCABULARY, 16, max_position_embeddings=32)
    for name, count, version_2 in (
        ("train-v1.1", 40, False),
        ("dev-v1.1", 12, False),
        ("train-v2.0", 40, True),
        ("dev-v2.0", 12, True),
    ):
        contents = data_set(count, version_2, seed=count)
        (tmp_path / f"{name}.json").write_text(json.dumps(contents))
    return tmp_path


command = commands(
    max_seq_length=16,
    max_query_length=4,
    doc_stride=4,
    train_batch_size=8,
    num_train_epochs=2,
    learning_rate=1e-2,
)


def read(path):
    return json.loads(path.read_text())


def test_version_1_is_trained_predicted_and_scored(folder):
    everything = {
        "do_train": True,
        "do_eval": True,
        "do_predict": True,
        "eval_steps": 5,
    }
    own = data_set(5, False, seed=3, with_answers=False)
    (folder / "questions.json").write_text(json.dumps(own))
    out, own_out = folder / "out", folder / "own"
    files = {
        "train_file": folder / "train-v1.1.json",
        "predict_file": folder / "dev-v1.1.json",
    }
    trained, unlabelled, scored, further = run_main(
        MODULE,
        command(folder, **everything, **files, data_dir=None),
        # The run gives the model, the vocabulary and the windows.
        [
            f"--init_checkpoint={out}",
            f"--output_dir={own_out}",
            "--do_predict",
            f"--predict_file={folder}/questions.json",
        ],
        command(folder, do_eval=True, init_checkpoint=out, output_dir=folder / "again"),
        command(
            folder, do_train=True, init_checkpoint=out, output_dir=folder / "further"
        ),
    )
    assert trained.code == 0, trained
    predictions, nbest = (
        read(out / "predictions.json"),
        read(out / "nbest_predictions.json"),
    )
    assert list(predictions) == list(nbest) == [f"q{number}" for number in range(12)]
    assert all(nbest[each][0]["text"] == text for each, text in predictions.items())
    assert not (out / "null_odds.json").exists()
    expected = reference.metrics_v1(read(folder / "dev-v1.1.json"), predictions)
    results = results_of(out)
    assert results == {f"eval_{k}": v for k, v in expected.items()} | {
        "global_step": 10
    }
    assert f"f1 {expected['f1']:.4f} on the dev split" in trained.out
    result = read(out / "results.json")
    assert (result["metric"], result["value"]) == ("eval_f1", expected["f1"])
    assert result["baseline"] is None and result["results"] == results
    assert "evaluating dev" in trained.err  # at --eval_steps
    trained_positions = check_records(out / "train.tf_record")
    assert 0 < max(trained_positions) < 16
    assert len(trained_positions) > 2 * 40  # some contexts have several windows
    assert set(check_records(out / "eval.tf_record")) == {0}
    assert unlabelled.code == 0, unlabelled
    assert len(read(own_out / "predictions.json")) == 5
    assert not (own_out / "eval_results.txt").exists()
    assert scored.code == 0, scored
    again = results_of(folder / "again")
    assert {**again, "global_step": 10} == pytest.approx(results)
    assert further.code == 0 and "The head is that of" in further.err, further
    assert read(folder / "again/predictions.json") == predictions


@pytest.mark.slow
def test_version_2_uses_the_flag_and_writes_the_best_threshold(folder):
    flags = {"version_2_with_negative": True}
    trained, never, always = run_main(
        MODULE,
        # Evaluation includes predictions.
        command(
            folder, do_train=True, do_eval=True, **flags, export_dir=folder / "served"
        ),
        command(folder, do_predict=True, **flags, null_score_diff_threshold=1e6),
        command(
            folder, do_predict=True, null_score_diff_threshold=-1e6
        ),  # 2.0 from the run
    )
    out = folder / "out"
    assert (trained.code, never.code, always.code) == (0, 0, 0), (
        trained,
        never,
        always,
    )
    report = read(folder / "served/1/assets.extra/export_report.json")
    assert report["metric"]["name"] == "f1"
    assert report["metric"]["num_examples"] == len(
        (out / "dev_examples.jsonl").open().readlines()
    )
    result = read(out / "results.json")  # of the last run, which answers no question
    assert result["value"] == result["baseline"] > 0
    assert "no better than a constant prediction: f1" in always.err
    assert set(read(out / "predictions.json").values()) == {""}
    results = results_of(out)
    threshold = read(out / "squad_threshold.json")["null_score_diff_threshold"]
    assert threshold == results["eval_best_f1_thresh"]
    assert results["eval_NoAns_exact"] == 100.0


@pytest.mark.slow
def test_f1_by_characters_of_compressed_files(folder):
    """Evaluation, export and a later run of the trained model use the same units."""
    (folder / "train.json.gz").write_bytes(
        gzip.compress((folder / "train-v1.1.json").read_bytes())
    )
    data = read(folder / "dev-v1.1.json")
    for qa in reference.questions(data):  # the answers lack their first character
        (answer,) = qa["answers"]
        answer.update(text=answer["text"][1:], answer_start=answer["answer_start"] + 1)
    (folder / "dev.json.gz").write_bytes(gzip.compress(json.dumps(data).encode()))
    files = {
        "train_file": folder / "train.json.gz",
        "predict_file": folder / "dev.json.gz",
    }
    flags = {"do_train": True, "f1_by": "characters", "export_dir": folder / "served"}
    trained, again, refused = run_main(
        MODULE,
        command(folder, do_eval=True, **flags, **files, data_dir=None),
        command(
            folder,
            do_eval=True,
            init_checkpoint=folder / "out",
            output_dir=folder / "again",
            predict_file=folder / "dev.json.gz",
        ),
        command(folder, do_eval=True, f1_by="bytes"),
    )
    assert (trained.code, again.code) == (0, 0), (trained, again)
    assert_refused(refused, "f1_by")
    predictions = read(folder / "out/predictions.json")
    answers = {qa["id"]: qa["answers"][0]["text"] for qa in reference.questions(data)}
    scores = [
        reference.f1_korquad(predictions[name], text) for name, text in answers.items()
    ]
    expected = pytest.approx(100 * sum(scores) / len(scores))
    assert results_of(folder / "out")["eval_f1"] == expected and sum(scores) > 4
    assert results_of(folder / "out")["eval_exact_match"] == 0
    assert results_of(folder / "again")["eval_f1"] == expected
    assert read(folder / "out/results.json")["value"] == expected
    metric = read(folder / "served/1/assets.extra/export_report.json")["metric"]
    assert (metric["name"], metric["model"]) == ("f1", expected)


def check_records(path):
    """Checks that records have the released features, in their order.

    Returns all positions.
    """
    records = list(tf.data.TFRecordDataset(str(path)))
    found = [
        tf.train.Example.FromString(each.numpy()).features.feature for each in records
    ]
    names = {"unique_ids", "input_ids", "input_mask", "segment_ids", "start_positions",
             "end_positions", "is_impossible"}  # fmt: skip
    assert all(set(each) == names for each in found)
    ids = [each["unique_ids"].int64_list.value[0] for each in found]
    assert ids == list(range(1000000000, 1000000000 + len(found)))
    assert len(found) > 12  # more than the questions of each file
    assert not any(each["is_impossible"].int64_list.value[0] for each in found)
    names = ("start_positions", "end_positions")
    return [each[name].int64_list.value[0] for each in found for name in names]


def test_an_ensemble_of_equal_runs_gives_the_answers_of_one_run(folder):
    predict = {"do_predict": True, "version_2_with_negative": True}
    out, both = folder / "out", folder / "both"
    paths = f"{out}/nbest_predictions.json,{out}/nbest_predictions.json"
    flags = [
        f"--average_nbest={paths}",
        f"--output_dir={both}",
        "--version_2_with_negative",
    ]
    (folder / "mine").mkdir()
    (folder / "mine/eval_results.txt").write_text("mine")
    single, ensemble, wrong, model_too, of_run, of_others = run_main(
        MODULE,
        command(folder, do_train=True, **predict),
        [*flags, f"--predict_file={folder}/dev-v2.0.json"],
        [
            *flags,
            f"--predict_file={folder}/dev-v1.1.json",
            f"--output_dir={folder}/wrong",
        ],
        [*flags, "--do_predict"],
        [*flags, f"--output_dir={out}"],
        [*flags, f"--output_dir={folder}/mine"],
    )
    assert (single.code, ensemble.code) == (0, 0), (single, ensemble)
    assert read(both / "predictions.json") == read(out / "predictions.json")
    expected = {
        name: value for name, value in results_of(out).items() if "thresh" not in name
    }
    del expected["global_step"]
    found = {
        name: value for name, value in results_of(both).items() if "thresh" not in name
    }
    assert found == pytest.approx(expected)
    assert read(both / "null_odds.json") == pytest.approx(
        read(out / "null_odds.json"), abs=1e-4
    )
    assert_refused(wrong, "dev-v1.1.json", "different questions")
    assert not (folder / "wrong").exists()
    assert_refused(model_too, "--average_nbest runs no model")
    assert_refused(of_run, "contains a run, whose predictions would be replaced")
    assert_refused(of_others, "eval_results.txt would be replaced")


def test_bad_input_is_refused_and_leaves_nothing_behind(folder):
    (folder / "predictions.json").write_text(json.dumps(data_set(2, False, seed=0)))
    unlabelled = json.dumps(data_set(2, False, seed=0, with_answers=False))
    (folder / "unlabelled.json").write_text(unlabelled)
    train = {"do_train": True}
    cases = [
        (
            {**train, "train_file": folder / "train-v2.0.json"},
            "data[0].paragraphs[0].qas[1]",
            "version_2_with_negative",
        ),
        ({**train, "doc_stride": 0}, "--doc_stride must be at least 1"),
        (
            {**train, "do_eval": True, "predict_file": folder / "unlabelled.json"},
            "unlabelled.json",
            "'q0' has no answers",
        ),
        (
            {
                **train,
                "do_predict": True,
                "output_dir": folder,
                "predict_file": folder / "predictions.json",
            },
            "predictions.json would be replaced",
        ),
        ({}, "Nothing to do"),
    ]
    assert_each_refused(MODULE, command, folder, cases)


def test_a_context_without_words_is_answered(folder):
    contexts = [
        {"context": context, "qas": [{"id": name, "question": "who"}]}
        for name, context in (("a", ""), ("b", " \t"), ("c", "ann"))
    ]
    text = json.dumps({"data": [{"title": "t", "paragraphs": contexts}]})
    (folder / "some.json").write_text(text)
    text = json.dumps({"data": [{"title": "t", "paragraphs": contexts[:2]}]})
    (folder / "none.json").write_text(text)
    predict = {"do_predict": True, "init_checkpoint": folder / "out"}
    trained, some, none, negative = run_main(
        MODULE,
        command(folder, do_train=True),
        command(
            folder,
            **predict,
            predict_file=folder / "some.json",
            output_dir=folder / "1",
        ),
        command(
            folder,
            **predict,
            predict_file=folder / "none.json",
            output_dir=folder / "2",
        ),
        command(
            folder,
            **predict,
            predict_file=folder / "none.json",
            output_dir=folder / "3",
            version_2_with_negative=True,
        ),
    )
    assert trained.code == 0
    assert (some.code, none.code, negative.code) == (0, 0, 0), (some, none, negative)
    assert read(folder / "1/predictions.json") == {
        "a": "empty",
        "b": "empty",
        "c": "ann",
    }
    assert read(folder / "2/predictions.json") == {"a": "empty", "b": "empty"}
    assert read(folder / "3/predictions.json") == {"a": "", "b": ""}
    assert read(folder / "3/null_odds.json") == {"a": 0.0, "b": 0.0}
