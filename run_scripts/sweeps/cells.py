"""The table of a sweep and sweep.csv: one row for each combination of values."""

import csv
import dataclasses
import io
import math
import statistics
from collections.abc import Iterable, Sequence

from bert_tf.run_scripts.sweeps.plan import PlannedRun
from bert_tf.run_scripts.sweeps.store import Outcome
from bert_tf.tasks.text_tables import aligned

COLUMNS = ("runs", "failed", "degenerate", "mean", "std", "best", "best_seed")
_MARK = " *"


@dataclasses.dataclass(frozen=True)
class Cell:
    """The runs with one combination of values.

    Attributes:
        values: The values, with the names of their flags.
        runs: The runs that have a result, in the order of their seeds, with their results.
        failed: The number of runs without a result.
    """

    values: tuple[tuple[str, str], ...]
    runs: tuple[tuple[PlannedRun, Outcome], ...]
    failed: int

    @property
    def degenerate(self) -> int:
        """The number of runs that are no better than a constant prediction."""
        return sum(outcome.is_degenerate for _, outcome in self.runs)

    def statistics(self) -> dict[str, float]:
        """Returns mean and best, and for several runs the sample standard deviation (n - 1).

        Results that are not finite count as no result.
        """
        values = [outcome.value for _, outcome in self.runs if math.isfinite(outcome.value)]
        found = {}
        if values:
            found["mean"] = statistics.fmean(values)
            found["best"] = self._best()[1].value
        if len(values) > 1:
            found["std"] = statistics.stdev(values)
        return found

    def row(self) -> dict[str, str]:
        """Returns the texts of the row, by column."""
        numbers = {name: f"{value:.6f}" for name, value in self.statistics().items()}
        best_seed = str(self._best()[0].seed) if "best" in numbers else ""
        return {
            **dict(self.values), "runs": str(len(self.runs)), "failed": str(self.failed),
            "degenerate": str(self.degenerate), **numbers, "best_seed": best_seed,
        }  # fmt: skip

    def _best(self) -> tuple[PlannedRun, Outcome]:
        return max(self.runs, key=lambda each: each[1].rank)


def make_cells(
    values: Iterable[tuple[tuple[str, str], ...]], outcomes: dict[PlannedRun, Outcome]
) -> list[Cell]:
    """Returns the cells of a sweep, in the order of the given combinations of values."""
    cells = []
    for each in values:
        ended = [(run, outcome) for run, outcome in outcomes.items() if run.values == each]
        runs = tuple(pair for pair in ended if pair[1].has_result)
        cells.append(Cell(each, runs, len(ended) - len(runs)))
    return cells


def as_csv(names: Sequence[str], cells: Sequence[Cell]) -> str:
    """Returns the text of sweep.csv.

    Args:
        names: The names of the flags of the grid.
        cells: The cells.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, [*names, *COLUMNS], restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(cell.row() for cell in cells)
    return text.getvalue()


def as_table(names: Sequence[str], cells: Sequence[Cell]) -> str:
    """Returns the table for people: fewer digits than sweep.csv, and degenerate runs marked.

    The arguments are those of `as_csv`.
    """
    rows = [[*names, *COLUMNS]]
    for cell in cells:
        row = cell.row()
        row |= {name: f"{value:.4f}" for name, value in cell.statistics().items()}
        row["degenerate"] += _MARK if cell.degenerate else ""
        rows.append([row.get(name, "") for name in rows[0]])
    return "\n".join([_title(cells), aligned(rows), *_notes(cells)])


def _title(cells: Sequence[Cell]) -> str:
    outcomes = [outcome for cell in cells for _, outcome in cell.runs]
    metrics = sorted({outcome.metric for outcome in outcomes}) or ["no results"]
    return f"Results on the dev split ({', '.join(metrics)}):"


def _notes(cells: Sequence[Cell]) -> list[str]:
    """Returns a line for each degenerate run."""
    return [
        f"{_MARK.strip()} {run.name}: {outcome.value:.4f} is no better than a constant "
        f"prediction ({outcome.baseline:.4f})."
        for cell in cells
        for run, outcome in cell.runs
        if outcome.is_degenerate
    ]
