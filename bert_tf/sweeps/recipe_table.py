"""The table of a recipe: figures of the paper next to the results of runs.

`run_scripts/recipes/results_table.py` describes the rows, formulas and choices.
"""

import glob
import math
import os
import re
import statistics
from collections.abc import Callable, Iterable, Sequence

HEADER = ("label", "metric", "paper", "result", "runs")
_FORMULAS: tuple[tuple[str, Callable[[float], float]], ...] = (
    (r"100\*(\w+)", lambda value: 100 * value),
    (r"exp\((\w+)\)", math.exp),
    (r"(\w+)", lambda value: value),
)


def metrics_of(run: str) -> dict[str, float]:
    """Returns the metrics of the run in the folder `run`, by name; {} if there are none yet."""
    metrics = {}
    for name in ("eval_results.txt", "test_results.txt"):
        path = os.path.join(run, name)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                for line in file:
                    if " = " in line:
                        key, value = line.split(" = ")
                        metrics[key] = float(value)
    return metrics


def runs_of(folder: str) -> dict[str, dict[str, float]]:
    """Maps the folder of a run, or of each run of a sweep, to the metrics of that run."""
    runs = sorted(glob.glob(os.path.join(glob.escape(folder), "runs", "*"))) or [folder]
    return {run: metrics for run in runs if (metrics := metrics_of(run))}


def best_run(folder: str, metric: str) -> str | None:
    """Returns the folder of the run with the highest value of a metric; None if none has it.

    Of several equal runs, only one keeps its weights after a sweep. This run is
    returned.
    """
    values = {
        run: metrics[metric]
        for run, metrics in runs_of(folder).items()
        if math.isfinite(metrics.get(metric, math.nan))
    }

    def rank(run: str) -> tuple[float, bool]:
        return values[run], os.path.isdir(os.path.join(run, "checkpoints"))

    return max(values, key=rank, default=None)


def best_setting(folder: str, metric: str) -> list[str]:
    """Returns the runs of the setting with the highest mean of a metric; [] without results.

    A setting has several runs, whose names differ only after "+seed=".
    """
    settings: dict[str, list[str]] = {}
    runs = runs_of(folder)
    for run, metrics in runs.items():
        if math.isfinite(metrics.get(metric, math.nan)):
            settings.setdefault(run.partition("+seed=")[0], []).append(run)
    means = [
        (statistics.fmean(runs[run][metric] for run in chosen), chosen)
        for chosen in settings.values()
    ]
    return max(means, default=(0.0, []))[1]


def values_for(folder: str, formula: str, choice: str) -> list[float]:
    """Returns the values of a formula, such as "100*f1", for the runs that `choice` selects."""
    name, function = _parse(formula)
    runs = runs_of(folder)
    kind, _, metric = choice.partition(":")
    if kind == "best_run":
        best = best_run(folder, metric)
        chosen = [best] if best else []
    elif kind == "best_setting":
        chosen = best_setting(folder, metric)
    else:
        chosen = list(runs)
    return [function(runs[run][name]) for run in chosen if name in runs[run]]


def _parse(formula: str) -> tuple[str, Callable[[float], float]]:
    for pattern, function in _FORMULAS:
        if match := re.fullmatch(pattern, formula):
            return match[1], function
    raise ValueError(f"The formula {formula!r} is unknown.")


def with_results(rows: Iterable[str]) -> list[Sequence[str]]:
    """Returns the cells of the table: `HEADER`, then a row for each line of `rows`."""
    cells: list[Sequence[str]] = [HEADER]
    means: list[float | None] = []
    for row in rows:
        label, metric, paper, folder, formula, choice = row.rstrip("\n").split("\t")[:6]
        if formula == "mean_of_rows":
            known = [mean for mean in means if mean is not None]
            values = [statistics.fmean(known)] if len(known) == len(means) else []
        else:
            values = values_for(folder, formula, choice)
        means.append(statistics.fmean(values) if values else None)
        decimals = len(paper.partition(".")[2]) or 1
        result = f"{means[-1]:.{decimals}f}" if values else "-"
        cells.append((label, metric, paper, result, str(len(values))))
    return cells
