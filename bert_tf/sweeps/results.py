"""The results of a sweep: the best run, tables, and the HPARAMS page of TensorBoard.

The table and sweep.csv have a row for each combination of values.
"""

import csv
import dataclasses
import io
import math
import os
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence

from bert_tf.runs.dev_split import DevResult
from bert_tf.storage import files
from bert_tf.sweeps.plan import PlannedRun, Values
from bert_tf.tasks.tables import aligned

# The columns of sweep.csv that are the same for all runs of a cell.
_OF_CELL = ("std", "best", "failed", "degenerate")


@dataclasses.dataclass(frozen=True)
class Cell:
    """A combination of values, the results of its runs, and its number of failed runs."""

    values: Values
    runs: dict[PlannedRun, DevResult]
    failed: int

    @property
    def degenerate(self) -> dict[PlannedRun, DevResult]:
        """The runs that are no better than a constant prediction."""
        return {
            run: result for run, result in self.runs.items() if result.is_degenerate
        }

    def statistics(self) -> dict[str, float]:
        """Returns mean and best; for several results also the standard deviation (n - 1).

        Results that are not finite count as no result.
        """
        finite = [
            result.value for result in self.runs.values() if math.isfinite(result.value)
        ]
        if not finite:
            return {}
        figures = {
            "mean": statistics.fmean(finite),
            "best": self.runs[best_run(self.runs)].value,
        }
        if len(finite) > 1:
            figures["std"] = statistics.stdev(finite)
        return figures

    def row(self, decimals: int) -> dict[str, str]:
        """Returns the row of this cell in the table: a string for each column name."""
        numbers = {
            name: f"{value:.{decimals}f}" for name, value in self.statistics().items()
        }
        return {
            **dict(self.values),
            "runs": str(len(self.runs)),
            "failed": str(self.failed),
            "degenerate": str(len(self.degenerate)),
            "mean": "",
            "std": "",
            "best": "",
            **numbers,
            "best_seed": str(best_run(self.runs).seed) if numbers else "",
        }


def best_run(results: Mapping[PlannedRun, DevResult]) -> PlannedRun:
    """Returns the run with the best value, the first of equal runs; NaN is the worst value."""

    def rank(run: PlannedRun) -> float:
        value = results[run].value
        if math.isnan(value):
            return -math.inf
        return value if results[run].higher_is_better else -value

    return max(results, key=rank)


def make_cells(
    values: Iterable[Values],
    results: Mapping[PlannedRun, DevResult],
    failed: Collection[PlannedRun],
) -> list[Cell]:
    """Returns the cells of a sweep, in the order of the given combinations of values."""
    return [
        Cell(
            cell_values,
            {
                run: result
                for run, result in results.items()
                if run.values == cell_values
            },
            sum(run.values == cell_values for run in failed),
        )
        for cell_values in values
    ]


def as_csv(cells: Sequence[Cell]) -> str:
    """Returns the text of sweep.csv, which has a row for each cell."""
    text = io.StringIO()
    rows = [cell.row(decimals=6) for cell in cells]
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def as_table(cells: Sequence[Cell]) -> str:
    """Returns the table to print: fewer digits than sweep.csv, and degenerate runs marked."""
    rows = []
    notes = []
    for cell in cells:
        row = cell.row(decimals=4)
        row["degenerate"] += " *" * bool(cell.degenerate)
        rows.append(row)
        notes += [
            f"* {run.name}: {result.value:.4f} is no better than a constant prediction "
            f"({result.baseline:.4f})."
            for run, result in cell.degenerate.items()
        ]
    metrics = sorted(
        {dev_result.metric for cell in cells for dev_result in cell.runs.values()}
    )
    title = f"Results on the dev split ({', '.join(metrics or ['no results'])}):"
    lines = [list(rows[0]), *(list(row.values()) for row in rows)]
    return "\n".join([title, aligned(lines), *notes])


def write_hparams_page(
    folder: str, grid: Mapping[str, Sequence[str]], cells: Sequence[Cell]
) -> None:
    """Writes the HPARAMS page of TensorBoard to `folder`, and replaces the folder.

    Each run with a result is one session. The runs of a cell are one group of sessions,
    for which the page shows the mean of each metric.
    """
    import tensorflow as tf
    from tensorboard.plugins.hparams import api

    # Otherwise, TensorFlow reserves the memory of the GPUs.
    tf.config.set_visible_devices([], "GPU")
    metrics = sorted({result.metric for cell in cells for result in cell.runs.values()})
    numbers = {name for name, values in grid.items() if all(map(_is_number, values))}

    with files.atomic_folder(folder, "") as temporary:
        # The columns of the page.
        with tf.summary.create_file_writer(temporary).as_default():
            api.hparams_config(
                hparams=[api.HParam(name) for name in grid],
                metrics=[api.Metric(name) for name in (*metrics, *_OF_CELL)],
            )

        # A session for each run; the runs of a cell are a group.
        for cell in cells:
            values = {
                name: float(text) if name in numbers else text
                for name, text in cell.values
            }
            group = " ".join(f"{name}={text}" for name, text in cell.values)
            shared = {
                "std": 0.0,
                **cell.statistics(),
                "failed": cell.failed,
                "degenerate": len(cell.degenerate),
            }
            shared.pop("mean", None)  # the page shows the mean of each metric
            for run, result in cell.runs.items():
                scalars = {result.metric: result.value, **shared}
                path = os.path.join(temporary, run.name)
                with tf.summary.create_file_writer(path).as_default():
                    api.hparams(values, trial_id=group)
                    for name, value in scalars.items():
                        tf.summary.scalar(name, value, step=0)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
