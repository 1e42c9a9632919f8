"""`TaskResults`: the metrics, the report and the predictions of a split."""

import contextlib
import heapq
import json
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.storage import files
from bert_tf.tasks.tables import Row

_LOGGER = logging.getLogger(__name__)
_MAX_SAMPLES = 10
_MAX_ERRORS = 200
# The outputs of the model for one record, by name; without the batch dimension.
Outputs = Mapping[str, np.ndarray]
Metrics = dict[str, float]  # by name


class TaskResults:
    """Computes the results of one split from a stream of examples.

    Each task has a subclass. Neither examples nor outputs are held in memory. `decode`
    converts the outputs of the model for an example to its prediction, such as the tag
    of each word, and `score`, `error` and `lines` receive this prediction.

    Attributes:
        file_names: The names of the files with predictions.
        before_training: The metrics of the model before the training, for a task that
            compares with them; else {}.
        scores_predictions: Whether `write` also computes the metrics of a split with
            labels. The metrics are written to eval_results.txt, or to test_results.txt
            if the kind of the split is "test".
    """

    file_names: Sequence[str] = ()
    scores_predictions = False

    def __init__(self) -> None:
        self.before_training: Metrics = {}
        self._samples: list[str] = []
        self._num_lines = 0  # of the examples that `write` has written
        self._count = 0  # of examples with a label, if the subclass counts them
        # A heap of the worst errors. An entry says how bad the error is, and has a
        # number that is lower for later errors, and the row of the error.
        self._errors: list[tuple[Any, int, Row]] = []
        self._num_errors = 0

    def decode(self, example: Any, outputs: Sequence[Outputs]) -> Any:
        """Returns the prediction for an example.

        By default, each example has one record, and its outputs are the prediction.

        Args:
            example: An example that `Task.read` returned.
            outputs: The outputs of the model for each record of the example, in order.
        """
        return outputs[0]

    def score(self, example: Any, prediction: Any) -> None:
        """Adds an example to the metrics; ignores an example without a label."""
        raise NotImplementedError

    def error(self, example: Any, prediction: Any) -> tuple[Any, Row] | None:
        """Returns how bad a wrong prediction is, and the row that `errors` shows.

        By default, returns None, and `errors` shows nothing.

        Returns:
            None if the prediction is right, or the label is not known. Else a number,
            or a tuple of numbers, that is larger for worse errors; and a dict with the
            columns of the example, its label and its prediction.
        """
        return None

    def add(self, example: Any, prediction: Any) -> None:
        """Adds an example to the metrics and, if its prediction is wrong, to `errors`.

        Only the worst errors are held in memory.
        """
        self.score(example, prediction)
        error = self.error(example, prediction)
        # NaN has no order in the heap, and is not valid JSON.
        if error and np.isfinite(error[0]).all():
            badness, row = error
            self._num_errors += 1
            heapq.heappush(self._errors, (badness, -self._num_errors, row))
            if len(self._errors) > _MAX_ERRORS:
                heapq.heappop(self._errors)

    def errors(self) -> list[str]:
        """Returns at most 200 errors as lines of JSON, the worst first."""
        return [
            f"{json.dumps(row, ensure_ascii=False, default=str)}\n"
            for *_, row in sorted(self._errors, reverse=True)
        ]

    def image(self) -> np.ndarray | None:
        """Returns a picture of the predictions, uint8 [height, width, 3]; None for no picture."""
        return None

    def metrics(self) -> Metrics:
        """Returns the metrics, such as {"accuracy": 0.9}; {} if no example has a label."""
        raise NotImplementedError

    def baseline(self) -> Metrics:
        """Returns the metrics of a constant prediction.

        The prediction is, depending on the task, the most frequent label of the split,
        the tag O, or no answer. A metric that is not computed for such a prediction is
        omitted. Called only if there are metrics.
        """
        return {}

    def undefined(self, metric: str) -> str:
        """Returns why a metric is undefined for the examples; "" if it is defined.

        The reason says what the split has, such as "no entity". An undefined metric has
        the value 0. Called after `metrics`, and only if there are metrics.

        Args:
            metric: The metric that selects the best weights.
        """
        return ""

    def report(self) -> str:
        """Returns a readable report, or "". Called only if there are metrics.

        By default, the report consists of the first examples.
        """
        return "\n".join(self._samples)

    def lines(self, example: Any, prediction: Any) -> Sequence[str]:
        """Returns the text of an example for each of `file_names`, with line ends.

        `write` ignores further texts after those of `file_names`.
        """
        raise NotImplementedError

    def end_of_files(self) -> str:
        """Returns the text that `write` adds to the end of each file."""
        return ""

    def complete(self, folder: str) -> None:
        """Completes the work of `write`, which calls it when all files are in the folder."""

    def write(self, folder: str, predictions: Iterable[tuple[Any, Any]]) -> None:
        """Writes the prediction files. They appear together after the last example.

        Args:
            folder: The output folder.
            predictions: Each example with the prediction that `decode` returned.
        """
        paths = [os.path.join(folder, name) for name in self.file_names]
        with contextlib.ExitStack() as stack:
            temporary = [*map(stack.enter_context, map(files.atomic_replace, paths))]
            opened = [
                stack.enter_context(files.open_binary(path, "wb")) for path in temporary
            ]
            for example, prediction in predictions:
                if self.scores_predictions:
                    self.add(example, prediction)
                # Without a file for a benchmark's server, the last text has no file.
                texts = self.lines(example, prediction)
                for file, text in zip(opened, texts, strict=False):
                    file.write(text.encode())
                self._num_lines += 1

            for file in opened:
                file.write(self.end_of_files().encode())

        if 0 < self._count < self._num_lines:
            _LOGGER.warning(
                "warning: the metrics are those of %s of %s examples. The others have "
                "no label, or one that the model does not know.",
                f"{self._count:,}",
                f"{self._num_lines:,}",
            )
        self.complete(folder)

    def _add_sample(self, text: str) -> None:
        """Adds the text of an example to the report, which shows only the first 10."""
        if len(self._samples) < _MAX_SAMPLES:
            self._samples.append(text)


def with_baselines(results: TaskResults) -> Metrics:
    """Returns the metrics and their baselines, with names such as "accuracy_baseline".

    A baseline is a metric of a constant prediction. Baselines of 0 are omitted.
    """
    values = results.metrics()
    baselines = results.baseline() if values else {}
    names = [name for name in values if baselines.get(name)]
    return {**values, **{f"{name}_baseline": baselines[name] for name in names}}


def with_prediction(row: Row, prediction: Row) -> Row:
    """Returns a row of a table with the columns of its prediction added.

    A prediction column whose name the row already has gets the prefix `predicted_`.
    """
    row = dict(row)
    for name, value in prediction.items():
        while name in row:
            name = f"predicted_{name}"
        row[name] = value
    return row


def shortest_float(value: Any) -> float:
    """Returns the float with the fewest digits that rounds to the given float32."""
    return float(str(value))
