"""Makes the records on one machine: which step is to be done, and by how many processes.

The results of the steps are files in a work folder beside the output, so that a run that was
killed goes on with what is missing. This process itself does not import TensorFlow if others work
for it: that takes seconds.

Imports `errors`, `progress`; numpy.
"""

import collections
import contextlib
import errno
import glob
import json
import os
import pathlib
import shutil
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bert_tf.errors import InputError
from bert_tf.progress import Progress
from data_prep.pretraining_data import reading, stats
from data_prep.pretraining_data.settings import RecordsConfig
from data_prep.runners import outputs, shards, shuffling, stages, work_folder
from data_prep.runners.assembling import Assembly
from data_prep.runners.outputs import Job
from data_prep.runners.stages import Work
from data_prep.runners.workers import Task, Workers

# A worker pays for its start (some 3 s) from about this much text, all passes counted.
_BYTES_PER_WORKER = 16 << 20


def create(
    config: RecordsConfig,
    input_file: str,
    output_files: Sequence[str],
    num_workers: int,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Makes records, or goes on making them.

    Args:
        config: What decides the bytes.
        input_file: Comma list of globs; not used for "tfds".
        output_files: The shards, or one name that is numbered `num_output_shards` times.
        num_workers: Most processes, at least 1.
        overwrite: Whether records made with other flags may be replaced.

    Returns:
        The report for each split; empty if the records were there already.

    Raises:
        InputError: Input or output that cannot be used; the message says what to change.
    """
    size = _input_bytes(input_file) * config.dupe_factor
    with Workers(min(num_workers, 1 + size // _BYTES_PER_WORKER)) as workers, _readable_errors():
        job, complete = workers.call(
            outputs.prepare, config, input_file, tuple(output_files), overwrite
        )
        if complete:
            if outputs.is_ours(job, job.work_folder):
                shutil.rmtree(job.work_folder, ignore_errors=True)
            return {}
        work = Work(job.config, job.work_folder, reading.sizes(job.config, job.segments))
        with work_folder.opened(job):
            workers.call(outputs.make_folders, job)
            _read(job, work, workers)
            plans = _pair(job, work, workers)
            workers.call(outputs.remove_old, job)
            _mask(job, work, plans, workers)
            return dict(workers.call(outputs.finish, job, *_summary(job, work, plans)))


def _input_bytes(patterns: str) -> int:
    """Size of local input, found without TensorFlow, which loads slowly; else taken as large."""
    if not patterns or "://" in patterns:
        return 1 << 40
    size = 0
    for path in (path for pattern in patterns.split(",") for path in glob.glob(pattern.strip())):
        # What cannot be read is named when it is read.
        with contextlib.suppress(OSError):
            size += os.path.getsize(path)
    return size


@contextlib.contextmanager
def _readable_errors() -> Iterator[None]:
    """A full disk or a folder that may not be written is for the user to mend."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _full_disk() from error
        if error.errno in (errno.EACCES, errno.EROFS, errno.EPERM, errno.ENOTDIR):
            raise InputError(f"{error.filename} cannot be written: {error.strerror}.") from error
        raise
    except Exception as error:
        # TensorFlow's own error; its class would have to be imported to be named.
        if type(error).__name__ == "ResourceExhaustedError" and "space" in str(error):
            raise _full_disk() from error
        raise


def _full_disk() -> InputError:
    return InputError(
        "The disk is full. Make room beside the output; the same command goes on where this run "
        "stopped."
    )


def _missing(steps: dict[str, Task]) -> "collections.deque[Task]":
    return collections.deque(task for path, task in steps.items() if not os.path.exists(path))


def _read(job: Job, work: Work, workers: Workers) -> None:
    """Reads and tokenizes all segments, and checks that there is enough text."""
    sizes = [sum(piece.end - piece.start for piece in segment) for segment in job.segments]
    tasks = _missing(
        {
            work.path("documents", work.splits[-1], number): (
                stages.read_segment,
                (work, number, segment),
            )
            for number, segment in enumerate(job.segments)
        }
    )
    unit = "examples" if job.config.input_format == "tfds" else "bytes"
    todo = sum(sizes[task[1][1]] for task in tasks)
    with Progress("reading", sum(sizes), unit, sum(sizes) - todo) as progress:
        for task, _ in workers.run(tasks):
            progress.update(sizes[task[1][1]])
    for split in work.splits:
        paths = work.paths("documents", split)
        outputs.check_enough(job, split, sum(map(shuffling.count_documents, paths)))


def _pair(job: Job, work: Work, workers: Workers) -> dict[str, list[shuffling.Part]]:
    """Pairs all segments; then the shards can be planned."""
    tasks = _missing(
        {
            work.path("rows", split, number) + ".keys": (stages.pair_segment, (work, split, number))
            for split in work.splits
            for number in range(len(work.sizes))
        }
    )
    total = len(work.sizes) * len(work.splits)
    with Progress("pairing", total, "segments", total - len(tasks)) as progress:
        for _ in workers.run(tasks):
            progress.update(1)
    plans = {}
    for split in work.splits:
        bins = sum(map(shuffling.count_bins, map(shuffling.load_keys, work.paths("rows", split))))
        row_bytes = workers.call(stages.row_bytes, job.config)
        plans[split] = shuffling.plan(np.asarray(bins), len(job.shards[split]), row_bytes)
    return plans


def _mask(job: Job, work: Work, plans: dict[str, list[shuffling.Part]], workers: Workers) -> None:
    """Makes all parts, and of them the shards."""
    total = done = sum(part.rows for parts in plans.values() for part in parts)
    sampled = stats.sampled_share(total)
    tasks: collections.deque[Task] = collections.deque()
    with Assembly(workers.count, job.config.compression) as assembly:
        for split, shard in _shards_to_make(job, work):
            numbers = [n for n, part in enumerate(plans[split]) if part.shard == shard]
            paths = [work.path("part", split, number) for number in numbers]
            assembly.start(paths, job.shards[split][shard], work.path("shard", split, shard))
            for number, path in zip(numbers, paths, strict=True):
                if os.path.exists(path):
                    assembly.arrivals.add(path)
                else:
                    part = plans[split][number]
                    done -= part.rows
                    tasks.append((stages.mask_part, (work, split, number, part, sampled)))
        with Progress("masking", total, "examples", done) as progress:
            for (_, (_, split, number, part, _)), _ in workers.run(tasks):
                progress.update(part.rows)
                assembly.arrivals.add(work.path("part", split, number))
                assembly.check()


def _shards_to_make(job: Job, work: Work) -> Iterator[tuple[str, int]]:
    """Split and number of each shard that is not there yet."""
    for split, names in job.shards.items():
        for number, name in enumerate(names):
            if not _is_made(name, work.path("shard", split, number)):
                yield split, number


def _is_made(shard: str, marker: str) -> bool:
    """Whether a shard is what its marker says; a marker without it is removed."""
    if not os.path.exists(marker):
        return False
    with open(marker, encoding="utf-8") as file:
        if json.load(file)["bytes"] == shards.size(shard):
            return True
    os.remove(marker)
    return False


def _summary(
    job: Job, work: Work, plans: dict[str, list[shuffling.Part]]
) -> tuple[dict[str, list[dict[str, Any]]], dict[str, stats.Stats]]:
    """What the manifest says of each shard, and what the records of each split hold."""
    made: dict[str, list[dict[str, Any]]] = {}
    counted = {}
    for split, parts in plans.items():
        examples = np.bincount([p.shard for p in parts], [p.rows for p in parts]).astype(int)
        made[split] = []
        for shard in range(len(job.shards[split])):
            with open(work.path("shard", split, shard), encoding="utf-8") as file:
                made[split].append({"examples": int(examples[shard]), **json.load(file)})
        paths = [pathlib.Path(work.path("stats", split, number)) for number in range(len(parts))]
        counted[split] = stats.total(stats.Stats.from_bytes(path.read_bytes()) for path in paths)
    return made, counted
