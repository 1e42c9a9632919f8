"""Runs the model over a split, and passes each example with its outputs to receivers."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from bert_tf.errors import InputError
from bert_tf.progress import Progress
from bert_tf.tasks import batches
from bert_tf.tasks.task import Outputs
from bert_tf.tasks.task_data import SplitData, TaskData, check_same_number


class Receiver(Protocol):
    """A `Scorer` or a `PredictionWriter`."""

    def add(self, example: Any, outputs: Sequence[Outputs]) -> None:
        """Adds an example, with the outputs of the model for each of its records, in order."""


class SplitEvaluator:
    """Runs a model over the splits of a task. Neither examples nor outputs are held in memory.

    Args:
        data: The splits and their records.
        outputs: Converts a batch to the outputs of the model; see `TaskObjective.outputs`.
        parse: Converts serialized records to a batch; see `batches.make_parser`.
    """

    def __init__(
        self,
        data: TaskData,
        outputs: Callable[[Any], dict[str, Any]],
        parse: Callable[[Any], dict[str, Any]],
    ) -> None:
        self._data, self._outputs, self._parse = data, outputs, parse
        self._forwards: dict[bool, Any] = {}

    def run(
        self,
        split: SplitData,
        receiver: Receiver,
        description: str,
        batch_size: int,
        must_be_finite: bool = False,
    ) -> None:
        """Passes each example of a split, with its outputs, to a receiver.

        Args:
            split: The split.
            receiver: Receives the examples in their order.
            description: Text for the progress display.
            batch_size: Records per batch.
            must_be_finite: Whether NaN and infinite outputs are an error.

        Raises:
            InputError: The file of the split changed after the start of the run, or an output is
                not finite.
        """
        records = self._data.records(split)
        per_example = records.index.records_per_example
        load = batches.make_loader(records, self._parse)
        # Batches with hidden states from a cache have other features.
        has_cache = records.cache is not None
        if has_cache not in self._forwards:
            self._forwards[has_cache] = batches.traced_once(self._outputs, load)
        outputs = batches.predict(records, load, self._forwards[has_cache], batch_size)
        number = 0
        with Progress(f"{description} {split.split.name}", split.num_examples, "examples") as shown:
            for number, example in enumerate(self._data.examples(split.split), start=1):
                if number > split.num_examples:
                    break
                count = 1 if per_example is None else int(per_example[number - 1])
                values = list(itertools.islice(outputs, count))
                if must_be_finite:
                    _check_finite(values, number, split.split.name)
                receiver.add(example, values)
                shown.update(1)
        check_same_number(split, number)


def _check_finite(outputs: Sequence[Outputs], number: int, split: str) -> None:
    for name, value in (item for each in outputs for item in each.items()):
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise InputError(
                f"The model's {name} for example {number} of the {split} split are NaN or "
                "infinite, so there is no prediction. Give precision=float32 or other weights."
            )
