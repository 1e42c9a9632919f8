"""Metrics and prediction files of multiple choice, on literal examples."""

import numpy as np
import pytest
from reference import multiple_choice as reference

from bert_tf.tasks.choice.choice_examples import ChoiceExample
from bert_tf.tasks.choice.choice_task import ChoiceResults, ChoiceTask
from bert_tf.tasks.splits import FileSource, Split


def outputs_for(logits):
    """Returns the outputs of the model for one record with room for five choices."""
    probabilities = np.zeros(5, np.float32)
    probabilities[: len(logits)] = reference.probabilities(logits)
    padded = np.full(5, -1e9, np.float32)
    padded[: len(logits)] = logits
    return {"logits": padded, "probabilities": probabilities}


def write(folder, examples, probabilities):
    padded = np.zeros([len(examples), 5], np.float32)
    for row, values in zip(padded, probabilities, strict=True):
        row[: len(values)] = values
    results = ChoiceTask(5).make_results(Split("test", FileSource("data/test.csv")))
    outputs = ({"probabilities": row, "logits": row} for row in padded)
    results.write(str(folder), zip(examples, outputs, strict=True))
    assert results.metrics()["accuracy"] == 0  # of the two examples with a label
    return {path.name: path.read_bytes().decode() for path in folder.iterdir()}


def test_files_have_one_line_per_example(tmp_path):
    examples = [
        ChoiceExample('say "é"', ("a\tb", "c\nd"), 0),
        ChoiceExample("", ("x", "y", "z")),
        ChoiceExample("tie", ("p", "q"), 1),
    ]
    found = write(tmp_path, examples, [[0.25, 0.75], [0.1, 0.2, 0.7], [0.5, 0.5]])
    assert found == {
        "test_results.tsv": "0.25\t0.75\n0.1\t0.2\t0.7\n0.5\t0.5\n",
        "predictions.jsonl": (
            '{"context": "say \\"é\\"", "choices": ["a\\tb", "c\\nd"], "label": 0, '
            '"predicted": 1, "choice": "c\\nd", "probability": 0.75, "probabilities": '
            '[0.25, 0.75]}\n{"context": "", "choices": ["x", "y", "z"], "predicted": '
            '2, "choice": "z", "probability": 0.7, "probabilities": [0.1, 0.2, 0.7]}\n'
            '{"context": "tie", "choices": ["p", "q"], "label": 1, "predicted": 0, '
            '"choice": "p", "probability": 0.5, "probabilities": [0.5, 0.5]}\n'
        ),
    }


def test_accuracy_and_loss_are_those_of_numpy():
    rng = np.random.default_rng(0)
    scorer, rows, labels = ChoiceResults(), [], []
    for number in range(100):
        logits = 3 * rng.normal(size=2 + number % 4)
        label = int(rng.integers(len(logits)))
        choices = tuple(f"choice {index}" for index in range(len(logits)))
        example = ChoiceExample(f"context {number}", choices, label)
        scorer.score(example, outputs_for(logits))
        rows.append(logits)
        labels.append(label)
    loss, accuracy = reference.loss_and_accuracy(rows, labels)
    assert scorer.metrics() == pytest.approx(
        {"accuracy": accuracy, "loss": loss}, rel=1e-5
    )
    report = scorer.report()
    assert report.count("predicted:") == 10 and "context 9\n" in report
    assert (
        f"predicted: choice {rows[0].argmax()}\ncorrect:   choice {labels[0]}\n"
        in report
    )


def test_examples_without_label_are_ignored():
    scorer = ChoiceResults()
    scorer.score(ChoiceExample("c", ("a", "b")), outputs_for([1.0, 0.0]))
    assert scorer.metrics() == {}
    scorer.score(ChoiceExample("c", ("a", "b"), 1), outputs_for([0.0, 0.0]))
    assert scorer.metrics() == {"accuracy": 0.0, "loss": pytest.approx(np.log(2))}
    assert scorer.report().startswith(
        "accuracy 0.0000; 1.0000 if the choice at the most frequent "
    )


def test_the_baseline_is_the_share_of_the_most_frequent_position():
    scorer = ChoiceResults()
    for label in (2, 0, 2):
        scorer.score(
            ChoiceExample("c", ("a", "b", "c"), label), outputs_for([0.0, 1.0, 0.0])
        )
    assert scorer.baseline() == {"accuracy": 2 / 3}
