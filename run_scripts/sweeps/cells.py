"""The table of a sweep and sweep.csv: one row for each combination of values."""

import csv
import dataclasses
import io
import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence

from bert_tf.fine_tuning.dev_result import DevResult
from bert_tf.run_scripts.sweeps.plan import PlannedRun
from bert_tf.run_scripts.sweeps.store import best_run
from bert_tf.tasks.tables import aligned


@dataclasses.dataclass(frozen=True)
class Cell:
    """The runs with one combination of values.

    Attributes:
        values: The values, with the names of their flags.
        runs: The runs that have a result, in the order of their seeds, with their
            results.
        failed: The number of runs without a result.
    """

    values: tuple[tuple[str, str], ...]
    runs: dict[PlannedRun, DevResult]
    failed: int

    @property
    def degenerate(self) -> dict[PlannedRun, DevResult]:
        """The runs that are no better than a constant prediction."""
        return {
            run: result for run, result in self.runs.items() if result.is_degenerate
        }

    def statistics(self) -> dict[str, float]:
        """Returns mean and best, and for several runs the sample standard deviation (n - 1).

        Results that are not finite count as no result.
        """
        finite = [
            each.value for each in self.runs.values() if math.isfinite(each.value)
        ]
        if not finite:
            return {}
        found = {
            "mean": statistics.fmean(finite),
            "best": self.runs[best_run(self.runs)].value,
        }
        return {**found, "std": statistics.stdev(finite)} if len(finite) > 1 else found

    def row(self, decimals: int) -> dict[str, str]:
        """Returns the texts of the row, by column."""
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


def make_cells(
    values: Iterable[tuple[tuple[str, str], ...]],
    results: Mapping[PlannedRun, DevResult],
    failed: Collection[PlannedRun],
) -> list[Cell]:
    """Returns the cells of a sweep, in the order of the given combinations of values.

    Args:
        values: The combinations.
        results: The runs that have a result.
        failed: The runs that have none.
    """
    return [
        Cell(
            each,
            {run: result for run, result in results.items() if run.values == each},
            sum(run.values == each for run in failed),
        )
        for each in values
    ]


def as_csv(cells: Sequence[Cell]) -> str:
    """Returns the text of sweep.csv."""
    text, rows = io.StringIO(), [cell.row(decimals=6) for cell in cells]
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def as_table(cells: Sequence[Cell]) -> str:
    """Returns the table for people: fewer digits than sweep.csv, and degenerate runs marked."""
    rows, notes = [], []
    for cell in cells:
        row = cell.row(decimals=4)
        row["degenerate"] += " *" * bool(cell.degenerate)
        rows.append(row)
        notes += [
            f"* {run.name}: {result.value:.4f} is no better than a constant prediction "
            f"({result.baseline:.4f})."
            for run, result in cell.degenerate.items()
        ]
    metrics = sorted({each.metric for cell in cells for each in cell.runs.values()})
    title = f"Results on the dev split ({', '.join(metrics or ['no results'])}):"
    lines = [list(rows[0]), *(list(row.values()) for row in rows)]
    return "\n".join([title, aligned(lines), *notes])
