"""Creates records on one machine, with several worker processes.

The results of all stages are files in a work folder next to the output, so that a killed run
can be resumed. With several workers, the main process does not import TensorFlow, because the
import takes seconds. A part is a range of the shuffled order (see `shuffling`).
"""

import concurrent.futures
import functools
import glob
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from bert_tf.data_prep.corpus import formats
from bert_tf.data_prep.pretraining_data import stats
from bert_tf.data_prep.pretraining_data.settings import RecordsConfig
from bert_tf.data_prep.runners import outputs, preparation, stages, work_folder
from bert_tf.data_prep.runners.job import RecordsJob
from bert_tf.data_prep.runners.preparation import Key, Plans, Stage, Task
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
            workers.call(outputs.make_folders, job)
            run, mask = (functools.partial(each, workers) for each in (_run, _mask))
            return preparation.create_records(job, job.work_folder, workers, run, mask)


def _local_input_bytes(patterns: str) -> int:
    """Returns the size of local input in bytes, and a large number for other input.

    Does not import TensorFlow, because the import takes seconds.
    """
    if not patterns or "://" in patterns:
        return 1 << 40
    paths = (path for pattern in patterns.split(",") for path in glob.glob(pattern.strip()))
    return sum(os.path.getsize(path) for path in paths if os.path.isfile(path))


def _run(
    workers: Workers,
    files: IntermediateFiles,
    name: str,
    unit: str,
    stage: Stage,
    tasks: Sequence[Task],
) -> None:
    """Is a `preparation.Runner` when the workers and the files are given."""
    waits = _start(workers, files, stage, tasks)
    with Progress(name, sum(task.size for task in tasks), unit) as progress:
        list(_finished(tasks, waits, progress))


def _start(
    workers: Workers, files: IntermediateFiles, stage: Stage, tasks: Iterable[Task]
) -> list[Callable[[], Any]]:
    """Starts the tasks of a stage, except those whose file an earlier run wrote.

    Returns:
        For each task, a function that waits until the file exists.
    """
    return [
        bool if os.path.exists(task.path) else workers.submit(stage, files, *task.arguments)
        for task in tasks
    ]


def _finished(
    tasks: Iterable[Task], waits: Iterable[Callable[[], Any]], progress: Progress
) -> Iterator[str]:
    """Waits for the file of each task, and yields its path."""
    for task, wait in zip(tasks, waits, strict=True):
        wait()
        progress.update(task.size)
        yield task.path


def _mask(
    workers: Workers,
    job: RecordsJob,
    files: IntermediateFiles,
    plans: Plans,
    completed: Collection[Key],
) -> None:
    """Masks all parts. The assembly of a shard starts before all parts of the shard are masked."""
    sampled = stats.sampled_share(sum(part.rows for plan in plans.values() for part in plan))
    parts, waits = {}, {}
    for split, shard in [key for key in job.shard_keys if key not in completed]:
        parts[split, shard] = [
            Task(files.path("part", split, number), part.rows, (split, number, part, sampled))
            for number, part in enumerate(plans[split])
            if part.shard == shard
        ]
        waits[split, shard] = _start(workers, files, stages.mask_part, parts[split, shard])
    total = sum(part.size for tasks in parts.values() for part in tasks)
    with (
        Progress("masking", total, "examples") as progress,
        concurrent.futures.ThreadPoolExecutor(workers.count) as threads,
    ):

        def assemble(key: Key) -> None:
            path, rows = job.shards[key[0]][key[1]], sum(part.size for part in parts[key])
            paths = _finished(parts[key], waits[key], progress)
            stages.assemble_shard(files, key, paths, path, rows)
            for part in parts[key]:
                os.remove(part.path)

        try:
            # With one worker, the parts are masked in this thread, so that Ctrl-C stops
            # the masking.
            list((threads.map if workers.count > 1 else map)(assemble, parts))
        except BaseException:
            workers.stop()  # ends the threads too, because they wait for parts
            raise
