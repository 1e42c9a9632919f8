"""run_swag.py: training, metrics, predictions, and refused input."""

import csv
import json

import numpy as np
import pytest
from run_programs import (
    assert_each_refused,
    commands,
    newest,
    read_lines,
    results_of,
    run_main,
)
from tiny_bert import SPECIAL, write_architecture

MODULE = "bert_tf.run_scripts.run_swag"
WORDS = ["good", "bad", "film", "plot", "it", "is", "a", "long", ".", ","]
VOCABULARY = [*SPECIAL, *WORDS]
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
        writer.writerow([*COLUMNS, *(["label"] if with_label else [])])
        for number, (context, choices, label) in enumerate(examples(count, seed)):
            row = [
                number,
                "v",
                number,
                f"{context} it is",
                context,
                "it is",
                "gold",
                *choices,
            ]
            writer.writerow([*row, *([label] if with_label else [])])


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def rows_of(count, seed, sizes):
    return [
        {"context": context, "sent2": "it is", "choices": choices, "label": label}
        for context, choices, label in examples(count, seed, sizes)
    ]


@pytest.fixture
def folder(tmp_path):
    write_architecture(
        tmp_path, VOCABULARY, 16, max_position_embeddings=24, hidden_dropout_prob=0
    )
    write_csv(tmp_path / "train.csv", 160, seed=0)
    write_csv(tmp_path / "val.csv", 30, seed=1)
    write_csv(tmp_path / "test.csv", 20, seed=2, with_label=False)
    return tmp_path


command = commands(
    max_seq_length=20, train_batch_size=8, num_train_epochs=1, learning_rate=5e-3
)


def predictions_of(folder):
    """Returns the rows of predictions.jsonl; compares them with test_results.tsv."""
    rows = read_lines(folder / "predictions.jsonl")
    lines = (folder / "test_results.tsv").read_text().splitlines()
    for row, line in zip(rows, lines, strict=True):
        probabilities = [float(text) for text in line.split("\t")]
        assert row["probabilities"] == probabilities and len(row["choices"]) == len(
            probabilities
        )
        assert sum(probabilities) == pytest.approx(1, abs=1e-5)
        assert row["predicted"] == int(np.argmax(probabilities))
        assert row["choice"] == row["choices"][row["predicted"]]
        assert row["probability"] == max(probabilities)
    return rows


def test_a_run_learns_and_predicts(folder):
    out, own = folder / "out", folder / "own"
    more = rows_of(20, seed=3, sizes=range(2, 8))
    write_rows(folder / "more.jsonl", more)
    everything = {
        "do_train": True,
        "do_eval": True,
        "do_predict": True,
        "num_train_epochs": 10,
    }
    trained, labelled, several, further = run_main(
        MODULE,
        command(folder, **everything, eval_steps=100),
        [
            f"--output_dir={folder}/labelled",
            f"--init_checkpoint={out}",
            "--do_predict",
            f"--predict_file={folder}/val.csv",
        ],
        # The run gives the model, the vocabulary and the length; the number of choices
        # differs.
        [
            f"--output_dir={own}",
            f"--init_checkpoint={out}",
            "--do_predict",
            "--do_eval",
            f"--predict_file={folder}/more.jsonl",
            f"--dev_file={folder}/more.jsonl",
        ],
        command(
            folder, do_train=True, init_checkpoint=out, output_dir=folder / "further"
        ),
    )
    assert trained.code == 0, trained
    results = results_of(out)
    assert set(results) == {
        "eval_accuracy", "eval_accuracy_baseline", "eval_loss", "loss", "global_step",
    }  # fmt: skip
    assert results["eval_accuracy"] > 0.8 and results["global_step"] == 200
    assert "predicted: it is a" in (out / "eval_report.txt").read_text()
    unlabelled = predictions_of(out)
    assert len(unlabelled) == 20 and not any("label" in row for row in unlabelled)
    stored = read_lines(out / "dev_examples.jsonl")
    assert len(stored) == 30 and set(stored[0]) == {"context", "choices", "label"}
    facts = json.loads(newest(out, "weights.json").read_text())
    wanted = {
        "task": "swag",
        "task_type": "choice",
        "num_choices": 4,
        "max_seq_length": 20,
    }
    assert {name: facts[name] for name in wanted} == wanted

    assert labelled.code == 0, labelled
    rows = predictions_of(folder / "labelled")
    assert np.mean([row["predicted"] == row["label"] for row in rows]) == pytest.approx(
        results["eval_accuracy"]
    )
    scores = results_of(folder / "labelled", "test_results.txt")
    assert scores["test_accuracy"] == pytest.approx(results["eval_accuracy"])
    assert "predicted: it is a" in (folder / "labelled/test_report.txt").read_text()
    assert not (out / "test_results.txt").exists()
    assert several.code == 0, several
    rows = predictions_of(own)
    assert [len(row["choices"]) for row in rows] == [
        len(row["choices"]) for row in more
    ]
    assert rows[0]["choices"][0] == f"it is {more[0]['choices'][0]}"
    assert [row["label"] for row in rows] == [row["label"] for row in more]
    accuracy = np.mean([row["predicted"] == row["label"] for row in rows])
    assert results_of(own)["eval_accuracy"] == pytest.approx(accuracy)
    assert further.code == 0 and "The head is that of" in further.err, further


def test_tables_with_tabs_have_all_choices(folder, test_data):
    cases = test_data / "data/public_cases"
    flags = {
        "train_file": cases / "swag_train.tsv",
        "predict_file": cases / "swag_test.tsv",
    }
    (run,) = run_main(
        MODULE,
        command(folder, **flags, do_train=True, do_predict=True, train_batch_size=2),
    )
    assert run.code == 0, run.err
    (row,) = predictions_of(folder / "out")
    assert row["choices"] == [
        "Take an umbrella.",
        "Water the plants.",
        "Sing.",
        "Dance.",
    ]


def test_bad_input_is_refused_and_leaves_nothing_behind(folder):
    good = {"context": "a", "choices": ["a", "b"], "label": 0}
    write_rows(folder / "range.jsonl", [good, {**good, "label": 2}])
    write_rows(folder / "predictions.jsonl", [good])
    (folder / "column.csv").write_text("sent1,sent2,ending0,label\na,b,c,0\n")
    train, predict = {"do_train": True}, {"do_predict": True}
    cases = [
        (
            {**train, "train_file": folder / "range.jsonl"},
            "range.jsonl, line 2 has the label 2",
            "from 0 to 1",
        ),
        ({**train, "train_file": folder / "column.csv"}, "no column 'ending1'"),
        ({**train, "data_dir": None}, "There is no train data. Give --data_dir"),
        (
            {
                **predict,
                "output_dir": folder,
                "predict_file": folder / "predictions.jsonl",
            },
            "predictions.jsonl would be replaced",
        ),
        ({}, "Nothing to do"),
    ]
    assert_each_refused(MODULE, command, folder, cases)
    assert json.loads((folder / "predictions.jsonl").read_text()) == good
