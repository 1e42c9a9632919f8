"""The metrics, the report, the errors and the output files of a split."""

import logging
from collections.abc import Callable, Iterator, Sequence

from bert_tf.tasks.ner.ner_examples import NerExample
from bert_tf.tasks.ner.ner_metrics import EntityMetrics, Scores
from bert_tf.tasks.ner.schemes import find_entities, to_tags, types_of
from bert_tf.tasks.results import Metrics, Outputs, TaskResults
from bert_tf.tasks.tables import Row, aligned

_LOGGER = logging.getLogger(__name__)


class NerResults(TaskResults):
    """Computes the F1 of entities; writes the file of the split with predicted tags.

    `labels` are the tags that the model predicts, in the order of its outputs. The
    predicted entities are written as tags in the scheme of the file, without sequences
    that the scheme forbids. The scores are computed from the written tags.
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
        self._labels = labels
        self._scheme = scheme
        self._render = render
        self.file_names = (file_name,)
        self._known_types = types_of(labels)
        self._metrics = EntityMetrics()

    def decode(self, example: NerExample, outputs: Sequence[Outputs]) -> list[str]:
        """Returns the predicted tag of each word, in the scheme of the file.

        `outputs` contains `predictions` and `label_ids`, int [S], for each record.
        """
        # The records are in the order of the words that have labels in them.
        tags = (
            self._labels[index]
            for output in outputs
            for index in output["predictions"][output["label_ids"] > 0].tolist()
        )
        return to_tags(find_entities(tags), len(example.words), self._scheme)

    def score(self, example: NerExample, prediction: Sequence[str]) -> None:
        """Adds a sentence to the metrics; ignores a sentence whose tags are not known."""
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
        """Returns the number of wrong and missed entities, and a row with both lists of tags."""
        if example.tags is None:
            return None
        errors = set(find_entities(example.tags)) ^ set(find_entities(prediction))
        row = {
            "tokens": list(example.words),
            "tags": list(example.tags),
            "predicted": list(prediction),
        }
        return (len(errors), row) if errors else None

    def metrics(self) -> Metrics:
        """Returns the metrics of `EntityMetrics.results`; {} if no tag is known."""
        if not self._metrics.num_words:
            return {}
        unknown = sorted(self._metrics.correct.keys() - self._known_types)
        if unknown:
            _LOGGER.warning(
                "warning: the model cannot predict %s entities, because their types "
                "are not in the train split: %s. They count as not found.",
                f"{sum(self._metrics.correct[name] for name in unknown):,}",
                ", ".join(unknown),
            )
        return self._metrics.results()

    def baseline(self) -> Metrics:
        """Returns the metrics of predicting the tag O for each word."""
        return self._metrics.baseline()

    def undefined(self, metric: str) -> str:
        """Returns "no entity" if the correct tags have no entity, because F1 is then undefined."""
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
        """Returns the lines of a sentence, with the predicted tags added, as one text."""
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
