"""The metrics and the output files of a split."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf.tasks.choice.examples import ChoiceExample
from bert_tf.tasks.prediction_files import (
    LineFile,
    PredictionFiles,
    check_not_replaced,
    shortest_float,
)
from bert_tf.tasks.task import Outputs, Split

PROBABILITIES, PREDICTIONS, REPORT = "test_results.tsv", "predictions.jsonl", "eval_report.txt"
_SAMPLES = 10


class ChoiceScorer:
    """A `tasks.task.Scorer`: accuracy and mean cross entropy. Examples without label are ignored.

    The predicted choice is the one with the highest probability; of equal ones, the first.
    """

    def __init__(self) -> None:
        self._count, self._correct, self._loss = 0, 0, 0.0
        self._labels: Counter[int] = Counter()
        self._samples: list[str] = []

    def add(self, example: ChoiceExample, outputs: Sequence[Outputs]) -> None:
        """Adds an example; `outputs` has one element."""
        if example.label is None:
            return
        count = len(example.choices)
        logits: np.ndarray = outputs[0]["logits"][:count].astype(np.float64)
        predicted = int(outputs[0]["probabilities"][:count].argmax())
        self._loss += float(np.logaddexp.reduce(logits) - logits[example.label])
        self._correct += predicted == example.label
        self._count += 1
        self._labels[example.label] += 1
        if len(self._samples) < _SAMPLES:
            self._samples.append(_as_text(example, predicted))

    def results(self) -> dict[str, float]:
        """Returns accuracy and loss; {} if no example has a label."""
        if not self._count:
            return {}
        return {"accuracy": self._correct / self._count, "loss": self._loss / self._count}

    def baseline(self) -> dict[str, float]:
        """Returns the accuracy if the choice at the most frequent position is always predicted."""
        return {"accuracy": max(self._labels.values()) / self._count} if self._count else {}

    def report(self) -> str:
        """Returns the accuracy, and the predicted and the correct choices of the first examples."""
        if not self._count:
            return ""
        accuracy, baseline = (each["accuracy"] for each in (self.results(), self.baseline()))
        line = (
            f"accuracy {accuracy:.4f}; {baseline:.4f} if the choice at the most frequent position "
            "is always predicted\n"
        )
        return "\n".join([line, *self._samples])


def _as_text(example: ChoiceExample, predicted: int) -> str:
    return (
        f"context:   {example.context}\n"
        f"predicted: {example.choices[predicted]}\n"
        f"correct:   {example.choices[example.label or 0]}\n"
    )


class ChoiceWriter(PredictionFiles):
    """A `tasks.task.PredictionWriter`: the probability of each choice, and the best choice.

    `test_results.tsv` has one line per example, with the probabilities of its choices, separated by
    tabs. `predictions.jsonl` also has the texts and, if it is known, the label.

    Args:
        split: The split.
        folder: The output folder.

    Raises:
        InputError: The file of the split is in `folder` and has the name of an output file.
    """

    def __init__(self, split: Split, folder: str) -> None:
        super().__init__(folder)
        check_not_replaced(split.source.name, folder, (PROBABILITIES, PREDICTIONS))

    def _open_files(self) -> None:
        self._probabilities = self._open(PROBABILITIES, LineFile)
        self._predictions = self._open(PREDICTIONS, LineFile)

    def add(self, example: ChoiceExample, outputs: Sequence[Outputs]) -> None:
        """Writes the prediction for an example; `outputs` has one element."""
        values = outputs[0]["probabilities"][: len(example.choices)]
        self._probabilities.add("\t".join(map(str, values)))
        self._predictions.add(json.dumps(_prediction(example, values), ensure_ascii=False))

    def results(self) -> dict[str, float]:
        """Returns {}: metrics are computed on dev splits only."""
        return {}


def texts_and_label(example: ChoiceExample) -> dict[str, Any]:
    """Returns an example as JSON values, in the form of the `.jsonl` files of `examples`."""
    row: dict[str, Any] = {"context": example.context, "choices": list(example.choices)}
    return row if example.label is None else {**row, "label": example.label}


def _prediction(example: ChoiceExample, probabilities: np.ndarray) -> dict[str, Any]:
    best = int(probabilities.argmax())
    return {
        **texts_and_label(example),
        "predicted": best,
        "choice": example.choices[best],
        "probability": shortest_float(probabilities[best]),
        "probabilities": [shortest_float(value) for value in probabilities],
    }
