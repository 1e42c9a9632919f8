"""Creates records on one machine, with several worker processes.

The results of all stages are files in a work folder next to the output, so that a killed run
can be resumed. With several workers, the main process does not import TensorFlow, because the
import takes seconds. A part is a range of the shuffled order (see `shuffling`).
"""

import concurrent.futures
import functools
import glob
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from bert_tf.data_prep.corpus import formats
from bert_tf.data_prep.pretraining_data import segments, stats
from bert_tf.data_prep.pretraining_data.settings import RecordsConfig
from bert_tf.data_prep.runners import outputs, preparation, stages, unpacking, work_folder
from bert_tf.data_prep.runners.job import RecordsJob
from bert_tf.data_prep.runners.preparation import Plans, Task
from bert_tf.data_prep.runners.stages import IntermediateFiles
from bert_tf.data_prep.runners.workers import Workers
from bert_tf.progress import Progress

# There is one worker, and one more for each full block of this many bytes. The text is counted
# `dupe_factor` times. For less text, one more worker would take more time to start (about 3 s) than
# the worker would save.
_BYTES_PER_WORKER = 16 << 20


def create(
    config: RecordsConfig,
    input_file: str,
    output_files: Sequence[str],
    num_workers: int,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Creates records, or resumes a run that was interrupted.

    Args:
        config: The settings that determine the bytes of the records.
        input_file: Comma-separated list of globs; not used if the input format is "tfds".
        output_files: Paths of the shards, or one path to which the shard numbers are added.
        num_workers: Largest number of processes, at least 1.
        overwrite: Whether existing records that were created with other settings may be replaced.

    Returns:
        The report for each split; empty if the records were already complete.

    Raises:
        InputError: Input or output cannot be used; the message names the remedy.
    """
    formats.check_names(input_file)
    size = _local_input_bytes(input_file) * config.dupe_factor
    with Workers(min(num_workers, 1 + size // _BYTES_PER_WORKER)) as workers:
        job, is_complete = workers.call(
            outputs.plan_job, config, input_file, tuple(output_files), overwrite
        )
        if is_complete:
            if workers.call(outputs.belongs_to_job, job.work_folder, job):
                work_folder.remove(job.work_folder)
            return {}
        with work_folder.locked_work_folder(job):
            job = unpacking.cut_input(job, job.work_folder, workers)
            sizes = segments.sizes(job.config, job.segments)
            files = IntermediateFiles(job.config, job.work_folder, sizes)
            workers.call(outputs.make_folders, job)
            bins = preparation.prepare(job, files, functools.partial(_run, workers, files))
            plans = {
                split: workers.call(stages.plan_parts, job.config, bins[split], len(paths))
                for split, paths in job.shards.items()
            }
            workers.call(outputs.remove_old_records, job)
            _mask(job, files, plans, workers)
            return dict(workers.call(outputs.write_manifest, job, files))


def _local_input_bytes(patterns: str) -> int:
    """Returns the size of local input in bytes, and a large number for other input.

    Does not import TensorFlow, because the import takes seconds.
    """
    if not patterns or "://" in patterns:
        return 1 << 40
    paths = (path for pattern in patterns.split(",") for path in glob.glob(pattern.strip()))
    return sum(os.path.getsize(path) for path in paths if os.path.isfile(path))


class PendingFile(NamedTuple):
    """A file that a worker process writes.

    Attributes:
        path: The file.
        size: The work that writing the file takes, in the unit of the progress report.
        wait: A function that waits until the file exists.
    """

    path: str
    size: int
    wait: Callable[[], Any]


def _run(
    workers: Workers,
    files: IntermediateFiles,
    name: str,
    unit: str,
    stage: Callable[..., None],
    tasks: Iterable[Task],
) -> None:
    """Is a `preparation.Runner` when the workers and the files are given."""
    pending = _start(workers, files, stage, tasks)
    with Progress(name, sum(file.size for file in pending), unit) as progress:
        list(_finished(pending, progress))


def _start(
    workers: Workers, files: IntermediateFiles, stage: Callable[..., None], tasks: Iterable[Task]
) -> list[PendingFile]:
    """Starts the calls of a stage, except those whose file an earlier run wrote."""
    return [
        PendingFile(path, size, lambda: None)
        if os.path.exists(path)
        else PendingFile(path, size, workers.submit(stage, files, *arguments))
        for path, size, arguments in tasks
    ]


def _finished(pending: Iterable[PendingFile], progress: Progress) -> Iterator[str]:
    """Waits for each file, and yields its path."""
    for file in pending:
        file.wait()
        progress.update(file.size)
        yield file.path


def _mask(job: RecordsJob, files: IntermediateFiles, plans: Plans, workers: Workers) -> None:
    """Masks all parts. The assembly of a shard starts before all parts of the shard are masked."""
    sampled = stats.sampled_share(sum(part.rows for plan in plans.values() for part in plan))
    completed = workers.call(outputs.completed_shards, job, files)
    parts = {}
    for split, shard in [key for key in job.shard_keys if key not in completed]:
        tasks = [
            Task(files.path("part", split, number), part.rows, (split, number, part, sampled))
            for number, part in enumerate(plans[split])
            if part.shard == shard
        ]
        parts[split, shard] = _start(workers, files, stages.mask_part, tasks)
    total = sum(file.size for files_ in parts.values() for file in files_)
    with (
        Progress("masking", total, "examples") as progress,
        concurrent.futures.ThreadPoolExecutor(workers.count) as threads,
    ):

        def assemble(key: tuple[str, int]) -> None:
            path, rows = job.shards[key[0]][key[1]], sum(part.size for part in parts[key])
            stages.assemble_shard(files, key, _finished(parts[key], progress), path, rows)
            for part in parts[key]:
                os.remove(part.path)

        try:
            # With one worker, the parts are masked in this thread, so that Ctrl-C stops
            # the masking.
            list((threads.map if workers.count > 1 else map)(assemble, parts))
        except BaseException:
            workers.stop()  # ends the threads too, because they wait for parts
            raise
