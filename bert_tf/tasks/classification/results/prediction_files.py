"""Writes the predictions of a split as a stream.

The files are `test_results.tsv`, `predictions.jsonl`, and the file that a benchmark's server
accepts.
"""

import json
import logging
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bert_tf.tasks.classification.examples import TextExample
from bert_tf.tasks.classification.results.scoring import is_predicted
from bert_tf.tasks.prediction_files import (
    LineFile,
    PredictionFiles,
    check_not_replaced,
    shortest_float,
)
from bert_tf.tasks.task import Outputs, Split

if TYPE_CHECKING:
    from bert_tf.tasks.classification.results.submission import Submission

_LOGGER = logging.getLogger(__name__)
_MANY = 20  # examples, among which one expects more than one label


class ClassificationWriter(PredictionFiles):
    """A `tasks.task.PredictionWriter` of classification, regression and multi-label tasks.

    Args:
        split: The split; its suffix is the end of the file names.
        folder: The output folder.
        labels: The labels in the order of the model outputs; () for regression.
        task_type: "classification", "regression" or "multi_label".
        threshold: Probability in (0, 1) from which a multi-label task predicts a label.
        submission: The format of the file for a benchmark's server, or None. The file is written
            if the format has a file name for the split, and the split is the official test split.

    Raises:
        InputError: The file of the split is in `folder` and has the name of an output file.

    Source: google-research/bert `run_classifier.main` (test_results.tsv).
    """

    def __init__(
        self,
        split: Split,
        folder: str,
        labels: Sequence[str],
        task_type: str = "classification",
        threshold: float = 0.5,
        submission: "Submission | None" = None,
    ) -> None:
        super().__init__(folder)
        self._split, self._labels = split, tuple(labels)
        self._task_type, self._threshold, self._submission = task_type, threshold, submission
        self._count = 0
        self._predicted: Counter[str] = Counter()
        self._results_name = f"{split.with_suffix('test_results')}.tsv"
        self._readable_name = f"{split.with_suffix('predictions')}.jsonl"
        self._submission_name = self._name_of_submission()
        names = (self._results_name, self._readable_name, self._submission_name)
        check_not_replaced(split.source.name, folder, names)

    def _name_of_submission(self) -> str | None:
        """Returns the name of the file for the server; None if the file must not be written."""
        submission, split = self._submission, self._split
        name = submission.file_names.get(split.suffix) if submission else None
        if submission is None or name is None:
            return None
        if submission.is_official(split.suffix, split.source.name):
            return name
        _LOGGER.info(
            "%s is not written, because %s does not have the name of the official test split.",
            name, split.source.name,
        )  # fmt: skip
        return None

    def _open_files(self) -> None:
        self._results = self._open(self._results_name, LineFile)
        self._readable = self._open(self._readable_name, LineFile)
        name = self._submission_name
        self._submitted = self._open(name, LineFile) if name else None
        if self._submitted:
            self._submitted.add("index\tprediction")

    def add(self, example: TextExample, outputs: Sequence[Outputs]) -> None:
        """Writes the prediction for an example; `outputs` has one element."""
        (output,) = outputs
        values = output["score" if self._task_type == "regression" else "probabilities"]
        values = np.atleast_1d(values)
        self._results.add("\t".join(map(str, values)))
        prediction = self._prediction(values)
        row = _texts_and_label(example) | prediction
        others = {f"input_{n}" if n in row else n: v for n, v in example.others.items()}
        # Parquet files have values such as dates.
        self._readable.add(json.dumps({**others, **row}, ensure_ascii=False, default=str))
        if self._submission and self._submitted:
            value = prediction["score" if self._task_type == "regression" else "predicted"]
            self._submitted.add(f"{self._count}\t{self._submission.text(value)}")
        self._count += 1
        if self._task_type == "classification":
            self._predicted[prediction["predicted"]] += 1

    def _on_complete(self) -> None:
        if self._count >= _MANY and len(self._predicted) == 1:
            _LOGGER.warning(
                "warning: the model predicts %r for all %s examples of %s. Evaluate it on labelled "
                "examples before you use it.",
                *self._predicted, f"{self._count:,}", self._split.name,
            )  # fmt: skip

    def results(self) -> dict[str, float]:
        """Returns {}: metrics are computed on dev splits only."""
        return {}

    def _prediction(self, values: np.ndarray) -> dict[str, Any]:
        if self._task_type == "regression":
            return {"score": shortest_float(values[0])}
        if self._task_type == "classification":
            best = int(values.argmax())
            return {"predicted": self._labels[best], "probability": shortest_float(values[best])}
        chosen = np.flatnonzero(is_predicted(values, self._threshold))
        return {
            "predicted": [self._labels[index] for index in chosen],
            "probabilities": dict(zip(self._labels, map(shortest_float, values), strict=True)),
        }


def _texts_and_label(example: TextExample) -> dict[str, Any]:
    row: dict[str, Any] = {"text_a": example.text_a}
    if example.text_b is not None:
        row["text_b"] = example.text_b
    if example.label is not None:
        row["label"] = example.label
    return row
