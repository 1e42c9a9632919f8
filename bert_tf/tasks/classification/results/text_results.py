"""`TextResults`: the parts of the results that all task types of texts share.

SciPy and scikit-learn are imported inside functions, because the programs show their
help without them.
"""

import json
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.tasks.classification.results.submission import HEADER, Submission
from bert_tf.tasks.classification.text_examples import TextExample
from bert_tf.tasks.results import Outputs, TaskResults, with_prediction
from bert_tf.tasks.splits import Split
from bert_tf.tasks.text_tables import shortened

_LOGGER = logging.getLogger(__name__)
# The number of examples that are scored in one NumPy call.
_BLOCK = 4096
_SHOWN_LABELS = 1000


class TextResults(TaskResults):
    """The metrics of texts with labels or scores, and the files with the predictions.

    A line of `predictions.jsonl` has the columns of the file, or at least those of the
    texts and of the label, and then the prediction.

    Counts are kept instead of examples where possible, so that a split of any size fits
    in memory. Metrics without a definition for the given examples, such as the
    correlation with constant predictions, are 0.

    The files are `test_results.tsv`, `predictions.jsonl`, and the file for a
    benchmark's server, if the format has a name for the split.

    Args:
        labels: The labels in the order of the model outputs; () for regression.
        metric_names: The metrics in addition to the loss, and to the accuracy of a
            classification task.
        threshold: Probability in (0, 1) from which a multi-label task predicts a label.
        split: The split, whose suffix is the end of the file names; None if no file is
            written.
        submission: The format of the file for a benchmark's server, or None.

    Source: google-research/bert `run_classifier.main` (test_results.tsv).
    """

    scores_predictions = True
    # The name of the output that test_results.tsv contains.
    output = "probabilities"

    def __init__(
        self,
        labels: Sequence[str] = (),
        metric_names: Sequence[str] = (),
        threshold: float = 0.5,
        split: Split | None = None,
        submission: Submission | None = None,
    ) -> None:
        super().__init__()
        self._names, self._metric_names = tuple(labels), tuple(metric_names)
        self._index = {label: number for number, label in enumerate(labels)}
        self._threshold, self._split, self._submission = threshold, split, submission
        self._block: list[tuple[Any, Outputs]] = []
        self._loss = 0.0

    @property
    def file_names(self) -> list[str]:  # type: ignore[override]
        """The names of the files with predictions."""
        assert self._split is not None
        with_suffix, submission = self._split.with_suffix, self._submission
        names = [
            f"{with_suffix('test_results')}.tsv",
            f"{with_suffix('predictions')}.jsonl",
        ]
        name = submission.file_names.get(self._split.suffix) if submission else None
        return [*names, name] if name else names

    def decode(self, example: TextExample, outputs: Sequence[Outputs]) -> Outputs:
        """Returns the mean of the outputs for the windows of a text; see `LongTexts`.

        The logits are those of the mean probabilities, or the mean score, so that the
        loss is that of the averaged prediction.
        """
        if len(outputs) == 1:
            return outputs[0]
        of_windows = {
            name: np.stack([each[name] for each in outputs]) for name in outputs[0]
        }
        means = {name: values.mean(axis=0) for name, values in of_windows.items()}
        return {
            **means,
            "logits": self._mean_logits(of_windows["logits"].astype(np.float64)),
        }

    def _mean_logits(self, logits: np.ndarray) -> np.ndarray:
        """Returns the logits [C] of the mean prediction of windows with the logits [W, C]."""
        mean: np.ndarray = logits.mean(axis=0)
        return mean

    def score(self, example: TextExample, prediction: Outputs) -> None:
        """Adds an example to the metrics; one without a label is ignored."""
        if example.label is not None:
            self._count += 1
            self._block.append((example.label, prediction))
            if len(self._block) >= _BLOCK:
                self._flush()

    def _flush(self) -> None:
        if self._block:
            labels = [label for label, _ in self._block]
            names = [
                name
                for name in ("logits", "probabilities")
                if name in self._block[0][1]
            ]
            stacked = {
                name: np.stack([each[name] for _, each in self._block])
                for name in names
            }
            self._loss += float(
                self._add(labels, stacked["logits"].astype(np.float64), stacked)
            )
            self._block = []

    def _add(
        self, labels: Sequence[Any], logits: np.ndarray, outputs: Outputs
    ) -> float:
        """Adds a block of N examples; returns the sum of its losses.

        Args:
            labels: The labels.
            logits: float64 [N, C].
            outputs: float32 [N, C] each, `logits` and `probabilities`.
        """
        raise NotImplementedError

    def metrics(self) -> dict[str, float]:
        """Returns the loss and the metrics of all examples; {} if no example has a label."""
        self._flush()
        if not self._count:
            return {}
        return {"loss": self._loss / self._count, **_as_floats(self._metrics)}

    def baseline(self) -> dict[str, float]:
        """Returns the metrics if the most frequent label is always predicted."""
        self._flush()
        return _as_floats(self._constant_metrics)

    def _metrics(self) -> Mapping[str, float]:
        """Returns the metrics except the loss."""
        raise NotImplementedError

    def _constant_metrics(self) -> Mapping[str, float]:
        raise NotImplementedError

    def lines(self, example: TextExample, prediction: Outputs) -> list[str]:
        """Returns the lines of an example, with the one for the server if there is a format."""
        values = np.atleast_1d(prediction[self.output])
        predicted = self._as_json(values)
        row = with_prediction(example.file_row(), predicted)
        # Parquet files have values such as dates.
        text = json.dumps(row, ensure_ascii=False, default=str)
        lines = ["\t".join(map(str, values)), text]
        if self._submission:
            value = self._submission.text(next(iter(predicted.values())))
            header = "" if self._num_lines else "\t".join(HEADER) + "\n"
            lines.append(f"{header}{self._num_lines}\t{value}")
        return [f"{line}\n" for line in lines]

    def _as_json(self, values: np.ndarray) -> dict[str, Any]:
        """Returns the prediction first, then its probability or those of all labels."""
        raise NotImplementedError

    def complete(self, folder: str) -> None:
        """Logs the order of the columns of test_results.tsv, which has no header."""
        if self._names:
            _LOGGER.info(
                "%s has a column for each label, in this order: %s.",
                self.file_names[0],
                shortened(self._names, _SHOWN_LABELS),
            )


def _as_floats(metrics: Callable[[], Mapping[str, float]]) -> dict[str, float]:
    with warnings.catch_warnings():
        # scikit-learn and SciPy warn about metrics without a definition; see
        # `TextResults`.
        warnings.simplefilter("ignore")
        return {name: float(value) for name, value in metrics().items()}
