"""run_squad.py: training, predictions, metrics, ensembles, and refused input."""

import gzip
import json
import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from json_files import read_json
from reference import squad as reference
from run_programs import (
    assert_each_refused,
    assert_refused,
    read_lines,
    results_of,
    run_lines,
    run_well,
    write_rows,
)
from tiny_bert import SPECIAL, write_architecture

import bert_tf

MODULE = "bert_tf.run_scripts.run_squad"
TEXT = "ann bob carl dora lives in rome paris oslo who where ."
WORDS = TEXT.split()
VOCABULARY = [*SPECIAL, *WORDS, "##s"]
FILES = "--train_file=train-v1.1.json --predict_file=dev-v1.1.json"
BASE = (
    "--data_dir=. --output_dir=out --vocab_file=vocab.txt "
    "--bert_config_file=config.json --max_seq_length=16 --max_query_length=4 "
    "--doc_stride=4 --train_batch_size=8 --num_train_epochs=2 --learning_rate=1e-2"
)


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


@pytest.fixture(autouse=True)
def folder(here):
    write_architecture(here, VOCABULARY, 16, max_position_embeddings=32)
    for name, count in (("train", 40), ("dev", 12)):
        for version in ("1.1", "2.0"):
            contents = data_set(count, version == "2.0", seed=count)
            write_rows(f"{name}-v{version}.json", json.dumps(contents))


def test_version_1_is_trained_predicted_and_scored():
    own = data_set(5, False, seed=3, with_answers=False)
    write_rows("questions.json", json.dumps(own))
    trained, *_, further = run_well(
        MODULE,
        f"{BASE} {FILES} --do_train --do_eval --do_predict --eval_steps=5",
        # The run gives the model, the vocabulary and the windows.
        "--init_checkpoint=out --output_dir=own --do_predict "
        "--predict_file=questions.json",
        f"{BASE} --do_eval --init_checkpoint=out --output_dir=again",
        f"{BASE} --do_train --init_checkpoint=out --output_dir=new --check_only",
    )
    predictions, nbest = (
        read_json("out/predictions.json"),
        read_json("out/nbest_predictions.json"),
    )
    assert list(predictions) == list(nbest) == [f"q{number}" for number in range(12)]
    assert all(nbest[each][0]["text"] == text for each, text in predictions.items())
    assert not os.path.exists("out/null_odds.json")
    expected = reference.metrics_v1(read_json("dev-v1.1.json"), predictions)
    results = results_of("out")
    assert results == {f"eval_{k}": v for k, v in expected.items()} | {
        "global_step": 10
    }
    assert f"f1 {expected['f1']:.4f} on the dev split" in trained.out
    result = read_json("out/results.json")
    assert (result["metric"], result["value"]) == ("eval_f1", expected["f1"])
    assert result["baseline"] is None and result["results"] == results
    assert "evaluating dev" in trained.err  # at --eval_steps
    trained_positions = check_records("out/train.tf_record")
    assert 0 < max(trained_positions) < 16
    assert len(trained_positions) > 2 * 40  # some contexts have several windows
    assert set(check_records("out/eval.tf_record")) == {0}
    assert len(read_json("own/predictions.json")) == 5
    assert not os.path.exists("own/eval_results.txt")
    assert {**results_of("again"), "global_step": 10} == pytest.approx(results)
    assert read_json("again/predictions.json") == predictions
    assert "The head is that of" in further.err


@pytest.mark.slow
def test_version_2_uses_the_flag_and_writes_the_best_threshold():
    flag = "--version_2_with_negative"
    *_, always = run_well(
        MODULE,
        # Evaluation includes predictions.
        f"{BASE} --do_train --do_eval {flag} --export_dir=served",
        f"{BASE} --do_predict {flag} --null_score_diff_threshold=1e6",
        f"{BASE} --do_predict --null_score_diff_threshold=-1e6",  # 2.0 from the run
    )
    metric = read_json("served/1/assets.extra/export_report.json")["metric"]
    assert metric["name"] == "f1"
    assert metric["num_examples"] == len(read_lines("out/dev_examples.jsonl"))
    result = read_json("out/results.json")  # of the last run, which answers no question
    assert result["value"] == result["baseline"] > 0
    assert "no better than a constant prediction: f1" in always.err
    assert set(read_json("out/predictions.json").values()) == {""}
    results = results_of("out")
    threshold = read_json("out/squad_threshold.json")["null_score_diff_threshold"]
    assert threshold == results["eval_best_f1_thresh"]
    assert results["eval_NoAns_exact"] == 100.0


@pytest.mark.slow
def test_f1_by_characters_of_compressed_files():
    """Evaluation, export and a later run of the trained model use the same units."""
    data = read_json("dev-v1.1.json")
    for qa in reference.questions(data):  # the answers lack their first character
        (answer,) = qa["answers"]
        answer.update(text=answer["text"][1:], answer_start=answer["answer_start"] + 1)
    for name, contents in (("train", read_json("train-v1.1.json")), ("dev", data)):
        packed = gzip.compress(json.dumps(contents).encode())
        pathlib.Path(f"{name}.json.gz").write_bytes(packed)
    evaluate = f"{BASE} --do_eval --predict_file=dev.json.gz"
    run_well(
        MODULE,
        f"{evaluate} --do_train --train_file=train.json.gz --f1_by=characters "
        "--export_dir=served",
        f"{evaluate} --init_checkpoint=out --output_dir=again",
    )
    (refused,) = run_lines(MODULE, f"{BASE} --do_eval --f1_by=bytes")
    assert_refused(refused, "f1_by")
    predictions = read_json("out/predictions.json")
    answers = {qa["id"]: qa["answers"][0]["text"] for qa in reference.questions(data)}
    scores = [
        reference.f1_korquad(predictions[name], text) for name, text in answers.items()
    ]
    expected = pytest.approx(100 * sum(scores) / len(scores))
    assert results_of("out")["eval_f1"] == expected and sum(scores) > 4
    assert results_of("out")["eval_exact_match"] == 0
    assert results_of("again")["eval_f1"] == expected
    assert read_json("out/results.json")["value"] == expected
    metric = read_json("served/1/assets.extra/export_report.json")["metric"]
    assert (metric["name"], metric["model"]) == ("f1", expected)


def check_records(path):
    """Checks that records have the released features, in their order.

    Returns all positions.
    """
    records = list(tf.data.TFRecordDataset(path))
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


@pytest.mark.medium
def test_an_ensemble_of_equal_runs_gives_the_answers_of_one_run():
    flags = (
        "--average_nbest=out/nbest_predictions.json,out/nbest_predictions.json "
        "--output_dir=both --version_2_with_negative"
    )
    pathlib.Path("mine").mkdir()
    write_rows("mine/eval_results.txt", "mine")
    run_well(
        MODULE,
        f"{BASE} --do_train --do_predict --version_2_with_negative",
        f"{flags} --predict_file=dev-v2.0.json",
    )
    assert read_json("both/predictions.json") == read_json("out/predictions.json")
    expected, found = (
        {name: value for name, value in results_of(run).items() if "thresh" not in name}
        for run in ("out", "both")
    )
    del expected["global_step"]
    assert found == pytest.approx(expected)
    odds = read_json("out/null_odds.json")
    assert read_json("both/null_odds.json") == pytest.approx(odds, abs=1e-4)

    cases = [
        (
            "--predict_file=dev-v1.1.json --output_dir=wrong",
            "different questions",
            "dev-v1.1.json",
        ),
        ("--do_predict", "--average_nbest runs no model"),
        ("--output_dir=out", "contains a run, whose predictions would be replaced"),
        ("--output_dir=mine", "eval_results.txt would be replaced"),
    ]
    assert_each_refused(MODULE, flags, cases)
    assert not os.path.exists("wrong")


def test_bad_input_is_refused_and_leaves_nothing_behind():
    write_rows("predictions.json", json.dumps(data_set(2, False, seed=0)))
    unlabelled = json.dumps(data_set(2, False, seed=0, with_answers=False))
    write_rows("unlabelled.json", unlabelled)
    cases = [
        (
            "--do_train --train_file=train-v2.0.json",
            "data[0].paragraphs[0].qas[1]",
            "version_2_with_negative",
        ),
        ("--do_train --doc_stride=0", "--doc_stride must be at least 1"),
        (
            "--do_train --do_eval --predict_file=unlabelled.json",
            "unlabelled.json",
            "'q0' has no answers",
        ),
        (
            "--do_train --do_predict --output_dir=. --predict_file=predictions.json",
            "predictions.json would be replaced",
        ),
        ("", "Nothing to do"),
    ]
    assert_each_refused(MODULE, BASE, cases)


def test_a_context_without_words_is_answered():
    contexts = [
        {"context": context, "qas": [{"id": name, "question": "who"}]}
        for name, context in (("a", ""), ("b", " \t"), ("c", "ann"))
    ]
    for name, count in (("some", 3), ("none", 2)):
        data = {"data": [{"title": "t", "paragraphs": contexts[:count]}]}
        write_rows(f"{name}.json", json.dumps(data))
    config = bert_tf.BertConfig(**read_json("config.json"))
    model = bert_tf.BertSpanPredictor(config)
    tokenizer = bert_tf.BertTokenizer(VOCABULARY)
    bert_tf.save_checkpoint(model, tokenizer, "model", task_type="span")
    predict = f"{BASE} --do_predict --init_checkpoint=model"
    run_well(
        MODULE,
        f"{predict} --predict_file=some.json --output_dir=1",
        f"{predict} --predict_file=none.json --output_dir=2",
        f"{predict} --predict_file=none.json --output_dir=3 --version_2_with_negative",
    )
    empty = {"a": "empty", "b": "empty"}
    assert read_json("1/predictions.json") == {**empty, "c": "ann"}
    assert read_json("2/predictions.json") == empty
    assert read_json("3/predictions.json") == {"a": "", "b": ""}
    assert read_json("3/null_odds.json") == {"a": 0.0, "b": 0.0}
