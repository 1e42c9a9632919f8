"""Makes the records on one machine: which step is to be done, and by how many processes.

The results of the steps are files in a work folder beside the output, so that a run that was
killed goes on with what is missing. This process itself does not import TensorFlow if others work
for it: that takes seconds.

Imports `errors`, `progress`; numpy.
"""

import collections
import contextlib
import errno
import fcntl
import glob
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bert_tf import files
from bert_tf.errors import InputError
from bert_tf.progress import Progress
from data_prep.pretraining_data import stats
from data_prep.pretraining_data.settings import RecordsConfig
from data_prep.runners import outputs, shuffling, stages
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
        work = Work(job.config, job.work_folder, len(job.segments))
        if complete:
            shutil.rmtree(work.folder, ignore_errors=True)
            return {}
        with _work_folder(job):
            _read(job, work, workers)
            plans = _pair(job, work, workers)
            workers.call(outputs.remove_old, job)
            _mask(job, work, plans, workers)
            return dict(workers.call(outputs.finish, job, *_summary(job, work, plans)))


def _input_bytes(patterns: str) -> int:
    """Size of local input, found without TensorFlow, which loads slowly; else taken as large."""
    if not patterns or "://" in patterns:
        return 1 << 40
    paths = [path for pattern in patterns.split(",") for path in glob.glob(pattern.strip())]
    return sum(os.path.getsize(path) for path in paths)


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


@contextlib.contextmanager
def _work_folder(job: Job) -> Iterator[None]:
    """Opens the work folder for this run alone; removes it when the records are done."""
    folder = job.work_folder
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise InputError(f"The folder {folder} cannot be made: {error.strerror}.") from error
    with open(os.path.join(folder, "lock"), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InputError(
                f"Another process is writing {job.base}. Wait for it, or give another output_file."
            ) from error
        for name in job.names:
            files.make_folder(os.path.dirname(name) or ".")
        _remove_leftovers(job)
        if not outputs.is_ours(job):
            _empty(folder)
            shuffling.write_small(os.path.join(folder, outputs.IDENTITY), job.identity)
        try:
            yield
        except InputError:
            if not glob.glob(os.path.join(folder, "rows-*")):
                shutil.rmtree(folder)  # The input was refused: nothing is left behind.
            raise
        shutil.rmtree(folder)


def _empty(folder: str) -> None:
    for entry in os.scandir(folder):
        if entry.name != "lock":
            os.remove(entry.path)


def _remove_leftovers(job: Job) -> None:
    """Removes temporary files of a killed run from beside the output."""
    for name in [*job.names, *(job.base + end for end in (".stats.json", ".manifest.json"))]:
        folder, base = os.path.split(name)
        for path in glob.glob(glob.escape(os.path.join(folder, files.hidden(base))) + "*.tmp"):
            os.remove(path)


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
        paths = [work.path("documents", split, number) for number in range(work.segments)]
        outputs.check_enough(job, split, sum(map(shuffling.count_documents, paths)))


def _pair(job: Job, work: Work, workers: Workers) -> dict[str, list[shuffling.Part]]:
    """Pairs all segments; then the shards can be planned."""
    tasks = _missing(
        {
            work.path("rows", split, number) + ".keys": (stages.pair_segment, (work, split, number))
            for split in work.splits
            for number in range(work.segments)
        }
    )
    total = work.segments * len(work.splits)
    with Progress("pairing", total, "segments", total - len(tasks)) as progress:
        for _ in workers.run(tasks):
            progress.update(1)
    plans = {}
    for split in work.splits:
        bins = sum(map(shuffling.count_bins, map(shuffling.load_keys, work.rows(split))))
        row_bytes = workers.call(stages.row_bytes, job.config)
        plans[split] = shuffling.plan(np.asarray(bins), len(job.shards[split]), row_bytes)
    return plans


def _mask(job: Job, work: Work, plans: dict[str, list[shuffling.Part]], workers: Workers) -> None:
    """Makes all parts and, as soon as a shard has all of its, the shard."""
    total = sum(part.rows for parts in plans.values() for part in parts)
    sampled = stats.sampled_share(total)
    tasks: collections.deque[Task] = collections.deque()
    waiting = _parts_of_shards(job, work, plans)
    done = total
    for (split, _), numbers in waiting.items():
        for number in sorted(numbers):
            if os.path.exists(work.path("part", split, number)):
                numbers.remove(number)
                continue
            part = plans[split][number]
            done -= part.rows
            tasks.append((stages.mask_part, (work, split, number, part, sampled)))
    for (split, shard), numbers in waiting.items():
        if not numbers:
            tasks.appendleft(_assembly(job, work, plans, split, shard))
    with Progress("masking", total, "examples", done) as progress:
        for (function, arguments), _ in workers.run(tasks):
            if function is not stages.mask_part:
                continue
            _, split, number, part, _ = arguments
            progress.update(part.rows)
            numbers = waiting[split, part.shard]
            numbers.remove(number)
            if not numbers:
                tasks.appendleft(_assembly(job, work, plans, split, part.shard))


def _parts_of_shards(
    job: Job, work: Work, plans: dict[str, list[shuffling.Part]]
) -> dict[tuple[str, int], set[int]]:
    """The parts of each shard that is not there yet."""
    found: dict[tuple[str, int], set[int]] = collections.defaultdict(set)
    for split, parts in plans.items():
        for number, part in enumerate(parts):
            if not _is_made(job.shards[split][part.shard], work.path("shard", split, part.shard)):
                found[split, part.shard].add(number)
    return found


def _is_made(shard: str, marker: str) -> bool:
    """Whether a shard is what its marker says; a marker without it is removed."""
    if not os.path.exists(marker):
        return False
    with open(marker, encoding="utf-8") as file:
        size = json.load(file)["bytes"]
    from tensorflow.io import gfile

    if gfile.exists(shard) and gfile.stat(shard).length == size:
        return True
    os.remove(marker)
    return False


def _assembly(
    job: Job, work: Work, plans: dict[str, list[shuffling.Part]], split: str, shard: int
) -> Task:
    parts = [number for number, part in enumerate(plans[split]) if part.shard == shard]
    return stages.assemble_shard, (work, split, shard, parts, job.shards[split][shard])


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
        paths = [work.path("stats", split, number) for number in range(len(parts))]
        counted[split] = stats.total(map(stats.Stats.load, paths))
    return made, counted
