"""The metrics and the output files of a split.

Precision, recall and F1 of entities are equal to conlleval's.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from bert_tf.tasks.ner.ner_examples import NerExample
from bert_tf.tasks.ner.schemes import OUTSIDE, Entity, find_entities, to_tags, types_of
from bert_tf.tasks.results import Metrics, Outputs, TaskResults
from bert_tf.tasks.tables import Row, aligned

_LOGGER = logging.getLogger(__name__)


class Scores(NamedTuple):
    """Scores in percent; a score without a definition is 0.

    Attributes:
        precision: The share of the predicted entities that are correct.
        recall: The share of the correct entities that were predicted.
        f1: The harmonic mean of both.
    """

    precision: float
    recall: float
    f1: float


def scores(num_common: int, num_predicted: int, num_correct: int) -> Scores:
    """Returns the scores from the numbers of common, predicted and correct entities."""
    precision = 100.0 * num_common / num_predicted if num_predicted else 0.0
    recall = 100.0 * num_common / num_correct if num_correct else 0.0
    total = precision + recall
    return Scores(precision, recall, 2 * precision * recall / total if total else 0.0)


class EntityMetrics:
    """Counts the entities of sentences, so that sentences of any number fit in memory.

    Only the different surface forms are held in memory. A predicted entity is correct
    if its type, its first and its last word are correct.

    Attributes:
        num_words: The number of words.
        predicted: The number of predicted entities by type.
        correct: The number of correct entities by type.

    Source: conlleval of the CoNLL-2000 shared task; for surface forms, the evaluation
        program of the WNUT-2017 shared task.
    """

    def __init__(self) -> None:
        self.num_words, self._num_equal_tags, self._num_outside = 0, 0, 0
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
        """Adds a sentence.

        Args:
            words: The words.
            correct: The correct tag of each word.
            predicted: The predicted tag of each word.
        """
        self.num_words += len(words)
        self._num_equal_tags += sum(map(str.__eq__, correct, predicted))
        self._num_outside += sum(tag == OUTSIDE for tag in correct)

        correct_entities = find_entities(correct)
        predicted_entities = find_entities(predicted)
        known = set(correct_entities)
        common = [entity for entity in predicted_entities if entity in known]
        for entities, counter, forms in (
            (correct_entities, self.correct, self._correct_forms),
            (predicted_entities, self.predicted, self._predicted_forms),
            (common, self._common, self._common_forms),
        ):
            counter.update(entity.type for entity in entities)
            forms.update(_surface_form(entity, words) for entity in entities)

    def results(self) -> Metrics:
        """Returns the metrics of all sentences, in percent.

        Returns:
            `f1`, `precision` and `recall` of entities, the `accuracy` of tags, and
            `surface_f1`, `surface_precision` and `surface_recall`, the scores of the
            sets of surface forms: an entity that occurs several times, with the same
            words and type, counts once, and is correct if one of its predictions is.
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
        """Returns F1 and accuracy, in percent, if each word has the tag O."""
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


def _surface_form(entity: Entity, words: Sequence[str]) -> tuple[str, ...]:
    return (entity.type, *words[entity.start : entity.end])


class NerResults(TaskResults):
    """The F1 of entities, and the file of the split with a further column or key.

    The predicted tags have the scheme of the file, and no sequence that it forbids: the
    entities of the tags that the model predicts are written in this scheme.

    Args:
        labels: The tags that the model predicts, in the order of its outputs.
        scheme: The scheme of the file.
        file_name: The name of the file to write.
        render: Yields the lines of a sentence with the given tags.
    """

    scores_predictions = True

    def __init__(
        self,
        labels: Sequence[str],
        scheme: str,
        file_name: str,
        render: Callable[[NerExample, list[str]], Iterator[str]],
    ) -> None:
        super().__init__()
        self._labels, self._scheme, self._render = labels, scheme, render
        self.file_names = (file_name,)
        self._known_types = types_of(labels)
        self._metrics = EntityMetrics()

    def decode(self, example: NerExample, outputs: Sequence[Outputs]) -> list[str]:
        """Returns the tag of each word of a sentence.

        Args:
            example: The sentence.
            outputs: For each record of the sentence, `predictions` and `label_ids`, int
                [S].
        """
        # The records are in the order of the words that have labels in them.
        found = [output["predictions"][output["label_ids"] > 0] for output in outputs]
        indices = np.concatenate([np.zeros(0, np.int64), *found]).tolist()
        entities = find_entities(self._labels[index] for index in indices)
        return to_tags(entities, len(example.words), self._scheme)

    def score(self, example: NerExample, prediction: Sequence[str]) -> None:
        """Adds a sentence to the metrics; one whose tags are not known is ignored."""
        if example.tags is None:
            return
        self._metrics.add(example.words, example.tags, prediction)
        self._add_sample(
            f"predicted: {_with_brackets(example.words, prediction)}\n"
            f"correct:   {_with_brackets(example.words, example.tags)}\n"
        )

    def error(
        self, example: NerExample, prediction: Sequence[str]
    ) -> tuple[int, Row] | None:
        """Returns the number of wrong and lost entities, and both taggings."""
        if example.tags is None:
            return None
        correct, predicted = map(set, map(find_entities, (example.tags, prediction)))
        taggings = {"tags": list(example.tags), "predicted": list(prediction)}
        row = {"tokens": list(example.words), **taggings}
        return (len(correct ^ predicted), row) if correct != predicted else None

    def metrics(self) -> Metrics:
        """Returns the metrics, in percent.

        See `EntityMetrics.results`. {} if no tag is known.
        """
        if not self._metrics.num_words:
            return {}
        unknown = sorted(self._metrics.correct.keys() - self._known_types)
        if unknown:
            _LOGGER.warning(
                "warning: the model cannot predict %s entities, because their types "
                "are not in the train split: %s. They count as not found.",
                f"{sum(self._metrics.correct[each] for each in unknown):,}",
                ", ".join(unknown),
            )
        return self._metrics.results()

    def baseline(self) -> Metrics:
        """Returns the metrics if each word has the tag O.

        See `EntityMetrics.baseline`.
        """
        return self._metrics.baseline()

    def undefined(self, metric: str) -> str:
        """Returns "no entity" if the tags have none: there is no F1 without one."""
        return "" if self._metrics.correct else "no entity"

    def report(self) -> str:
        """Returns a table of the scores by type, and the first sentences."""
        metrics = self._metrics
        types = sorted(
            metrics.correct.keys() | metrics.predicted.keys() | self._known_types
        )

        # A line for each type, and one for all.
        rows = [["type", "precision", "recall", "f1", "entities", "predicted"]]
        for name in types:
            note = "" if name in self._known_types else " (not in the train split)"
            counts = metrics.correct[name], metrics.predicted[name]
            rows.append([f"{name}{note}", *_cells(metrics.of_type(name), *counts)])
        totals = metrics.correct.total(), metrics.predicted.total()
        rows.append(["all", *_cells(metrics.overall(), *totals)])
        return f"{aligned(rows)}\n\n{super().report()}"

    def lines(self, example: NerExample, prediction: list[str]) -> list[str]:
        """Returns the lines of a sentence, with the predicted tags."""
        return ["".join(f"{line}\n" for line in self._render(example, prediction))]


def _cells(scores: Scores, *counts: int) -> list[str]:
    return [*(f"{score:.2f}" for score in scores), *map(str, counts)]


def _with_brackets(words: Sequence[str], tags: Sequence[str]) -> str:
    """Returns a sentence with brackets around entities: "[PER Ann] left ."."""
    parts = list(words)
    for entity in find_entities(tags):
        parts[entity.start] = f"[{entity.type} {parts[entity.start]}"
        parts[entity.end - 1] += "]"
    return " ".join(parts)
