"""The task in CONTRIBUTING.md, not a part of bert-tf, trains, evaluates, predicts."""

import logging
import pathlib

import numpy as np
import pytest
from guide_program import program, write_checkpoints
from refusals import refused
from run_programs import read_lines
from tables_of_rows import write_rows

import bert_tf
from bert_tf.export.served.loading import load_served
from bert_tf.tasks.task import LABEL_WEIGHTS

DOCUMENT = pathlib.Path(__file__).parents[2] / "CONTRIBUTING.md"
# The share of the annotators who accept a text depends on one word.
SHARES = {"good": 0.9, "long": 0.5, "old": 0.1}


def rows(count, seed):
    rng = np.random.default_rng(seed)
    for word in rng.choice(list(SHARES), count).tolist():
        share = SHARES[word]
        yield {"text": f"a {word} film", "shares": [share, round(1 - share, 2)]}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_checkpoints(tmp_path)
    (tmp_path / "disputed").mkdir()
    for seed, (name, count) in enumerate({"train": 64, "dev": 24, "test": 6}.items()):
        write_rows(tmp_path / f"disputed/{name}.jsonl", rows(count, seed))
    return tmp_path


def test_the_task_learns_the_shares(folder, caplog):
    code = compile(program(DOCUMENT, "Adding a task"), "CONTRIBUTING.md", "exec")
    names = {"__name__": "disputed"}
    exec(code, names)
    results = names["results"]
    targets = np.array([row["shares"] for row in rows(24, 1)])
    lowest = -np.sum(
        targets * np.log(targets), axis=1
    ).mean()  # the entropy of the shares
    mean = targets.mean(axis=0)
    assert results["eval_cross_entropy_baseline"] == pytest.approx(
        -np.sum(mean * np.log(mean))
    )
    assert lowest <= results["eval_cross_entropy"] < lowest + 0.05
    lines = read_lines(folder / "runs/disputed/predictions.jsonl")
    for line, row in zip(lines, rows(6, 2), strict=True):
        assert line == {**row, "shares": pytest.approx(row["shares"], abs=0.2)}
    # Examples without labels have no part in the loss of the labels.
    batch = {"shares": targets[:1], LABEL_WEIGHTS: np.zeros(1)}
    sums = names["SharesObjective"].sums_of_outputs(
        None, {"logits": np.ones([1, 2])}, batch
    )
    assert sums["loss"] == 0
    # The same call again finds the finished run.
    with caplog.at_level(logging.INFO):
        exec(code, names)
    assert names["results"] == results
    trained = bert_tf.load("runs/disputed")
    assert trained.facts["labels"] == ["acceptable", "unacceptable"]
    with refused(r"must be one of .* Received: 'shares'"):
        load_served(trained)  # not as a classifier, whose head it has
