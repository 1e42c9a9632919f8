"""The metrics and the output files of a split."""

import logging
import os
from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np

from bert_tf import files
from bert_tf.errors import InputError
from bert_tf.tasks.ner.examples import NerExample
from bert_tf.tasks.ner.metrics import EntityMetrics
from bert_tf.tasks.ner.schemes import find_entities, to_tags, types_of
from bert_tf.tasks.prediction_files import LineFile, PredictionFiles
from bert_tf.tasks.task import Outputs
from bert_tf.tasks.text_tables import aligned

_LOGGER = logging.getLogger(__name__)
_SAMPLES = 10


class PredictedTags:
    """Converts the outputs of the model to tags.

    The entities of the predicted tags are written in another scheme, so that the tags have the
    scheme of the file, and no sequence that it forbids.

    Args:
        labels: The tags that the model predicts, in the order of its outputs.
        scheme: The scheme of the result.
    """

    def __init__(self, labels: Sequence[str], scheme: str) -> None:
        self._labels, self._scheme = labels, scheme

    def __call__(self, example: NerExample, outputs: Sequence[Outputs]) -> list[str]:
        """Returns the tag of each word of a sentence.

        Args:
            example: The sentence.
            outputs: For each record of the sentence, `predictions` and `label_ids`, int [S].
        """
        # The records are in the order of the words that have labels in them.
        found = [output["predictions"][output["label_ids"] > 0] for output in outputs]
        indices = np.concatenate([np.zeros(0, np.int64), *found]).tolist()
        entities = find_entities(self._labels[index] for index in indices)
        return to_tags(entities, len(example.words), self._scheme)


class TagReport:
    """Collects metrics and a few sentences.

    Args:
        labels: The tags that the model predicts.
    """

    def __init__(self, labels: Collection[str]) -> None:
        self._known_types = types_of(labels)
        self._metrics = EntityMetrics()
        self._samples: list[str] = []

    def add(self, example: NerExample, predicted: Sequence[str]) -> None:
        """Adds a sentence, if its tags are known, with the predicted tag of each word."""
        if example.tags is None:
            return
        self._metrics.add(example.words, example.tags, predicted)
        if len(self._samples) < _SAMPLES:
            self._samples.append(_as_text(example, predicted))

    def results(self) -> dict[str, float]:
        """Returns the metrics; {} if no sentence has tags."""
        if not self._metrics.num_words:
            return {}
        unknown = sorted(self._metrics.correct.keys() - self._known_types)
        if unknown:
            _LOGGER.warning(
                "warning: the model cannot predict %s entities, because their types are not in the "
                "train split: %s. They count as not found.",
                f"{sum(self._metrics.correct[each] for each in unknown):,}", ", ".join(unknown),
            )  # fmt: skip
        return self._metrics.results()

    def baseline(self) -> dict[str, float]:
        """Returns the metrics if each word has the tag O; see `EntityMetrics.baseline`."""
        return self._metrics.baseline()

    def text(self) -> str:
        """Returns a table of the scores by type, and the first sentences with their entities."""
        metrics = self._metrics
        types = sorted(metrics.correct.keys() | metrics.predicted.keys() | self._known_types)
        rows = [["type", "precision", "recall", "f1", "entities", "predicted"]]
        for name in types:
            note = "" if name in self._known_types else " (not in the train split)"
            cells = [f"{value:.2f}" for value in metrics.of_type(name)]
            counts = metrics.correct[name], metrics.predicted[name]
            rows.append([f"{name}{note}", *cells, *map(str, counts)])
        totals = metrics.correct.total(), metrics.predicted.total()
        cells = [f"{value:.2f}" for value in metrics.overall()]
        rows.append(["all", *cells, *map(str, totals)])
        return "\n".join([aligned(rows), "", *self._samples])


def _as_text(example: NerExample, predicted: Sequence[str]) -> str:
    correct = _with_brackets(example.words, example.tags or ())
    return f"predicted: {_with_brackets(example.words, predicted)}\ncorrect:   {correct}\n"


def _with_brackets(words: Sequence[str], tags: Sequence[str]) -> str:
    """Returns a sentence in which entities are in brackets, such as "[PER Ann] left ."."""
    parts = list(words)
    for entity in find_entities(tags):
        parts[entity.start] = f"[{entity.type} {parts[entity.start]}"
        parts[entity.end - 1] += "]"
    return " ".join(parts)


class NerScorer:
    """A `tasks.task.Scorer`: entity F1.

    Args:
        labels: The tags that the model predicts, in the order of its outputs.
        scheme: The scheme of the file.
    """

    def __init__(self, labels: Sequence[str], scheme: str) -> None:
        self._tags_of, self._report = PredictedTags(labels, scheme), TagReport(labels)

    def add(self, example: NerExample, outputs: Sequence[Outputs]) -> None:
        """Adds a sentence, with the outputs of the model for each of its windows."""
        self._report.add(example, self._tags_of(example, outputs))

    def results(self) -> dict[str, float]:
        """Returns the metrics of all sentences, in percent; see `EntityMetrics.results`.

        Raises:
            InputError: No sentence has words with known tags.
        """
        results = self._report.results()
        if not results:
            raise InputError(
                "The file to evaluate has no words with tags. Give a file with tags, or use "
                "do_predict instead of do_eval."
            )
        return results

    def baseline(self) -> dict[str, float]:
        """Returns the metrics if each word has the tag O; see `EntityMetrics.baseline`."""
        return self._report.baseline()

    def report(self) -> str:
        """Returns the scores by type, and the first sentences with their entities."""
        return self._report.text()


class NerWriter(PredictionFiles):
    """A `tasks.task.PredictionWriter`: writes the file of the split with a further column or key.

    If the tags of the split are known, it computes their metrics and writes the report.

    Args:
        folder: The output folder.
        name: The name of the file.
        report_name: The name of the report.
        render: Yields the lines of a sentence with the given tags.
        labels: The tags that the model predicts, in the order of its outputs.
        scheme: The scheme of the file.
    """

    def __init__(
        self,
        folder: str,
        name: str,
        report_name: str,
        render: Callable[[NerExample, list[str]], Iterator[str]],
        labels: Sequence[str],
        scheme: str,
    ) -> None:
        super().__init__(folder)
        self._name, self._report_name, self._render = name, report_name, render
        self._tags_of, self._report = PredictedTags(labels, scheme), TagReport(labels)
        self._results: dict[str, float] = {}

    def _open_files(self) -> None:
        self._file = self._open(self._name, LineFile)

    def _on_complete(self) -> None:
        self._results = self._report.results()
        if self._results:
            files.write_text(os.path.join(self._folder, self._report_name), self._report.text())

    def add(self, example: NerExample, outputs: Sequence[Outputs]) -> None:
        """Writes a sentence, with the outputs of the model for each of its windows."""
        tags = self._tags_of(example, outputs)
        for line in self._render(example, tags):
            self._file.add(line)
        self._report.add(example, tags)

    def results(self) -> dict[str, float]:
        """Returns the metrics after the file is complete; {} if no tags are known."""
        return self._results

    def baseline(self) -> dict[str, float]:
        """Returns the metrics if each word has the tag O; see `EntityMetrics.baseline`."""
        return self._report.baseline()
