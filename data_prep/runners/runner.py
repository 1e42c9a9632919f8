"""`Runner`: who executes the stages of record creation, on one machine or on several.

`local.LocalRunner` has processes of this machine, `dask.DaskRunner` the workers
of a cluster, and `beam.BeamRunner` pipelines.
"""

import collections
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from bert_tf.data_prep.runners import stages
from bert_tf.data_prep.runners.stages import IntermediateFiles
from bert_tf.progress import Progress
from bert_tf.storage import files

_Self = TypeVar("_Self", bound="Runner")


class Task(NamedTuple):
    """A call of a stage.

    Attributes:
        path: The file that the call writes last, in the work folder.
        size: The work that the call takes, in the unit of the progress report.
        arguments: The arguments of the stage.
    """

    path: str
    size: int
    arguments: tuple[Any, ...]


class Runner:
    """Executes calls of stages. A subclass overrides `submit`, or `run` and `mask`.

    Attributes:
        has_local_files: Whether the intermediate files must be on a local file system.
    """

    has_local_files = True

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Runs one call where TensorFlow is imported, and returns its result."""
        return function(*arguments)

    def submit(
        self, function: Callable[..., Any], *arguments: Any
    ) -> Callable[[], Any]:
        """Starts a call of a function at module level.

        Returns:
            A function that waits for the result of the call, and returns the result.
            The function may be called only once.
        """
        raise NotImplementedError

    def run(
        self, name: str, unit: str, stage: Callable[..., None], tasks: Sequence[Task]
    ) -> None:
        """Runs the tasks of a stage that are not finished, and waits for all of them.

        Args:
            name: A description of the work, for the progress report.
            unit: The unit of `Task.size`.
            stage: The function to call, at module level.
            tasks: The calls.
        """
        tasks = unfinished(tasks)
        waits = collections.deque(self.submit(stage, *task.arguments) for task in tasks)
        with Progress(name, sum(task.size for task in tasks), unit) as progress:
            for task in tasks:
                waits.popleft()()  # frees the result
                progress.update(task.size)

    def mask(self, intermediate: IntermediateFiles, parts: Sequence[Task]) -> None:
        """Masks and writes the parts: `run`, with tasks of `stages.mask_part`."""
        self.run("masking", "examples", partial(stages.mask_part, intermediate), parts)

    def check_folder(self, folder: str) -> None:
        """Checks that all processes read and write a folder."""

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, error_type: Any, error: Any, traceback: Any) -> None:
        """Ends the processes or the connection."""


def unfinished(tasks: Sequence[Task]) -> list[Task]:
    """Returns the tasks whose file does not exist yet. All files are in one folder."""
    existing = {*files.list_folder(os.path.dirname(tasks[0].path))} if tasks else {}
    return [task for task in tasks if os.path.basename(task.path) not in existing]
