"""The steps of a run, on any runner: cut, read, pair and mask the text, write shards and manifest.

All results are files, in the folder of the intermediate files. A runner is a function
that calls a stage once for each task. The main process then reads the counts and the
keys of all segments.
"""

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bert_tf.data_prep.corpus.seekable_files import seekable_files, unpack
from bert_tf.data_prep.pretraining_data import segments
from bert_tf.data_prep.runners import outputs, shuffling, stages
from bert_tf.data_prep.runners.job import RecordsJob
from bert_tf.data_prep.runners.stages import IntermediateFiles
from bert_tf.data_prep.runners.workers import Workers
from bert_tf.storage import files


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


# Arguments: a description of the work, its unit, the stage and the tasks. Returns after
# all tasks.
Runner = Callable[[str, str, Callable[..., None], Sequence[Task]], None]
# Arguments: the names of the files, and a task of `stages.mask_part` for each part.
Masker = Callable[[IntermediateFiles, Sequence[Task]], None]


def create_records(
    job: RecordsJob, workers: Workers, run: Runner, mask: Masker
) -> dict[str, dict[str, Any]]:
    """Runs all steps of a job, from its input to its manifest.

    Args:
        job: The job.
        workers: The processes that cut the input, plan the parts and write the
            manifest.
        run: Runs the tasks of a stage.
        mask: Masks the parts.

    Returns:
        The report for each split.
    """
    cut = _cut_input(job, workers, run)
    sizes = segments.sizes(job.config, cut)
    intermediate = IntermediateFiles(job.config, job.intermediate_folder, sizes)
    counts, bins = prepare(job, intermediate, cut, run)
    plans = {
        split: workers.call(stages.plan_parts, job.config, bins[split], len(paths))
        for split, paths in job.shards.items()
    }
    workers.call(outputs.remove_old_records, job)
    completed = workers.call(outputs.completed_shards, job, intermediate)
    parts, shards = [], []
    for split, number in job.shard_keys:
        plan = {n: part for n, part in enumerate(plans[split]) if part.shard == number}
        rows = {n: part.rows for n, part in plan.items()}
        marker, path = (
            intermediate.path("shard", split, number),
            job.shards[split][number],
        )
        shards.append(Task(marker, sum(rows.values()), (split, number, path, rows)))
        if (split, number) not in completed:
            parts += [
                Task(intermediate.path("part", split, n), part.rows, (split, n, part))
                for n, part in plan.items()
            ]
    mask(intermediate, parts)
    run("writing", "examples", partial(stages.assemble_shard, intermediate), shards)
    return dict(workers.call(outputs.write_manifest, job, intermediate, counts, plans))


def unfinished(tasks: Sequence[Task]) -> list[Task]:
    """Returns the tasks whose file does not exist yet.

    All files are in the same folder.
    """
    existing = {*files.list_folder(os.path.dirname(tasks[0].path))} if tasks else {}
    return [task for task in tasks if os.path.basename(task.path) not in existing]


def _cut_input(
    job: RecordsJob, workers: Workers, run: Runner
) -> list[segments.Segment]:
    """Cuts the input into segments (groups of whole documents).

    First unpacks packed files.

    Raises:
        InputError: A file cannot be read.
    """
    config = job.config
    found = [] if config.tfds_name else job.inputs
    formats = {each["path"]: each.get("format", config.input_format) for each in found}
    inputs = seekable_files(formats, job.intermediate_folder)
    packed = [file for file in inputs if file.path != file.source]
    if packed:
        tasks = [Task(file.path, 1, (file, config.text_feature)) for file in packed]
        run("unpacking", "files", unpack, tasks)
    cut: list[segments.Segment] = workers.call(segments.cut, config, inputs)
    return cut


def prepare(
    job: RecordsJob,
    intermediate: IntermediateFiles,
    cut: Sequence[segments.Segment],
    run: Runner,
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Reads and pairs all text, and checks that there is enough of it.

    Returns:
        For each split, the numbers of documents and of sentences, int64 [2]; and for
        each split, the number of rows in each bin (see `shuffling.count_bins`).

    Raises:
        InputError: The text cannot be read, or there is too little of it, or too much
            is truncated.
    """
    last_split = list(job.shards)[-1]
    sizes = intermediate.segment_sizes
    reading = [
        Task(
            intermediate.path("documents", last_split, number), size, (number, segment)
        )
        for number, (segment, size) in enumerate(zip(cut, sizes, strict=True))
    ]
    run("reading", "bytes", partial(stages.read_segment, intermediate), reading)
    counts: dict[str, np.ndarray] = {}
    for split in job.shards:
        paths = intermediate.segment_paths("documents", split)
        counts[split] = sum(map(shuffling.count_documents, paths), np.zeros(2, int))
    outputs.check_documents(job, counts)
    rows = {split: intermediate.segment_paths("rows", split) for split in job.shards}
    pairing = [
        Task(f"{path}.keys", 1, (split, number))
        for split, paths in rows.items()
        for number, path in enumerate(paths)
    ]
    run("pairing", "segments", partial(stages.pair_segment, intermediate), pairing)
    tokens = (
        shuffling.load_array(f"{path}.tokens", np.int64)
        for paths in rows.values()
        for path in paths
    )
    outputs.check_truncation(job, sum(tokens, np.zeros(2, int)))
    bins = {
        split: np.asarray(
            sum(shuffling.count_bins(shuffling.load_keys(path)) for path in paths)
        )
        for split, paths in rows.items()
    }
    return counts, bins
