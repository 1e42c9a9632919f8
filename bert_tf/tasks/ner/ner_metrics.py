"""Precision, recall and F1 of entities, with the same results as conlleval.

Correct tags and entities are those of the data set, not right predictions.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from bert_tf.tasks.ner.schemes import OUTSIDE, find_entities
from bert_tf.tasks.results import Metrics


class Scores(NamedTuple):
    """Scores of entities in percent; a score whose denominator is 0 is 0."""

    precision: float
    recall: float
    f1: float


def scores(num_common: int, num_predicted: int, num_correct: int) -> Scores:
    """Returns the scores; `num_common` counts entities that are both predicted and correct."""
    precision = 100.0 * num_common / num_predicted if num_predicted else 0.0
    recall = 100.0 * num_common / num_correct if num_correct else 0.0
    total = precision + recall
    return Scores(precision, recall, 2 * precision * recall / total if total else 0.0)


class EntityMetrics:
    """Counts entities; holds only their different surface forms (words) in memory.

    A predicted entity is right if a correct entity has the same type, first word and
    last word. The attributes `predicted` and `correct` have the numbers of predicted
    and of correct entities by type.

    Source: conlleval of the CoNLL-2000 shared task; for surface forms, the evaluation
        program of the WNUT-2017 shared task.
    """

    def __init__(self) -> None:
        self.num_words = 0
        self._num_equal_tags = 0
        self._num_outside = 0
        self.predicted: Counter[str] = Counter()
        self.correct: Counter[str] = Counter()
        self._common: Counter[str] = Counter()
        # Different pairs of a type and the words of an entity.
        self._predicted_forms: set[tuple[str, ...]] = set()
        self._correct_forms: set[tuple[str, ...]] = set()
        self._common_forms: set[tuple[str, ...]] = set()

    def add(
        self, words: Sequence[str], correct: Sequence[str], predicted: Sequence[str]
    ) -> None:
        """Adds a sentence, with the correct and the predicted tag of each word."""
        self.num_words += len(words)
        self._num_equal_tags += sum(map(str.__eq__, correct, predicted))
        self._num_outside += sum(tag == OUTSIDE for tag in correct)

        correct_entities = find_entities(correct)
        predicted_entities = find_entities(predicted)
        common = list(set(correct_entities).intersection(predicted_entities))
        for entities, counter, forms in (
            (correct_entities, self.correct, self._correct_forms),
            (predicted_entities, self.predicted, self._predicted_forms),
            (common, self._common, self._common_forms),
        ):
            counter.update(entity.type for entity in entities)
            forms.update(
                (entity.type, *words[entity.start : entity.end]) for entity in entities
            )

    def results(self) -> Metrics:
        """Returns the metrics in percent; `accuracy` counts words with the right tag.

        The names of the scores of surface forms begin with `surface_`. An entity that
        occurs several times, with the same words and type, counts once in them, and is
        right if one of its predictions is right.
        """
        overall = self.overall()
        surface = scores(
            len(self._common_forms),
            len(self._predicted_forms),
            len(self._correct_forms),
        )

        return {
            "f1": overall.f1,
            "precision": overall.precision,
            "recall": overall.recall,
            "accuracy": 100.0 * self._num_equal_tags / max(self.num_words, 1),
            "surface_f1": surface.f1,
            "surface_precision": surface.precision,
            "surface_recall": surface.recall,
        }

    def baseline(self) -> Metrics:
        """Returns F1 and accuracy, in percent, of predicting the tag O for each word."""
        return {
            "f1": 0.0,
            "accuracy": 100.0 * self._num_outside / max(self.num_words, 1),
        }

    def overall(self) -> Scores:
        """Returns the scores of the entities of all types (micro-averages)."""
        return scores(
            self._common.total(), self.predicted.total(), self.correct.total()
        )

    def of_type(self, entity_type: str) -> Scores:
        """Returns the scores of the entities of a type."""
        return scores(
            self._common[entity_type],
            self.predicted[entity_type],
            self.correct[entity_type],
        )
