"""`DevResult`: the result of a run on the dev split, in the file results.json of its folder."""

import dataclasses
import math
import os
from collections.abc import Collection, Mapping
from typing import Any

from bert_tf import files, json_files
from bert_tf.errors import InputError
from bert_tf.tasks.task import RESULTS, Task


class _MetricRule(json_files.Rule):
    """A number that may be NaN, as the metric of a failed run."""

    def accepts(self, value: Any) -> bool:
        return isinstance(value, (int, float)) and not isinstance(value, bool)


METRIC = _MetricRule("a number", (float,))
_SCHEMA = {
    "task": json_files.TEXT, "metric": json_files.TEXT, "higher_is_better": json_files.TRUTH,
    "value": METRIC, "baseline": METRIC, "results": json_files.OBJECT,
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class DevResult:
    """The result of a run on the first dev split.

    Attributes:
        task: The name of the task.
        metric: The name, in `results`, of the metric that selects the best weights.
        higher_is_better: Whether higher values of this metric are better.
        value: The value of this metric.
        baseline: Its value for a constant prediction; None if it is unknown.
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
        files.write_json(os.path.join(folder, RESULTS), dataclasses.asdict(self))


def make_result(
    task: Task, suffixed: str, results: Mapping[str, float], baseline: Mapping[str, float]
) -> DevResult | None:
    """Returns the result of a run; None if the results do not contain the metric of the task.

    Args:
        task: The task.
        suffixed: The name of the task's metric in the results, such as "eval_accuracy".
        results: The metrics by name.
        baseline: The values of the metrics for a constant prediction; see `TaskResults.baseline`.
    """
    if suffixed not in results:
        return None
    metric, sign = task.best_by
    finite = {name: value if math.isfinite(value) else None for name, value in results.items()}
    return DevResult(
        task.name, suffixed, sign > 0, results[suffixed], baseline.get(metric), finite
    )  # fmt: skip


def read(folder: str) -> DevResult | None:
    """Reads the results.json of a run; returns None if there is none.

    Raises:
        InputError: The file is damaged.
    """
    path = os.path.join(folder, RESULTS)
    return DevResult(**read_fields(path, _SCHEMA)) if files.exists(path) else None


def read_fields(
    path: str, schema: json_files.Schema, nullable: Collection[str] = ("baseline",)
) -> dict[str, Any]:
    """Reads a JSON object that a run or a sweep wrote, with all keys of a schema and no others.

    Args:
        path: The file.
        schema: The rules of the keys.
        nullable: The keys whose values may be null.

    Raises:
        InputError: The file is damaged.
    """
    values = json_files.read(path, schema, own=True)
    wrong = values.keys() ^ schema.keys()
    wrong |= {name for name, value in values.items() if value is None and name not in nullable}
    if wrong:
        raise InputError(
            f"{path} is damaged: the key {min(wrong)!r} is missing, unknown or null. Remove the "
            "file, and give the command again that wrote it."
        )
    return values
