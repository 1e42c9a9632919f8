"""The metrics and the output files of a split."""

import json
import logging
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf import files
from bert_tf.errors import InputError
from bert_tf.tasks.prediction_files import PredictionFiles
from bert_tf.tasks.squad import metrics
from bert_tf.tasks.squad.best_answers import AnswerFinder, AnswerSettings, BestAnswers
from bert_tf.tasks.squad.examples import SquadExample
from bert_tf.tasks.task import Outputs

_LOGGER = logging.getLogger(__name__)
PREDICTIONS, NBEST, NULL_ODDS = "predictions.json", "nbest_predictions.json", "null_odds.json"
THRESHOLD = "squad_threshold.json"
_SAMPLES = 10
_NO_ANSWER = "(no answer)"


class AnswerMetrics:
    """Collects EM and F1 over questions, in percent, as the official scripts compute them.

    Args:
        settings: The settings of the answers.
    """

    def __init__(self, settings: AnswerSettings) -> None:
        self._settings = settings
        # For each question in version 2.0: whether it has an answer, EM and F1 of the prediction,
        # and of the best answer other than "", the null score difference, and whether there is such
        # an answer. In version 1.1, only EM and F1.
        self._rows: list[tuple[float, ...]] = []
        self._num_unknown = 0

    def add(self, example: SquadExample, predicted: str, best_text: str, null_diff: float) -> None:
        """Adds a question.

        Args:
            example: The question.
            predicted: The predicted answer.
            best_text: The best answer other than "".
            null_diff: See `BestAnswers.null_score_diff`.
        """
        if example.answers is None:
            self._num_unknown += 1
        elif self._settings.version_2_with_negative:
            correct = metrics.correct_answers(example.answers)
            em_f1 = [
                metrics.best_of(metric, text, correct)
                for text in (predicted, best_text)
                for metric in (metrics.exact_match, metrics.f1_with_negative)
            ]
            self._rows.append(
                (*em_f1, null_diff, float(bool(best_text)), float(bool(example.answers)))
            )
        else:
            em_f1 = [
                metrics.best_of(metric, predicted, example.answers)
                for metric in (metrics.exact_match, metrics.f1)
            ]
            self._rows.append(tuple(em_f1))

    def results(self) -> dict[str, float]:
        """Returns the metrics; {} if no question has known answers."""
        if self._num_unknown and self._rows:
            _LOGGER.warning(
                "warning: the metrics do not include %s questions without answers.",
                f"{self._num_unknown:,}",
            )
        if not self._rows:
            return {}
        table = np.array(self._rows)
        if not self._settings.version_2_with_negative:
            return {"exact_match": _percent(table[:, 0]), "f1": _percent(table[:, 1])}
        em, f1, best_em, best_f1, null_diffs, has_text, has_answer = table.T
        results = {"exact": _percent(em), "f1": _percent(f1)}
        for name, chosen in (("HasAns", has_answer == 1), ("NoAns", has_answer == 0)):
            if chosen.any():
                results[f"{name}_exact"] = _percent(em[chosen])
                results[f"{name}_f1"] = _percent(f1[chosen])
        for name, scores in (("exact", best_em), ("f1", best_f1)):
            score, threshold = metrics.best_threshold(
                scores, null_diffs, has_answer == 1, has_text == 1
            )
            results[f"best_{name}"], results[f"best_{name}_thresh"] = score, threshold
        return results

    def baseline(self) -> dict[str, float]:
        """Returns the metrics in version 2.0 if no question is answered; {} in version 1.1."""
        if not self._settings.version_2_with_negative or not self._rows:
            return {}
        share = _percent(np.array([not has_answer for *_, has_answer in self._rows]))
        return {"exact": share, "f1": share}

    def best_f1_threshold(self) -> float:
        """Returns the threshold with the best F1 in version 2.0.

        `best_f1_thresh` of the official script is 0.0 if it is best to answer no question. This
        method then returns a number below all null score differences.
        """
        _, _, _, best_f1, null_diffs, has_text, has_answer = np.array(self._rows).T
        score, threshold = metrics.best_threshold(
            best_f1, null_diffs, has_answer == 1, has_text == 1
        )
        answers_none = score == _percent(1 - has_answer)
        return float(null_diffs.min()) - 1 if answers_none else threshold


def _percent(values: np.ndarray) -> float:
    total = 0.0
    for value in values.tolist():  # in the order of the official scripts, so the bits are equal
        total += value
    return 100.0 * total / len(values)


class SquadScorer:
    """A `tasks.task.Scorer`: the official metrics of the predicted answers.

    Args:
        finder: Finds the best answers.
        settings: The settings of the answers.
    """

    def __init__(self, finder: AnswerFinder, settings: AnswerSettings) -> None:
        self._finder, self._settings = finder, settings
        self._metrics = AnswerMetrics(settings)
        self._samples: list[str] = []

    def add(self, example: SquadExample, outputs: Sequence[Outputs]) -> None:
        """Adds a question, with the outputs of the model for each of its windows."""
        best = self._finder.find(example, outputs)
        predicted = best.predicted(self._settings)
        self._metrics.add(example, predicted, best.best_text, best.null_score_diff)
        if len(self._samples) < _SAMPLES:
            self._samples.append(_as_text(example, predicted))

    def results(self) -> dict[str, float]:
        """Returns the metrics of all questions, in percent.

        Raises:
            InputError: No question has known answers.
        """
        results = self._metrics.results()
        if not results:
            raise InputError(
                "The file to evaluate has no answers. Give a file with answers, or use do_predict "
                "instead of do_eval."
            )
        return results

    def baseline(self) -> dict[str, float]:
        """Returns the metrics if no question is answered; see `AnswerMetrics.baseline`."""
        return self._metrics.baseline()

    def report(self) -> str:
        """Returns the predicted and the correct answers to the first questions."""
        return "\n".join(self._samples)


def _as_text(example: SquadExample, predicted: str) -> str:
    correct = dict.fromkeys(example.answers or ())
    return (
        f"question:  {example.question}\n"
        f"predicted: {predicted or _NO_ANSWER}\n"
        f"correct:   {' | '.join(correct) or _NO_ANSWER}\n"
    )


class JsonObjectFile:
    """Writes a JSON object item by item, with the layout of `json.dumps(..., indent=4)`.

    Args:
        path: The path of the file.
    """

    def __init__(self, path: str) -> None:
        import tensorflow as tf

        self._file = tf.io.gfile.GFile(path, "wb")
        self._start = "{"

    def add(self, key: str, value: Any) -> None:
        """Writes an item."""
        item = json.dumps({key: value}, indent=4)
        self._file.write((self._start + item[1 : -len("\n}")]).encode())
        self._start = ","

    def close(self) -> None:
        """Writes the end of the object."""
        self._file.write(b"{}\n" if self._start == "{" else b"\n}\n")
        self._file.close()


class SquadAnswerFiles(PredictionFiles):
    """Writes the answers to questions, and computes metrics if the correct answers are known.

    Writes `predictions.json`, `nbest_predictions.json` and, with `version_2_with_negative`,
    `null_odds.json` and `squad_threshold.json`. The last one contains the threshold with the best
    F1, and is written if the correct answers are known.

    Args:
        folder: The output folder.
        settings: The settings of the answers.

    Source: google-research/bert `run_squad.write_predictions`.
    """

    def __init__(self, folder: str, settings: AnswerSettings) -> None:
        super().__init__(folder)
        self._settings = settings
        self._metrics = AnswerMetrics(settings)
        self._results: dict[str, float] = {}

    def _open_files(self) -> None:
        self._predictions = self._open(PREDICTIONS, JsonObjectFile)
        self._nbest = self._open(NBEST, JsonObjectFile)
        has_null = self._settings.version_2_with_negative
        self._null_odds = self._open(NULL_ODDS, JsonObjectFile) if has_null else None

    def _on_complete(self) -> None:
        self._results = self._metrics.results()
        if "best_f1" in self._results:
            values = {"null_score_diff_threshold": self._metrics.best_f1_threshold()}
            path = os.path.join(self._folder, THRESHOLD)
            files.write_json(path, {**values, "f1": self._results["best_f1"]})

    def add_answers(self, example: SquadExample, best: BestAnswers) -> None:
        """Writes the answers to a question."""
        predicted = best.predicted(self._settings)
        self._predictions.add(example.id, predicted)
        self._nbest.add(example.id, _as_json(best))
        if self._null_odds:
            self._null_odds.add(example.id, best.null_score_diff)
        self._metrics.add(example, predicted, best.best_text, best.null_score_diff)

    def results(self) -> dict[str, float]:
        """Returns the metrics after the files are complete; {} if the answers are not known."""
        return self._results

    def baseline(self) -> dict[str, float]:
        """Returns the metrics if no question is answered; see `AnswerMetrics.baseline`."""
        return self._metrics.baseline()


class SquadWriter(SquadAnswerFiles):
    """A `tasks.task.PredictionWriter`: finds the answers to questions, and writes them.

    Args:
        folder: The output folder.
        finder: Finds the best answers.
        settings: The settings of the answers.
    """

    def __init__(self, folder: str, finder: AnswerFinder, settings: AnswerSettings) -> None:
        super().__init__(folder, settings)
        self._finder = finder

    def add(self, example: SquadExample, outputs: Sequence[Outputs]) -> None:
        """Writes the answers to a question, from the outputs of the model for its windows."""
        self.add_answers(example, self._finder.find(example, outputs))


def _as_json(best: BestAnswers) -> list[dict[str, Any]]:
    return [
        {
            "text": answer.text,
            "probability": probability,
            "start_logit": answer.start_logit,
            "end_logit": answer.end_logit,
        }
        for answer, probability in zip(best.answers, best.probabilities, strict=True)
    ]
