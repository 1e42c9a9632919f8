"""`ChoiceResults`: the metrics and the output files of a split."""

import json
from collections import Counter

import numpy as np

from bert_tf.tasks.choice.choice_examples import ChoiceExample
from bert_tf.tasks.results import Outputs, TaskResults, shortest_float


class ChoiceResults(TaskResults):
    """Accuracy and mean cross entropy, and the probabilities of the choices.

    The predicted choice is the one with the highest probability; of equal ones, the
    first.

    `test_results.tsv` has one line per example, with the probabilities of its choices,
    separated by tabs. `predictions.jsonl` also has the texts and, if it is known, the
    label.
    """

    file_names = ("test_results.tsv", "predictions.jsonl")
    scores_predictions = True

    def __init__(self) -> None:
        super().__init__()
        self._correct, self._loss = 0, 0.0
        self._labels: Counter[int] = Counter()

    def score(self, example: ChoiceExample, prediction: Outputs) -> None:
        """Adds an example to the metrics; one without a label is ignored."""
        if example.label is None:
            return

        count = len(example.choices)
        logits: np.ndarray = prediction["logits"][:count].astype(np.float64)
        best = int(prediction["probabilities"][:count].argmax())
        self._loss += float(np.logaddexp.reduce(logits) - logits[example.label])
        self._correct += best == example.label
        self._count += 1
        self._labels[example.label] += 1

        self._add_sample(
            f"context:   {example.context}\n"
            f"predicted: {example.choices[best]}\n"
            f"correct:   {example.choices[example.label]}\n"
        )

    def metrics(self) -> dict[str, float]:
        """Returns accuracy and loss; {} if no example has a label."""
        if not self._count:
            return {}
        return {
            "accuracy": self._correct / self._count,
            "loss": self._loss / self._count,
        }

    def baseline(self) -> dict[str, float]:
        """Returns the accuracy if the most frequent position is always predicted."""
        return {"accuracy": max(self._labels.values()) / self._count}

    def report(self) -> str:
        """Returns the accuracy, and predicted and correct choices of some examples."""
        accuracy, baseline = (
            each["accuracy"] for each in (self.metrics(), self.baseline())
        )
        return (
            f"accuracy {accuracy:.4f}; {baseline:.4f} if the choice at the most "
            f"frequent position is always predicted\n\n{super().report()}"
        )

    def lines(self, example: ChoiceExample, prediction: Outputs) -> tuple[str, str]:
        """Returns the line of an example in each of the two files."""
        probabilities = prediction["probabilities"][: len(example.choices)]
        best = int(probabilities.argmax())
        row = {
            **example.as_row(),
            "predicted": best,
            "choice": example.choices[best],
            "probability": shortest_float(probabilities[best]),
            "probabilities": [shortest_float(value) for value in probabilities],
        }
        numbers = "\t".join(map(str, probabilities))
        return f"{numbers}\n", f"{json.dumps(row, ensure_ascii=False)}\n"
