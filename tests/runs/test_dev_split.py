"""results.json: the value, the baseline, and whether a run is degenerate."""

import math

import pytest
from json_files import read_json

from bert_tf.runs import dev_split
from bert_tf.runs.dev_split import DevResult


@pytest.mark.parametrize(
    ("higher_is_better", "value", "baseline", "expected"),
    [
        (True, 0.7, 0.6, False), (True, 0.6, 0.6, True), (True, 0.5, 0.6, True),
        (False, 0.7, 0.6, True), (False, 0.5, 0.6, False), (True, math.nan, 0.6, True),
        (True, 0.0, None, False),
    ],
)  # fmt: skip
def test_a_degenerate_run_is_not_better_than_the_baseline(
    higher_is_better, value, baseline, expected
):
    result = DevResult("mrpc", "eval_accuracy", higher_is_better, value, baseline, {})
    assert result.is_degenerate == expected


def test_the_file_contains_the_metric_of_the_task(tmp_path):
    assert dev_split.read_result(str(tmp_path)) is None
    results = {
        "eval_matthews_correlation": 0.5,
        "eval_accuracy": 0.8,
        "eval_loss": math.inf,
    }
    name = "eval_matthews_correlation"
    DevResult("cola", name, True, 0.5, 0.0, results).write(str(tmp_path))
    assert read_json(tmp_path / "results.json") == {
        "task": "cola", "metric": "eval_matthews_correlation", "higher_is_better": True,
        "value": 0.5, "baseline": 0.0, "results": {**results, "eval_loss": None},
    }  # fmt: skip
    assert not dev_split.read_result(str(tmp_path)).is_degenerate
