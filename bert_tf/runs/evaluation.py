"""Runs the model over a split, and computes the results of the task."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bert_tf.errors import InputError
from bert_tf.progress import Progress
from bert_tf.runs import batches, dev_split
from bert_tf.runs.run_data import RunData, SplitData
from bert_tf.tasks.results import Metrics, Outputs, TaskResults, with_baselines
from bert_tf.tasks.splits import RowCounts, Split


class SplitEvaluator:
    """Runs the model of an objective over the splits of a task.

    Neither examples nor outputs are held in memory, except the examples in `sampled`.

    Attributes:
        sampled: The examples for `dev_split.write_examples` of each split that was
            read, by the name of the split.
        before_training: See `TaskResults`; by the name of the split.
    """

    def __init__(self, data: RunData, objective: Any) -> None:
        self.data = data
        self._multiple = batches.length_step(objective, data.config.max_seq_length)
        self.sampled: dict[str, list[dict[str, Any]]] = {}
        self.before_training: dict[str, Metrics] = {}
        self._objective = objective
        self._forwards: dict[Any, Any] = {}

    def parser(self, split: Split) -> batches.ToBatch:
        """Returns a function from serialized records of a split to a batch."""
        table = self.data.task.for_split(split).table
        return batches.make_parser(table, self.data.sizes(split), self._multiple)

    def score(self, split: SplitData) -> tuple[TaskResults, dict[str, float]]:
        """Evaluates a split with labels; returns its results, and its metrics with baselines."""
        results = self._make_results(split.split)
        batch_size = self.data.config.eval_batch_size
        for example, outputs in self._outputs_of(split, "evaluating", batch_size):
            results.add(example, results.decode(example, outputs))

        values = with_baselines(results)
        if not values:
            raise InputError(
                f"No example of {split.split.source.name} has a label or an answer, so "
                "there is nothing to evaluate. Give a file with labels, or use "
                "do_predict instead of do_eval."
            )
        return results, values

    def write(self, split: SplitData) -> TaskResults:
        """Writes the predictions for a split; raises `InputError` if an output is not finite."""
        results = self._make_results(split.split)
        batch_size = self.data.config.predict_batch_size
        pairs = self._outputs_of(split, "predicting", batch_size, finite=True)
        decoded = (
            (example, results.decode(example, outputs)) for example, outputs in pairs
        )
        results.write(self.data.folder, decoded)
        return results

    def _make_results(self, split: Split) -> TaskResults:
        results = self.data.task.make_results(split)
        results.before_training = self.before_training.get(split.name, {})
        return results

    def _outputs_of(
        self, data: SplitData, description: str, batch_size: int, finite: bool = False
    ) -> Iterator[tuple[Any, list[Outputs]]]:
        """Yields each example of a split, in order, with its outputs.

        If `finite` is True, NaN and infinite outputs raise `InputError`.
        """
        # The outputs of each record, in the order of the file. Batches with hidden
        # states from a cache have other features, so another function is traced.
        split, records = data.split, data.records
        load = batches.make_loader(records, self.parser(split))
        features = (bool(records.caches), *self.data.sizes(split).items())
        if features not in self._forwards:
            self._forwards[features] = batches.compiled_forward(
                self._objective.outputs, self._objective.variables, load
            )
        outputs = batches.predict(records, load, self._forwards[features], batch_size)

        # The examples are read again, and each one gets the outputs of its records.
        per_example = records.index.records_per_example
        rows = self.sampled[split.name] = []
        chosen = dev_split.choose_examples(data.num_examples)
        number = 0
        title = f"{description} {split.name}"
        with Progress(title, data.num_examples, "examples") as shown:
            examples = self.data.task.read(split, RowCounts())
            for number, example in enumerate(examples, start=1):
                if number > data.num_examples:
                    break
                count = 1 if per_example is None else int(per_example[number - 1])
                values = list(itertools.islice(outputs, count))
                if number - 1 in chosen and (row := self.data.task.as_row(example)):
                    rows.append(row)
                if finite:
                    _check_finite(values, number, split.name)
                yield example, values
                shown.update(1)

        if number != data.num_examples:
            raise InputError(
                f"{split.source.name} does not have {data.num_examples} "
                "examples any more. Run the command again, without changing the file "
                "meanwhile."
            )


def _check_finite(outputs: Sequence[Outputs], number: int, split: str) -> None:
    for output in outputs:
        for name, value in output.items():
            if value.dtype.kind == "f" and not np.isfinite(value).all():
                raise InputError(
                    f"The model's {name} for example {number} of the {split} split are "
                    "NaN or infinite, so there is no prediction. Give "
                    "precision=float32 or other weights."
                )
