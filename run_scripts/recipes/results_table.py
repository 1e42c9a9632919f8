r"""The table at the end of a recipe: figures of the paper next to the results.

    results_table.py results < rows   reads a row on each line, prints the table as TSV
    results_table.py show table.tsv   prints a TSV file with aligned columns
    results_table.py best DIR METRIC  prints the run of a sweep with the highest METRIC
    results_table.py value FILE NAME  prints a value of a JSON file

The fields of a row, separated by tabs: label, name of the metric, figure of the paper,
folder, formula, choice. The folder is that of a run, or of a sweep with several runs in
runs/. The formula is the name of a metric in eval_results.txt or test_results.txt, such
as eval_f1, or 100*eval_accuracy, or exp(masked_lm_loss), or mean_of_rows for the mean
of all rows above. The choice selects runs of a sweep: best_run:METRIC is the run with
the highest value of a metric, and best_setting:METRIC the runs of the setting whose
seeds have the highest mean of the metric. The result is the mean over the selected
runs, or "-" if there is none yet.
"""

import json
import sys
from typing import NoReturn

from bert_tf.sweeps.recipe_table import best_run, with_results


def main(command: str, *arguments: str) -> None:
    """Runs one of the commands that the docstring of the module describes."""
    if command == "results":
        print("\n".join("\t".join(row) for row in with_results(sys.stdin)))
    elif command == "show":
        from bert_tf.tasks.tables import aligned

        with open(arguments[0], encoding="utf-8") as file:
            print(aligned([line.rstrip("\n").split("\t") for line in file]))
    elif command == "best":
        print(best_run(*arguments) or _stop(*arguments))
    elif command == "value":
        with open(arguments[0], encoding="utf-8") as file:
            print(json.load(file)[arguments[1]])


def _stop(folder: str, metric: str) -> NoReturn:
    print(f"error: no run in {folder} has the result {metric}.", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main(*sys.argv[1:])
