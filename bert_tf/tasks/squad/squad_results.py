"""`SquadResults`: the metrics and the output files of a split of SQuAD."""

import json
import logging
import os
from collections.abc import Sequence

import numpy as np

from bert_tf.storage import files
from bert_tf.tasks.results import Metrics, Outputs, TaskResults
from bert_tf.tasks.squad import squad_metrics
from bert_tf.tasks.squad.best_answers import AnswerFinder, AnswerSettings, BestAnswers
from bert_tf.tasks.squad.squad_examples import SquadExample
from bert_tf.tasks.tables import Row

_LOGGER = logging.getLogger(__name__)
THRESHOLD = "squad_threshold.json"
# The last two are files of version 2.0.
FILES = ("predictions.json", "nbest_predictions.json", "null_odds.json", THRESHOLD)
_NO_ANSWER = "(no answer)"
# A context with more characters per word is in a language without blanks between words.
_LONGEST_MEAN_WORD = 15


class AnswerMetrics:
    """Computes exact match (EM) and F1 in percent, as the official scripts do."""

    def __init__(self, settings: AnswerSettings) -> None:
        self._settings = settings
        # For each question in version 2.0: EM and F1 of the prediction, EM and F1 of the
        # best answer other than "", the null score difference, whether there is such an
        # answer, and whether the question has an answer. In version 1.1, EM and F1.
        self._rows: list[list[float]] = []
        self._num_unknown = self._num_without_blanks = 0

    def add(
        self, example: SquadExample, predicted: str, best_text: str, null_diff: float
    ) -> None:
        """Adds a question; `best_text` is its best answer other than ""."""
        most_characters = _LONGEST_MEAN_WORD * len(example.words)
        self._num_without_blanks += len(example.context) > most_characters
        if example.answers is None:
            self._num_unknown += 1
            return

        row = self.em_and_f1(example, predicted)
        if self._settings.version_2_with_negative:
            row += self.em_and_f1(example, best_text)
            row += [null_diff, bool(best_text), bool(example.answers)]
        self._rows.append(row)

    def em_and_f1(self, example: SquadExample, text: str) -> list[float]:
        """Returns EM and F1, from 0 to 1, of the answer `text` to a question with known answers."""
        correct, f1 = list(example.answers or ()), squad_metrics.f1
        if self._settings.version_2_with_negative:
            correct = squad_metrics.correct_answers(correct)
            f1 = squad_metrics.f1_with_negative
        # The largest value over the correct answers, of which there is at least one.
        return [
            max(squad_metrics.exact_match(text, answer) for answer in correct),
            max(f1(text, answer, self._settings.f1_by) for answer in correct),
        ]

    def results(self) -> Metrics:
        """Returns the metrics; {} if no question has known answers."""
        if not self._rows:
            return {}
        if self._num_unknown:
            _LOGGER.warning(
                "warning: the metrics do not include %s questions without answers.",
                f"{self._num_unknown:,}",
            )
        is_mostly_without_blanks = 2 * self._num_without_blanks > len(self._rows)
        if self._settings.f1_by == "words" and is_mostly_without_blanks:
            _LOGGER.warning(
                "warning: most contexts have no blanks between words, so F1 by words "
                "says little. Set f1_by=characters."
            )

        em, f1, *others = np.array(self._rows).T
        if not others:
            return {"exact_match": _percent(em), "f1": _percent(f1)}
        best_em, best_f1, null_diffs, has_text, has_answer = others
        results = {"exact": _percent(em), "f1": _percent(f1)}

        # The metrics of questions with and without answers.
        for name, chosen in (("HasAns", has_answer == 1), ("NoAns", has_answer == 0)):
            if chosen.any():
                results[f"{name}_exact"] = _percent(em[chosen])
                results[f"{name}_f1"] = _percent(f1[chosen])

        # The metrics with the best threshold, and this threshold.
        for name, scores in (("exact", best_em), ("f1", best_f1)):
            score, threshold = squad_metrics.best_threshold(
                scores, null_diffs, has_answer == 1, has_text == 1
            )
            results[f"best_{name}"] = score
            results[f"best_{name}_thresh"] = threshold
        return results

    def baseline(self) -> Metrics:
        """Returns the metrics of answering no question; {} in version 1.1."""
        if not self._settings.version_2_with_negative or not self._rows:
            return {}
        share = _percent(np.array([not has_answer for *_, has_answer in self._rows]))
        return {"exact": share, "f1": share}

    def best_f1_threshold(self) -> tuple[float, float] | None:
        """Returns the best F1 over all thresholds, and its threshold.

        Returns None in version 1.1, or if no correct answers are known. If it is best
        to answer no question, the threshold is a number below all null score
        differences; `best_f1_thresh` of the official script is then 0.0.
        """
        if not self._settings.version_2_with_negative or not self._rows:
            return None
        _, _, _, best_f1, null_diffs, has_text, has_answer = np.array(self._rows).T
        score, threshold = squad_metrics.best_threshold(
            best_f1, null_diffs, has_answer == 1, has_text == 1
        )
        answers_none = score == _percent(1 - has_answer)
        return score, float(null_diffs.min()) - 1 if answers_none else threshold


def _percent(values: np.ndarray) -> float:
    # Adds in the order of the official scripts, so that the results have the same bits.
    total = 0.0
    for value in values.tolist():
        total += value
    return 100.0 * total / len(values)


class SquadResults(TaskResults):
    """Computes the official metrics, and writes the files of google-research/bert.

    With `version_2_with_negative`, `squad_threshold.json` contains the threshold with
    the best F1; it is written if the correct answers are known. `finder` may be None if
    `decode` is not called.

    Source: google-research/bert `run_squad.write_predictions`.
    """

    scores_predictions = True

    def __init__(
        self, settings: AnswerSettings, finder: AnswerFinder | None = None
    ) -> None:
        super().__init__()
        self._settings = settings
        self._finder = finder
        self._metrics = AnswerMetrics(settings)
        self._start = "{"  # of the next item of the files
        self.file_names = FILES[: 3 if settings.version_2_with_negative else 2]

    def decode(self, example: SquadExample, outputs: Sequence[Outputs]) -> BestAnswers:
        """Returns the best answers to a question, from the outputs for its windows."""
        assert self._finder is not None
        return self._finder.find(example, outputs)

    def score(self, example: SquadExample, prediction: BestAnswers) -> None:
        """Adds a question to the metrics; a question without known answers is only counted."""
        predicted = prediction.predicted(self._settings)
        self._metrics.add(
            example, predicted, prediction.best_text, prediction.null_score_diff
        )
        correct = dict.fromkeys(example.answers or ())
        self._add_sample(
            f"question:  {example.question}\n"
            f"predicted: {predicted or _NO_ANSWER}\n"
            f"correct:   {' | '.join(correct) or _NO_ANSWER}\n"
        )

    def error(
        self, example: SquadExample, prediction: BestAnswers
    ) -> tuple[tuple[float, float], Row] | None:
        """Returns how bad an answer without exact match is (-F1, probability), and its row."""
        predicted = prediction.predicted(self._settings)
        if example.answers is None:
            return None
        em, f1 = self._metrics.em_and_f1(example, predicted)
        if em == 1:
            return None

        pairs = zip(prediction.answers, prediction.probabilities, strict=True)
        of_predicted = (value for answer, value in pairs if answer.text == predicted)
        probability = next(of_predicted, 0.0)  # 0 if it is not in the n-best list
        row = {
            "id": example.id,
            "question": example.question,
            "context": example.context,
            "answers": [*dict.fromkeys(example.answers)],
            "predicted": predicted,
            "probability": probability,
            "f1": f1,
        }
        return (-f1, probability), row

    def metrics(self) -> Metrics:
        """Returns the metrics of all questions, in percent; {} if no answer is known."""
        return self._metrics.results()

    def baseline(self) -> Metrics:
        """Returns the metrics of answering no question; {} in version 1.1."""
        return self._metrics.baseline()

    def lines(self, example: SquadExample, prediction: BestAnswers) -> list[str]:
        """Returns the item of a question in each file, as `json.dumps(..., indent=4)` writes it."""
        answers = [
            {
                "text": answer.text,
                "probability": probability,
                "start_logit": answer.start_logit,
                "end_logit": answer.end_logit,
            }
            for answer, probability in zip(
                prediction.answers, prediction.probabilities, strict=True
            )
        ]
        predicted = prediction.predicted(self._settings)
        values = (predicted, answers, prediction.null_score_diff)
        items = [json.dumps({example.id: value}, indent=4) for value in values]

        # The braces around all items are written once.
        start, self._start = self._start, ","
        return [start + item[1 : -len("\n}")] for item in items]

    def end_of_files(self) -> str:
        """Returns the end of the JSON object in each file."""
        return "{}\n" if self._start == "{" else "\n}\n"

    def complete(self, folder: str) -> None:
        """Writes the best threshold of version 2.0, if correct answers are known."""
        if best := self._metrics.best_f1_threshold():
            f1, threshold = best
            values = {"null_score_diff_threshold": threshold, "f1": f1}
            files.write_json(os.path.join(folder, THRESHOLD), values)
