"""The files of a run about its dev split, for sweeps and exports: result, examples.

The result is in the file results.json. Each line of `dev_examples.jsonl` is a JSON
object: the texts of an example, with the names of the inputs of the exported model, and
the correct output. Imports no TensorFlow, so that `sweep.py` starts quickly.
"""

import dataclasses
import math
import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from bert_tf.storage import files, json_files
from bert_tf.tasks.task import DEV_EXAMPLES, RESULTS

NUM_EXAMPLES = 256


@dataclasses.dataclass(frozen=True)
class DevResult:
    """The result of a run on the first dev split.

    Attributes:
        metric: The name, in `results`, of the metric that selects the best weights.
        value: The value of this metric.
        baseline: The value for a constant prediction; None if it is unknown.
        results: All metrics, by name; None for a metric that is not finite.
    """

    task: str
    metric: str
    higher_is_better: bool
    value: float
    baseline: float | None
    results: Mapping[str, float | None]

    @property
    def is_degenerate(self) -> bool:
        """Whether the value is no better than the baseline. NaN is no better than anything."""
        if self.baseline is None:
            return False
        sign = 1 if self.higher_is_better else -1
        return not sign * self.value > sign * self.baseline

    def write(self, folder: str) -> None:
        """Writes results.json atomically."""
        finite = {
            name: value if math.isfinite(value or 0) else None
            for name, value in self.results.items()
        }
        values = {**dataclasses.asdict(self), "results": finite}
        files.write_json(os.path.join(folder, RESULTS), values)


def read_result(folder: str) -> DevResult | None:
    """Reads the results.json of a run; returns None if there is none."""
    path = os.path.join(folder, RESULTS)
    return DevResult(**json_files.read(path, own=True)) if files.exists(path) else None


def choose_examples(num_examples: int) -> set[int]:
    """Returns at most `NUM_EXAMPLES` indices of examples, evenly spaced in a split."""
    count = min(NUM_EXAMPLES, num_examples)
    return set(np.linspace(0, num_examples - 1, count).round().astype(int).tolist())


def write_examples(folder: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Writes the chosen examples, as `Task.as_row` returns them, to a run's folder."""
    files.write_json_lines(os.path.join(folder, DEV_EXAMPLES), rows)
