"""Scores, reports and prediction files of sentences, from given predictions."""

import json
import logging

import numpy as np
import pytest
from ner_data import make_task, outputs_of, random_tags, read
from reading import write
from reference import conlleval as reference
from refusals import refused

from bert_tf.tasks.ner import schemes
from bert_tf.tasks.task import DataLocation

NAMES = ("precision", "recall", "f1")


def split_of(task, path, kind):
    return task.splits(kind, DataLocation(**{f"{kind}_file": str(path)}))[0]


def with_outputs(task, path, kind, predictions):
    """Returns the examples of a file with outputs that have the given tags."""
    examples, _ = read(task, path, kind)
    encoded = task.encode(examples, task.tokenizer, 9)
    indices = [task.labels.index(tag) for tag in predictions]
    outputs = outputs_of(encoded.columns, encoded.records_per_example, indices)
    return list(zip(examples, outputs, strict=True))


def score(task, path, predictions, kind="dev"):
    results = task.make_results(split_of(task, path, kind))
    for example, outputs in with_outputs(task, path, kind, predictions):
        results.score(example, results.decode(example, outputs))
    return results


def predict(task, path, folder, predictions):
    results = task.make_results(split_of(task, path, "test"))
    pairs = with_outputs(task, path, "test", predictions)
    results.write(
        str(folder), ((each, results.decode(each, outputs)) for each, outputs in pairs)
    )
    return results


def random_file(path, scheme, separator):
    """Writes a file of random sentences in a scheme; returns their words and tags."""
    rng, lines, tags = np.random.default_rng(1), [], []
    for _ in range(60):
        length = int(rng.integers(1, 20))
        found = random_tags(rng, length, scheme)
        words = rng.choice(["a", "b", "cats", "unable", "\ufe0f", "#"], length)
        lines += [
            separator.join([word, "x", tag])
            for word, tag in zip(words, found, strict=True)
        ]
        lines.append("")
        tags += found
    write(path, "\n".join(lines))
    return tags


def random_predictions(task, tags):
    """Returns labels of a task, of which half are converted from the given tags."""
    rng = np.random.default_rng(2)
    correct = schemes.convert(tags, task.scheme)
    return [
        tag
        if rng.random() < 0.6 and tag in task.labels
        else str(rng.choice(task.labels))
        for tag in correct
    ]


@pytest.mark.parametrize("file_scheme", ["iob1", "iob2", "iobes"])
@pytest.mark.parametrize("scheme", schemes.SCHEMES)
@pytest.mark.parametrize("separator", ["\t", " "])
def test_the_scores_are_those_of_conlleval_for_the_written_file(
    tmp_path, scheme, file_scheme, separator
):
    path, folder = tmp_path / "dev.conll", tmp_path / "out"
    tags = random_file(path, file_scheme, separator)
    labels = schemes.all_tags(["PER", "LOC", "creative-work"], scheme)
    task = make_task(labels, scheme=scheme)
    predictions = random_predictions(task, tags)
    results = score(task, path, predictions).metrics()
    writer = predict(task, path, folder, predictions)
    assert writer.metrics() == results
    counts = reference.of_file(folder / "predictions.conll", separator)
    expected = reference.overall(counts)
    assert [results[name] for name in NAMES] == pytest.approx(expected)
    assert results["accuracy"] == pytest.approx(100 * counts.equal_tags / counts.words)
    assert 0 < results["f1"] < 100
    report = writer.report()
    for kind in ("PER", "LOC", "creative-work"):
        scores = reference.scores(
            counts.common[kind], counts.predicted[kind], counts.correct[kind]
        )
        cells = [kind, *(f"{value:.2f}" for value in scores), str(counts.correct[kind])]
        assert [*cells, str(counts.predicted[kind])] in [
            line.split() for line in report.splitlines()
        ]


def test_files_without_tags_have_no_scores(tmp_path):
    path = write(tmp_path / "a.txt", "Ann\nleft\n\nRome\n")
    writer = predict(make_task(), path, tmp_path / "out", ["B-PER", "O", "I-LOC"])
    assert writer.metrics() == {}
    (written,) = (tmp_path / "out").iterdir()
    assert written.read_text() == "Ann\tB-PER\nleft\tO\n\nRome\tB-LOC\n"
    assert score(make_task(), path, ["O"] * 3, "test").metrics() == {}


def test_f1_is_undefined_without_an_entity(tmp_path):
    path = write(tmp_path / "a.txt", "Ann\tO\nleft\tO\n")
    found = score(make_task(), path, ["B-PER", "O"])
    assert found.metrics()["f1"] == 0 and found.undefined("f1") == "no entity"
    path = write(tmp_path / "b.txt", "Ann\tB-PER\nleft\tO\n")
    assert score(make_task(), path, ["O", "O"]).undefined("f1") == ""


def test_json_lines(tmp_path):
    rows = [
        {"id": 1, "tokens": ["Ann", "left"], "tags": ["B-PER", "O"]},
        {"text": "in Rome.", "entities": [{"start": 3, "end": 7, "label": "LOC"}]},
    ]
    path = write(tmp_path / "a.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
    tags = ["B-PER", "O", "O", "B-PER", "I-PER"]
    writer = predict(make_task(), path, tmp_path / "out", tags)
    lines = (tmp_path / "out/predictions.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {**rows[0], "predicted": ["B-PER", "O"]},
        {**rows[1], "predicted": [{"start": 3, "end": 8, "label": "PER"}]},
    ]
    assert writer.metrics()["f1"] == pytest.approx(50)


def test_types_that_the_model_does_not_know_count_and_are_reported(tmp_path, caplog):
    path = write(tmp_path / "a.conll", "a B-NEW\nb O\nc B-PER\n\nd B-OTHER\n")
    scorer = score(make_task(), path, ["O", "O", "B-PER", "O"])
    with caplog.at_level(logging.WARNING):
        results = scorer.metrics()
    assert results["precision"] == 100 and results["recall"] == pytest.approx(100 / 3)
    assert (
        "2 entities, because their types are not in the train split: NEW, OTHER"
        in caplog.text
    )
    lines = scorer.report().splitlines()
    assert any(line.startswith("NEW (not in the train split)") for line in lines)


def test_the_report_has_scores_by_type_and_samples(tmp_path):
    path = write(tmp_path / "a.conll", "Ann I-PER\nLee I-PER\nsaw O\nRome I-LOC\n")
    scorer = score(make_task(), path, ["B-PER", "B-PER", "O", "B-LOC"])
    assert scorer.report().split("\n") == [
        "type  precision  recall      f1  entities  predicted",
        "LOC      100.00  100.00  100.00         1          1",
        "PER        0.00    0.00    0.00         1          2",
        "all       33.33   50.00   40.00         2          3",
        "",
        "predicted: [PER Ann] [PER Lee] saw [LOC Rome]",
        "correct:   [PER Ann Lee] saw [LOC Rome]",
        "",
    ]


def test_scores_are_those_of_the_entities_that_a_file_without_prefixes_can_have(
    tmp_path,
):
    path = write(tmp_path / "a.conll", "a PER\nb PER\nc O\n")
    for options in ({}, {"input_scheme": "iob2"}):
        task = make_task(**options)
        results = predict(task, path, tmp_path / "out", ["B-PER", "B-PER", "O"])
        written = (tmp_path / "out/predictions.conll").read_text()
        assert written == "a PER PER\nb PER PER\nc O O\n"
        assert results.metrics()["f1"] == 100


def test_a_given_scheme_is_that_of_the_predictions(tmp_path):
    path = write(tmp_path / "a.conll", "a I-PER\nb O\n")
    task = make_task(input_scheme="iobes")
    with refused("scheme must be one of"):
        make_task(scheme="bioes")
    predict(task, path, tmp_path / "out", ["B-PER", "I-PER"])
    written = (tmp_path / "out/predictions.conll").read_text()
    assert written == "a I-PER B-PER\nb O E-PER\n"
