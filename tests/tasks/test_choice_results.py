"""Metrics and prediction files of multiple choice, on literal examples."""

import numpy as np
import pytest
from reference import multiple_choice as reference

from bert_tf.errors import InputError
from bert_tf.tasks.choice.choice_task import ChoiceTask
from bert_tf.tasks.choice.examples import ChoiceExample
from bert_tf.tasks.choice.results import ChoiceScorer
from bert_tf.tasks.tables import FileSource
from bert_tf.tasks.task import Split


def outputs_for(logits):
    """Returns the outputs of the model for one record with room for five choices."""
    probabilities = np.zeros(5, np.float32)
    probabilities[: len(logits)] = reference.probabilities(logits)
    padded = np.full(5, -1e9, np.float32)
    padded[: len(logits)] = logits
    return [{"logits": padded, "probabilities": probabilities}]


def write(folder, examples, probabilities, path="data/test.csv"):
    with ChoiceTask(5).make_writer(Split("test", FileSource(path)), str(folder)) as writer:
        for example, values in zip(examples, probabilities, strict=True):
            padded = np.zeros(5, np.float32)
            padded[: len(values)] = values
            writer.add(example, [{"probabilities": padded}])
    assert writer.results() == {}
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
            '"predicted": 1, "choice": "c\\nd", "probability": 0.75, '
            '"probabilities": [0.25, 0.75]}\n'
            '{"context": "", "choices": ["x", "y", "z"], "predicted": 2, "choice": "z", '
            '"probability": 0.7, "probabilities": [0.1, 0.2, 0.7]}\n'
            '{"context": "tie", "choices": ["p", "q"], "label": 1, "predicted": 0, '
            '"choice": "p", "probability": 0.5, "probabilities": [0.5, 0.5]}\n'
        ),
    }


@pytest.mark.parametrize("name", ["test_results.tsv", "predictions.jsonl"])
def test_predictions_do_not_replace_the_file_that_is_predicted(tmp_path, name):
    path = tmp_path / name
    path.write_text("text")
    with pytest.raises(InputError, match=f"would be replaced, because {name} is the name "):
        write(tmp_path, [], [], str(path))
    assert path.read_text() == "text" and len(list(tmp_path.iterdir())) == 1


def test_accuracy_and_loss_are_those_of_numpy():
    rng = np.random.default_rng(0)
    scorer, rows, labels = ChoiceScorer(), [], []
    for number in range(100):
        logits = 3 * rng.normal(size=2 + number % 4)
        label = int(rng.integers(len(logits)))
        choices = tuple(f"choice {index}" for index in range(len(logits)))
        example = ChoiceExample(f"context {number}", choices, label)
        scorer.add(example, outputs_for(logits))
        rows.append(logits)
        labels.append(label)
    loss, accuracy = reference.loss_and_accuracy(rows, labels)
    assert scorer.results() == pytest.approx({"accuracy": accuracy, "loss": loss}, rel=1e-5)
    report = scorer.report()
    assert report.count("predicted:") == 10 and "context 9\n" in report
    assert f"predicted: choice {rows[0].argmax()}\ncorrect:   choice {labels[0]}\n" in report


def test_examples_without_label_are_ignored():
    scorer = ChoiceScorer()
    scorer.add(ChoiceExample("c", ("a", "b")), outputs_for([1.0, 0.0]))
    assert scorer.results() == {} and scorer.report() == ""
    scorer.add(ChoiceExample("c", ("a", "b"), 1), outputs_for([0.0, 0.0]))
    assert scorer.results() == {"accuracy": 0.0, "loss": pytest.approx(np.log(2))}
    assert scorer.report().startswith("accuracy 0.0000; 1.0000 if the choice at the most frequent ")


def test_the_baseline_is_the_share_of_the_most_frequent_position():
    scorer = ChoiceScorer()
    assert scorer.baseline() == {}
    for label in (2, 0, 2):
        scorer.add(ChoiceExample("c", ("a", "b", "c"), label), outputs_for([0.0, 1.0, 0.0]))
    assert scorer.baseline() == {"accuracy": 2 / 3}
