"""run_swag.py: training, metrics, predictions, and refused input."""

import csv
import json
import os
import pathlib

import numpy as np
import pytest
from json_files import read_json
from run_programs import (
    assert_each_refused,
    newest,
    read_lines,
    results_of,
    run_well,
    write_rows,
)
from tiny_bert import SPECIAL, write_architecture

MODULE = "bert_tf.run_scripts.run_swag"
WORDS = ["good", "bad", "film", "plot", "it", "is", "a", "long", ".", ","]
VOCABULARY = [*SPECIAL, *WORDS]
BASE = (
    "--data_dir=. --output_dir=out --vocab_file=vocab.txt "
    "--bert_config_file=config.json --max_seq_length=20 --train_batch_size=8 "
    "--num_train_epochs=1 --learning_rate=5e-3"
)
COLUMNS = ["", "video-id", "fold-ind", "startphrase", "sent1", "sent2", "gold-source"]
COLUMNS += [f"ending{number}" for number in range(4)]


def examples(count, seed, sizes=(4,)):
    """Yields contexts, choices without their start, and the index of "good"."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        size = int(rng.choice(sizes))
        label = int(rng.integers(size))
        choices = [f"a {rng.choice(['bad', 'long'])} plot, film" for _ in range(size)]
        choices[label] = "a good, long film."
        yield " ".join(rng.choice(WORDS[2:], 5)), choices, label


def write_csv(path, count, seed, with_label=True):
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*COLUMNS, "label"][: None if with_label else -1])
        for number, (context, choices, label) in enumerate(examples(count, seed)):
            start = [number, "v", number, f"{context} it is", context, "it is", "gold"]
            row = [*start, *choices, label]
            writer.writerow(row[: None if with_label else -1])


def rows_of(count, seed, sizes):
    return [
        {"context": context, "sent2": "it is", "choices": choices, "label": label}
        for context, choices, label in examples(count, seed, sizes)
    ]


@pytest.fixture(autouse=True)
def folder(here):
    sizes = {"max_position_embeddings": 24, "hidden_dropout_prob": 0}
    write_architecture(here, VOCABULARY, 16, **sizes)
    write_csv("train.csv", 160, seed=0)
    write_csv("val.csv", 30, seed=1)
    write_csv("test.csv", 20, seed=2, with_label=False)


def predictions_of(folder):
    """Returns the rows of predictions.jsonl; compares them with test_results.tsv."""
    rows = read_lines(f"{folder}/predictions.jsonl")
    lines = pathlib.Path(folder, "test_results.tsv").read_text().splitlines()
    for row, line in zip(rows, lines, strict=True):
        probabilities = [float(text) for text in line.split("\t")]
        assert row["probabilities"] == probabilities
        assert len(row["choices"]) == len(probabilities)
        assert sum(probabilities) == pytest.approx(1, abs=1e-5)
        assert row["predicted"] == int(np.argmax(probabilities))
        assert row["choice"] == row["choices"][row["predicted"]]
        assert row["probability"] == max(probabilities)
    return rows


def accuracy_of(rows):
    accuracy = np.mean([row["predicted"] == row["label"] for row in rows])
    return pytest.approx(accuracy)


def test_a_run_learns_and_predicts():
    more = rows_of(20, seed=3, sizes=range(2, 8))
    write_rows("more.jsonl", *map(json.dumps, more))
    *_, further = run_well(
        MODULE,
        f"{BASE} --do_train --do_eval --do_predict --num_train_epochs=4 "
        "--learning_rate=1e-2 --optimizer=adamw --eval_steps=50",
        "--output_dir=labelled --init_checkpoint=out --do_predict "
        "--predict_file=val.csv",
        # The run gives the model, the vocabulary and the length; the number of choices
        # differs.
        "--output_dir=own --init_checkpoint=out --do_predict --do_eval "
        "--predict_file=more.jsonl --dev_file=more.jsonl",
        f"{BASE} --do_train --init_checkpoint=out --output_dir=new --check_only",
    )
    results = results_of("out")
    assert set(results) == {
        "eval_accuracy", "eval_accuracy_baseline", "eval_loss", "loss", "global_step",
    }  # fmt: skip
    assert results["eval_accuracy"] > 0.8 and results["global_step"] == 80
    unlabelled = predictions_of("out")
    assert len(unlabelled) == 20 and not any("label" in row for row in unlabelled)
    stored = read_lines("out/dev_examples.jsonl")
    assert len(stored) == 30 and set(stored[0]) == {"context", "choices", "label"}
    facts = read_json(newest("out", "weights.json"))
    wanted = {"task": "swag", "task_type": "choice", "num_choices": 4,
              "max_seq_length": 20}  # fmt: skip
    assert wanted.items() <= facts.items()

    rows = predictions_of("labelled")
    assert results["eval_accuracy"] == accuracy_of(rows)
    assert results_of("labelled", "test_results.txt")["test_accuracy"] == accuracy_of(
        rows
    )
    for report in ("out/eval_report.txt", "labelled/test_report.txt"):
        assert "predicted: it is a" in pathlib.Path(report).read_text()
    assert not os.path.exists("out/test_results.txt")
    rows = predictions_of("own")
    assert [len(row["choices"]) for row in rows] == [
        len(row["choices"]) for row in more
    ]
    assert rows[0]["choices"][0] == f"it is {more[0]['choices'][0]}"
    assert [row["label"] for row in rows] == [row["label"] for row in more]
    assert results_of("own")["eval_accuracy"] == accuracy_of(rows)
    assert "The head is that of" in further.err


@pytest.mark.medium
def test_tables_with_tabs_have_all_choices(test_data):
    cases = test_data / "data/public_cases"
    run_well(
        MODULE,
        f"{BASE} --train_file={cases}/swag_train.tsv --do_train --do_predict "
        f"--predict_file={cases}/swag_test.tsv --train_batch_size=2",
    )
    (row,) = predictions_of("out")
    expected = "Take an umbrella.", "Water the plants.", "Sing.", "Dance."
    assert row["choices"] == [*expected]


def test_bad_input_is_refused_and_leaves_nothing_behind():
    good = '{"context": "a", "choices": ["a", "b"], "label": 0}'
    write_rows("range.jsonl", good, good.replace("0", "2"))
    write_rows("predictions.jsonl", good)
    write_rows("column.csv", "sent1,sent2,ending0,label", "a,b,c,0")
    nowhere = "--data_dir="
    cases = [
        (
            "--do_train --train_file=range.jsonl",
            "range.jsonl, line 2 has the label 2",
            "from 0 to 1",
        ),
        ("--do_train --train_file=column.csv", "no column 'ending1'"),
        (f"--do_train {nowhere}", "There is no train data. Give --data_dir"),
        (
            "--do_predict --output_dir=. --predict_file=predictions.jsonl",
            "predictions.jsonl would be replaced",
        ),
        ("", "Nothing to do"),
    ]
    assert_each_refused(MODULE, BASE, cases)
    assert pathlib.Path("predictions.jsonl").read_text() == f"{good}\n"
