"""The files with predictions, compared byte by byte with hand-written ones."""

import numpy as np

from bert_tf.tasks.classification.classification_results import RESULTS_BY_TYPE
from bert_tf.tasks.classification.submission import Submission
from bert_tf.tasks.classification.text_examples import TextExample
from bert_tf.tasks.splits import FileSource, Split


def write(
    folder,
    examples,
    outputs,
    labels=(),
    task_type="classification",
    suffix="",
    submission=None,
):
    split = Split("test", FileSource("test.tsv"), suffix)
    predictions = [
        {name: np.array(value, np.float32) for name, value in values.items()}
        for values in outputs
    ]
    for each in predictions:  # they determine only the loss
        each["logits"] = np.atleast_1d(next(iter(each.values())))
    results = RESULTS_BY_TYPE[task_type](labels, split=split, submission=submission)
    results.write(str(folder), zip(examples, predictions, strict=True))
    return {path.name: path.read_bytes().decode() for path in folder.iterdir()}


def test_classification(tmp_path):
    examples = [
        TextExample('say "é"', "two\tthree", "no"),
        TextExample("line\nbreak", "", None),
    ]
    outputs = [{"probabilities": [0.25, 0.75]}, {"probabilities": [0.9, 0.1]}]
    found = write(tmp_path, examples, outputs, ("no", "yes"))
    assert found == {
        "test_results.tsv": "0.25\t0.75\n0.9\t0.1\n",
        "predictions.jsonl": (
            '{"text_a": "say \\"é\\"", "text_b": "two\\tthree", "label": "no", '
            '"predicted": "yes", "probability": 0.75}\n{"text_a": "line\\nbreak", '
            '"text_b": "", "predicted": "no", "probability": 0.9}\n'
        ),
    }


def test_the_columns_of_the_file_keep_their_names_and_values(tmp_path, caplog):
    columns = ("review", None, "stars")
    rows = [
        {"id": "7", "review": "a", "stars": " 2 "},
        {"id": "8", "review": "b", "stars": "?"},
    ]
    examples = [
        TextExample("a", None, "2", columns, rows[0]),
        TextExample("b", None, None, columns, rows[1]),
    ]
    outputs = [{"probabilities": [0.25, 0.5, 0.25]}, {"probabilities": [0.0, 0.0, 1.0]}]
    with caplog.at_level("INFO", "bert_tf"):
        found = write(tmp_path, examples, outputs, ("1", "2", "10"))
    assert found["predictions.jsonl"] == (
        '{"id": "7", "review": "a", "stars": "2", "predicted": "2", "probability": '
        '0.5}\n{"id": "8", "review": "b", "stars": "?", "predicted": "10", '
        '"probability": 1.0}\n'
    )
    columns, metrics = (
        record.getMessage()
        for record in sorted(caplog.records, key=lambda each: each.levelno)
    )
    assert (
        columns
        == "test_results.tsv has a column for each label, in this order: 1, 2, 10."
    )
    assert metrics.startswith("warning: the metrics are those of 1 of 2 examples.")


def test_a_column_of_the_name_of_a_prediction_keeps_its_value(tmp_path):
    example = TextExample(
        "a", "b", 4.5, ("text_a", "text_b", "score"), {"score": "4.50"}
    )
    found = write(tmp_path, [example], [{"score": 4.25}], (), "regression")
    assert found["predictions.jsonl"] == (
        '{"score": 4.5, "text_a": "a", "text_b": "b", "predicted_score": 4.25}\n'
    )


def test_equal_predictions_are_reported(tmp_path, caplog):
    examples, first = [TextExample("a", None, None)] * 20, {"probabilities": [0.9, 0.1]}
    write(tmp_path, examples[1:], [first] * 19, ("no", "yes"))
    write(
        tmp_path,
        examples,
        [first] * 19 + [{"probabilities": [0.1, 0.9]}],
        ("no", "yes"),
    )
    assert not caplog.records
    write(tmp_path, examples, [first] * 20, ("no", "yes"))
    (record,) = caplog.records
    assert "the model predicts 'no' for all 20 examples of test" in record.getMessage()


def test_multi_label(tmp_path):
    examples = [TextExample("a", None, ("x", "z")), TextExample("b", None, ())]
    outputs = [{"probabilities": [0.5, 0.25, 0.75]}, {"probabilities": [0.1, 0.2, 0.4]}]
    found = write(tmp_path, examples, outputs, ("x", "y", "z"), "multi_label")
    assert found == {
        "test_results.tsv": "0.5\t0.25\t0.75\n0.1\t0.2\t0.4\n",
        "predictions.jsonl": (
            '{"text_a": "a", "label": ["x", "z"], "predicted": ["x", "z"], '
            '"probabilities": {"x": 0.5, "y": 0.25, "z": 0.75}}\n'
            '{"text_a": "b", "label": [], "predicted": [], '
            '"probabilities": {"x": 0.1, "y": 0.2, "z": 0.4}}\n'
        ),
    }


def test_regression_and_its_submission(tmp_path):
    examples = [
        TextExample("a", "b", 4.5),
        TextExample("c", "d"),
        TextExample("e", "f"),
    ]
    outputs = [{"score": 4.25}, {"score": -0.5}, {"score": 5.1}]
    submission = Submission({"": "STS-B.tsv"}, (0.0, 5.0))
    found = write(tmp_path, examples, outputs, (), "regression", submission=submission)
    assert found == {
        "test_results.tsv": "4.25\n-0.5\n5.1\n",
        "predictions.jsonl": (
            '{"text_a": "a", "text_b": "b", "label": 4.5, "score": 4.25}\n'
            '{"text_a": "c", "text_b": "d", "score": -0.5}\n'
            '{"text_a": "e", "text_b": "f", "score": 5.1}\n'
        ),
        "STS-B.tsv": "index\tprediction\n0\t4.250\n1\t0.000\n2\t5.000\n",
    }


def test_no_submission_file_for_another_split(tmp_path):
    submission = Submission({"": "CoLA.tsv"})
    found = write(tmp_path, [], [], ("0", "1"), suffix="ax", submission=submission)
    assert found == {"test_results_ax.tsv": "", "predictions_ax.jsonl": ""}


def test_numbers_have_the_digits_of_float32(tmp_path):
    outputs = [{"probabilities": [1 / 3, 2 / 3]}, {"probabilities": [1e-7, 1 - 1e-7]}]
    examples = [TextExample("a"), TextExample("b")]
    found = write(tmp_path, examples, outputs, ("x", "y"))
    assert found["test_results.tsv"] == "0.33333334\t0.6666667\n1e-07\t0.9999999\n"
    assert '"probability": 0.6666667}' in found["predictions.jsonl"]
