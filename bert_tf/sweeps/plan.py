"""Plans the runs of a sweep and their commands, from the grid and the given command."""

import dataclasses
import itertools
import os
import sys
import urllib.parse
from collections.abc import Sequence

from bert_tf.errors import InputError

PROGRAMS = ("run_classifier", "run_squad", "run_swag", "run_ner", "run_embedding")
# Flags that only the sweep may set.
_OWN = {
    "output_dir": "each run gets a folder in the --output_dir of the sweep",
    "seed": "the sweep sets it; see --seeds",
    "overwrite": "finished runs are kept; give another --output_dir to start again",
    "export_dir": "all runs would export to this folder; export the best run after "
    "the sweep",
}
_NEEDED = ("do_train", "do_eval")
# Flags of the task and of its dev split.
_DATA = (
    "task_name",
    "data_dir",
    "dev_file",
    "predict_file",
    "max_eval_examples",
    "tfds_name",
    "tfds_data_dir",
    "task_type",
    "labels",
    "label_column",
    "eval_fraction",
    "xnli_language",
)
_ONE_TASK = (
    "a sweep compares runs of one task on one dev split. Start a sweep for each of them"
)
# Why a flag cannot be in the grid.
_NOT_IN_GRID = {**dict.fromkeys(_DATA, _ONE_TASK), **_OWN}

# The texts of the values by the name of the flag, in the order of the command line.
Grid = dict[str, tuple[str, ...]]
# A value of each flag of the grid, with its name.
Values = tuple[tuple[str, str], ...]


@dataclasses.dataclass(frozen=True)
class PlannedRun:
    """A run of a sweep: for each flag of the grid, a value as the user wrote it, and a seed."""

    values: Values
    seed: int

    @property
    def name(self) -> str:
        """The name of the run's folder, such as "learning_rate=5e-5+seed=1".

        Plus signs and not commas separate the parts, because some flags take folders
        that are separated by commas. Characters that are unsafe in the name of a file
        are written as in URLs.
        """
        pairs = (*self.values, ("seed", str(self.seed)))
        return "+".join(
            f"{flag}={urllib.parse.quote(value, safe='')}" for flag, value in pairs
        )


@dataclasses.dataclass(frozen=True)
class Plan:
    """The runs of a sweep.

    Attributes:
        seeds: The number of runs for each cell (combination of values of the grid).
            The seeds of these runs are 1, 2, 3, ...
        program: One of `PROGRAMS`.
        flags: The flags that all runs have, as words of a command line.
    """

    grid: Grid
    seeds: int
    program: str
    flags: tuple[str, ...]
    output_dir: str

    def cells(self) -> list[Values]:
        """Returns the combinations of values; the first flag of the grid varies slowest."""
        columns = (
            [(name, value) for value in values] for name, values in self.grid.items()
        )
        return list(itertools.product(*columns))

    def runs(self) -> list[PlannedRun]:
        """Returns the runs: all seeds of the first cell, then all seeds of the next cell, ..."""
        return [
            PlannedRun(cell, seed + 1)
            for cell in self.cells()
            for seed in range(self.seeds)
        ]

    def folder(self, run: PlannedRun) -> str:
        """Returns the --output_dir of a run."""
        return os.path.join(self.output_dir, "runs", run.name)

    def command(self, run: PlannedRun) -> list[str]:
        """Returns the words of the command of a run."""
        return [
            sys.executable,
            "-m",
            f"bert_tf.run_scripts.{self.program}",
            *self.flags,
            *(f"--{name}={value}" for name, value in run.values),
            f"--seed={run.seed}",
            f"--output_dir={self.folder(run)}",
        ]


def make_plan(
    grid: Sequence[str], seeds: int, output_dir: str, command: Sequence[str]
) -> Plan:
    """Returns the runs of a sweep, after a check of the arguments.

    `grid` has a text such as "learning_rate=5e-5,4e-5" for each flag. `command` is the
    program and its flags, such as ["run_classifier.py", "--task_name=MRPC"].
    """
    if "://" in output_dir:
        raise InputError(
            f"--output_dir={output_dir} must be a local folder, because the sweep "
            "locks it."
        )
    values = parse_grid(grid)
    return Plan(values, seeds, *_parse_command(command, values), output_dir)


def parse_grid(texts: Sequence[str]) -> Grid:
    """Returns the values of each flag of the grid, after a check of names and values."""
    grid: Grid = {}
    for text in texts:
        name, _, listed = text.partition("=")
        name = name.strip().lstrip("-")
        values = tuple(value.strip() for value in listed.split(","))
        if not (name and all(values)):
            raise InputError(
                f"--grid={text} must be the name of a flag and its values, such as "
                "--grid=learning_rate=5e-5,4e-5."
            )
        if name in _NOT_IN_GRID:
            raise InputError(f"--grid={name} is not possible: {_NOT_IN_GRID[name]}.")
        if name in grid or len(set(values)) < len(values):
            raise InputError(
                f"--grid={text} repeats a flag or a value. Give each of them once."
            )
        grid[name] = values
    return grid


def _parse_command(command: Sequence[str], grid: Grid) -> tuple[str, tuple[str, ...]]:
    """Returns the program and its flags; adds --do_train and --do_eval if they are missing."""
    first_word = command[0] if command else "no program"
    name = os.path.basename(first_word).removesuffix(".py")
    # It may be the name of a console script.
    program = name.removeprefix("bert-tf-").replace("-", "_")
    if program not in PROGRAMS:
        raise InputError(
            f"The program must be one of {', '.join(PROGRAMS)}. Received: {first_word}. "
            "Give it with its flags after --, such as -- run_classifier.py "
            "--task_name=MRPC."
        )

    # Flags that the sweep sets and flags in the grid raise an error.
    names = {
        word.lstrip("-").partition("=")[0]
        for word in command[1:]
        if word.startswith("-")
    }
    for name in sorted(names & (_OWN.keys() | grid.keys())):
        reason = _OWN.get(name, "it is in the grid")
        raise InputError(f"--{name} cannot be given after --: {reason}.")

    added = [f"--{name}=true" for name in _NEEDED if name not in names]
    return program, (*command[1:], *added)
