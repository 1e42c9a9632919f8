"""The runs of a sweep and their commands, from the grid and the command line of the program."""

import collections
import dataclasses
import hashlib
import itertools
import math
import os
import sys
import urllib.parse
from collections.abc import Sequence

from bert_tf.errors import InputError

PROGRAMS = ("run_classifier", "run_squad", "run_swag", "run_ner")
# Flags that the sweep sets itself, and flags that would let the runs write to the same place.
_REFUSED = {
    "output_dir": "each run gets a folder in the --output_dir of the sweep",
    "seed": "the sweep sets it; see --seeds",
    "overwrite": "finished runs are kept; give another --output_dir to start again",
    "check_only": "the sweep checks each value before the first run",
    "flagfile": "the sweep must know all flags; give them themselves",
    "export_dir": "all runs would export to this folder; export the best run after the sweep",
}
_NEEDED = ("do_train", "do_eval")
# Flags of the task and of its dev split.
_DATA = (
    "task_name", "data_dir", "dev_file", "predict_file", "max_eval_examples", "tfds_name",
    "tfds_data_dir", "task_type", "labels", "text_a_column", "text_b_column", "label_column",
)  # fmt: skip
_FALSE = ("false", "f", "0")
_BOOLS = {"true": True, "t": True, "false": False, "f": False}
_MAX_NAME_BYTES, _HASH_DIGITS = 160, 12
# Each run is a process and a folder.
_MAX_RUNS = 10_000

# The texts of the values by the name of the flag, in the order of the command line.
Grid = dict[str, tuple[str, ...]]


@dataclasses.dataclass(frozen=True)
class PlannedRun:
    """A run of a sweep.

    Attributes:
        values: The value of each flag of the grid, as the user wrote it.
        seed: The seed.
    """

    values: tuple[tuple[str, str], ...]
    seed: int

    @property
    def name(self) -> str:
        """The name of the run's folder, such as "learning_rate=5e-5+train_batch_size=16+seed=1".

        Plus signs and not commas separate the parts, because some flags take folders that are
        separated by commas. Characters that are unsafe in the name of a file are written as in
        URLs, and the end of a long name is replaced by its hash.
        """
        pairs = (*self.values, ("seed", str(self.seed)))
        name = "+".join(f"{flag}={urllib.parse.quote(value, safe='')}" for flag, value in pairs)
        if len(name) <= _MAX_NAME_BYTES:
            return name
        return (
            f"{name[:_MAX_NAME_BYTES]}-{hashlib.sha256(name.encode()).hexdigest()[:_HASH_DIGITS]}"
        )


@dataclasses.dataclass(frozen=True)
class Plan:
    """The runs of a sweep.

    Attributes:
        grid: The values of each flag of the grid.
        seeds: The number of runs for each cell; their seeds are 1, 2, 3, ...
        program: One of `PROGRAMS`.
        flags: The flags that all runs have, as words of a command line.
        output_dir: The folder of the sweep.
    """

    grid: Grid
    seeds: int
    program: str
    flags: tuple[str, ...]
    output_dir: str

    def cells(self) -> list[tuple[tuple[str, str], ...]]:
        """Returns the combinations of values; the first flag of the grid varies slowest."""
        columns = ([(name, value) for value in values] for name, values in self.grid.items())
        return list(itertools.product(*columns))

    def runs(self) -> list[PlannedRun]:
        """Returns the runs: all seeds of the first cell, then those of the second cell, ..."""
        return [PlannedRun(cell, seed + 1) for cell in self.cells() for seed in range(self.seeds)]

    def folder(self, run: PlannedRun) -> str:
        """Returns the --output_dir of a run."""
        return os.path.join(self.output_dir, "runs", run.name)

    def command(self, run: PlannedRun) -> list[str]:
        """Returns the words of the command of a run."""
        grid_flags = [f"--{name}={value}" for name, value in run.values]
        return [
            sys.executable, "-m", f"bert_tf.run_scripts.{self.program}", *self.flags, *grid_flags,
            f"--seed={run.seed}", f"--output_dir={self.folder(run)}",
        ]  # fmt: skip


def make_plan(grid: Sequence[str], seeds: int, output_dir: str, command: Sequence[str]) -> Plan:
    """Returns the runs of a sweep.

    Args:
        grid: Texts such as "learning_rate=5e-5,4e-5", one for each flag.
        seeds: The number of runs for each cell.
        output_dir: The folder of the sweep.
        command: The program and its flags, such as ["run_classifier.py", "--task_name=MRPC"].

    Raises:
        InputError: A text is malformed, a name or a value is repeated, there are too many runs,
            the program is unknown, the command has a flag that the sweep sets, or the folder is a
            file.
    """
    if "://" in output_dir:
        raise InputError(
            f"--output_dir={output_dir} must be a local folder, because the sweep locks it."
        )
    if os.path.exists(output_dir) and not os.path.isdir(output_dir):
        raise InputError(f"--output_dir={output_dir} is a file. Give a folder.")
    if seeds < 1:
        raise InputError(f"--seeds must be at least 1. Received: {seeds}.")
    values = parse_grid(grid)
    count = math.prod(map(len, values.values())) * seeds
    if count > _MAX_RUNS:
        raise InputError(
            f"The grid and --seeds={seeds} give {count:,} runs, and a sweep has at most "
            f"{_MAX_RUNS:,}. Give fewer values or seeds."
        )
    program, flags = _parse_command(command, values)
    return Plan(values, seeds, program, flags, output_dir)


def parse_grid(texts: Sequence[str]) -> Grid:
    """Returns the values of each flag of the grid.

    Raises:
        InputError: A text has no name or no value, or a name or a value is repeated.
    """
    grid: Grid = {}
    for text in texts:
        name, equals, listed = text.partition("=")
        name = name.strip().lstrip("-")
        values = tuple(value.strip() for value in listed.split(","))
        if not (name and equals and all(values)):
            raise InputError(
                f"--grid={text} must be the name of a flag and its values, such as "
                "--grid=learning_rate=5e-5,4e-5."
            )
        if name in (*_REFUSED, *_NEEDED):
            reason = _REFUSED.get(name, "each run trains and evaluates")
            raise InputError(f"--grid={name} is not possible: {reason}.")
        if name in _DATA:
            raise InputError(
                f"--grid={name} is not possible, because a sweep compares runs of one task on one "
                "dev split. Start a sweep for each of them."
            )
        if name in grid:
            raise InputError(f"--grid={name} is given twice. Give all values in one --grid.")
        counts = collections.Counter(map(_number, values))
        repeated = [value for value in values if counts[_number(value)] > 1]
        if repeated:
            raise InputError(
                f"--grid={text} contains {' and '.join(repeated)}, which are equal. Give each "
                "value once."
            )
        grid[name] = values
    if not grid:
        raise InputError("The grid is empty. Give --grid, such as --grid=learning_rate=5e-5,4e-5.")
    return grid


def _number(text: str) -> float | str:
    """Returns a number, so that equal ones such as 5e-5 and 0.00005 are found, or else the text."""
    try:
        number = float(text)
    except ValueError:
        return _BOOLS.get(text.lower(), text)
    return text if math.isnan(number) else number  # NaN does not equal itself


def _parse_command(command: Sequence[str], grid: Grid) -> tuple[str, tuple[str, ...]]:
    """Returns the name of the program, and its flags with those that the sweep needs."""
    if not command:
        raise InputError(
            "The program is missing. Give it with its flags after --, such as "
            "-- run_classifier.py --task_name=MRPC."
        )
    name = os.path.basename(command[0]).removesuffix(".py")
    program = name.removeprefix("bert-tf-").replace("-", "_")  # also the name of a console script
    if program not in PROGRAMS:
        raise InputError(
            f"The program must be one of {', '.join(PROGRAMS)}. Received: {command[0]}."
        )
    given = {}
    for word in command[1:]:
        if not word.startswith("-"):
            raise InputError(f"{word!r} is not a flag. Flags are written --name=value.")
        name, _, value = word.lstrip("-").partition("=")
        for known in (*_REFUSED, *_NEEDED):
            if name == f"no{known}":
                name, value = known, "false"
        given[name] = value
    _check_flags(given, grid)
    return program, (*command[1:], *(f"--{name}=true" for name in _NEEDED if name not in given))


def _check_flags(given: dict[str, str], grid: Grid) -> None:
    for name, value in given.items():
        if name in _REFUSED:
            raise InputError(f"--{name} cannot be given after --: {_REFUSED[name]}.")
        if name in grid:
            raise InputError(f"--{name} is in the grid and after --. Give it once.")
        if name in _NEEDED and value.lower() in _FALSE:
            raise InputError(
                f"--{name}={value} cannot be given after --: each run trains and evaluates."
            )
