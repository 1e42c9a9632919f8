"""`Runner`, which executes the stages of record creation, and the steps of a run.

`local.LocalRunner` has processes of this machine, `dask.DaskRunner` the workers of a
cluster, and `beam.BeamRunner` pipelines. The steps are: cut, read, pair and mask the
text, write shards. The results of all steps are files in the folder of the intermediate
files. Of these, the main process reads only the counts and the keys of all segments.
"""

import collections
import dataclasses
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bert_tf.corpus.sources import seekable_files, unpack
from bert_tf.progress import Progress
from bert_tf.record_creation import segments
from bert_tf.record_creation.records_config import RecordsConfig
from bert_tf.record_creation.segments import Segment
from bert_tf.record_jobs import records_job, shuffling, stages
from bert_tf.record_jobs.outputs import (
    check_documents,
    check_truncation,
    plan_job,
    remove_old_records,
    write_manifest,
)
from bert_tf.record_jobs.records_job import RecordsJob
from bert_tf.storage import files


class WorkUnit(NamedTuple):
    """A call of a stage.

    Attributes:
        path: The file that the call writes last. If it exists, the call is finished.
        size: The amount of work of the call, in the unit of the progress report.
    """

    path: str
    size: int
    arguments: tuple[Any, ...]


class Runner:
    """Executes calls of stages. A subclass overrides `submit`, or `run` and `mask`.

    If `has_local_files` is true, the intermediate files must be on a local file system.
    """

    has_local_files = True

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function in a process that has TensorFlow imported; returns its result."""
        return function(*arguments)

    def submit(
        self, function: Callable[..., Any], *arguments: Any
    ) -> Callable[[], Any]:
        """Starts a call of a function at module level.

        Returns a function that waits for the result of the call, and returns the
        result. The function may be called only once.
        """
        raise NotImplementedError

    def run(
        self,
        name: str,
        unit: str,
        stage: Callable[..., None],
        tasks: Sequence[WorkUnit],
    ) -> None:
        """Runs the tasks of a stage that are not finished, and waits for all of them.

        `stage` is a function at module level, and `unit` is the unit of
        `WorkUnit.size`.
        """
        tasks = unfinished(tasks)
        waits = collections.deque(self.submit(stage, *task.arguments) for task in tasks)
        with Progress(name, sum(task.size for task in tasks), unit) as progress:
            for task in tasks:
                waits.popleft()()  # frees the result
                progress.update(task.size)

    def mask(self, job: RecordsJob, parts: Sequence[WorkUnit]) -> None:
        """Masks and writes the parts: calls `run` with the stage `stages.mask_part`."""
        self.run("masking", "examples", partial(stages.mask_part, job), parts)

    def check_folder(self, folder: str) -> None:
        """Checks that all processes can read and write a folder; by default, checks nothing."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, error_type: Any, error: Any, traceback: Any) -> None:
        """Ends the worker processes or closes the connection, if the subclass has any."""


def unfinished(tasks: Sequence[WorkUnit]) -> list[WorkUnit]:
    """Returns the tasks whose file does not exist yet. All files are in one folder."""
    existing = {*files.list_folder(os.path.dirname(tasks[0].path))} if tasks else {}
    return [task for task in tasks if os.path.basename(task.path) not in existing]


def create_records(
    runner: Runner,
    config: RecordsConfig,
    input_file: str,
    output_files: Sequence[str],
    overwrite: bool = False,
) -> dict[str, dict[str, Any]]:
    """Runs all steps, from the input to the manifest.

    Args:
        input_file: Comma-separated list of globs; not used if the input format is
            "tfds".
        output_files: Paths of the shards, or one path to which the shard numbers are
            added.
        overwrite: Whether records that were created with other settings may be
            replaced.

    Returns:
        The report for each split; empty if the records were already complete.
    """
    job = runner.call(
        plan_job, config, input_file, output_files, overwrite, runner.has_local_files
    )
    if job is None:
        return {}

    # The processes end before the folder of their files is unlocked.
    with records_job.locked_work_folder(job), runner:
        runner.check_folder(job.intermediate_folder)
        return _create(job, runner)


def _create(job: RecordsJob, runner: Runner) -> dict[str, dict[str, Any]]:
    cut = _cut_input(job, runner)
    job = dataclasses.replace(job, segment_sizes=segments.sizes(job.config, cut))
    counts, bins = prepare(job, cut, runner)
    plans = {
        split: runner.call(stages.plan_parts, job.config, bins[split], len(paths))
        for split, paths in job.shards.items()
    }

    # From here on, the earlier records are replaced.
    runner.call(remove_old_records, job)
    shards = []
    for split, number in job.shard_keys:
        parts = enumerate(plans[split])
        rows = {n: part.rows for n, part in parts if part.shard == number}
        marker = job.path("shard", split, number)
        shards.append(WorkUnit(marker, sum(rows.values()), (split, number, rows)))

    # The parts of each missing shard are masked.
    missing = (shard.arguments for shard in unfinished(shards))
    runner.mask(
        job,
        [
            WorkUnit(job.path("part", split, n), count, (split, n, plans[split][n]))
            for split, _, rows in missing
            for n, count in rows.items()
        ],
    )

    # The parts of each shard are joined.
    runner.run("writing", "examples", partial(stages.assemble_shard, job), shards)
    return runner.call(write_manifest, job, counts, plans)


def _cut_input(job: RecordsJob, runner: Runner) -> list[Segment]:
    """Unpacks packed files, then cuts the input into segments (groups of whole documents)."""
    config = job.config
    entries = [] if config.tfds_name else job.inputs
    formats = {
        entry["path"]: entry.get("format", config.input_format) for entry in entries
    }
    inputs = seekable_files(formats, job.intermediate_folder)
    packed = [file for file in inputs if file.path != file.source]
    if packed:
        tasks = [WorkUnit(file.path, 1, (file, config.text_feature)) for file in packed]
        runner.run("unpacking", "files", unpack, tasks)
    return runner.call(segments.cut, config, inputs)


def prepare(
    job: RecordsJob,
    cut: Sequence[Segment],
    runner: Runner,
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Runs the stages read and pair, and checks documents and truncation.

    Returns:
        For each split, the numbers of documents and of sentences, int64 [2]; and for
        each split, the number of rows in each bin (see `shuffling.count_bins`).
    """
    # Text to token ids; the file of the last split is written last.
    last_split = list(job.shards)[-1]
    sizes = job.segment_sizes
    reading = [
        WorkUnit(job.path("documents", last_split, number), size, (number, segment))
        for number, (segment, size) in enumerate(zip(cut, sizes, strict=True))
    ]
    runner.run("reading", "bytes", partial(stages.read_segment, job), reading)

    documents = {split: job.segment_paths("documents", split) for split in job.shards}
    counts: dict[str, Any] = {
        split: sum(map(shuffling.count_documents, paths), np.zeros(2, int))
        for split, paths in documents.items()
    }
    check_documents(job, counts)

    # Documents to rows, which are not masked yet.
    rows = {split: job.segment_paths("rows", split) for split in job.shards}
    pairing = [
        WorkUnit(f"{path}.keys", 1, (split, number))
        for split, paths in rows.items()
        for number, path in enumerate(paths)
    ]
    runner.run("pairing", "segments", partial(stages.pair_segment, job), pairing)

    tokens = (
        shuffling.load_array(f"{path}.tokens", np.int64)
        for paths in rows.values()
        for path in paths
    )
    check_truncation(job, sum(tokens, np.zeros(2, int)))

    bins = {
        split: np.asarray(sum(map(shuffling.count_bins, paths)))
        for split, paths in rows.items()
    }
    return counts, bins
