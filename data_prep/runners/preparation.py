"""The steps of a run, on any runner: cut, read and pair the text, mask it, write the manifest.

All results are files, in the folder of the intermediate files. A runner is a function that calls a
stage once for each task. The main process then reads the counts and the keys of all segments.
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bert_tf.data_prep.pretraining_data import segments
from bert_tf.data_prep.runners import outputs, shuffling, stages, unpacking
from bert_tf.data_prep.runners.job import RecordsJob
from bert_tf.data_prep.runners.stages import IntermediateFiles
from bert_tf.data_prep.runners.workers import Workers

Plans = dict[str, list[shuffling.Part]]


class Task(NamedTuple):
    """A call of a stage.

    Attributes:
        path: The file that the call writes last.
        size: The work that the call takes, in the unit of the progress report.
        arguments: The arguments of the stage, without the first, `IntermediateFiles`.
    """

    path: str
    size: int
    arguments: tuple[Any, ...]


Stage = Callable[..., None]
Key = tuple[str, int]  # a split, and the index of a part or a shard
# Arguments: a description of the work, its unit, the stage and the tasks. Returns after all tasks.
Runner = Callable[[str, str, Stage, Sequence[Task]], None]
# Arguments: the job, the files, the parts of each split, and the shards that are already complete.
Masker = Callable[[RecordsJob, IntermediateFiles, Plans, Collection[Key]], None]


def create_records(
    job: RecordsJob, folder: str, workers: Workers, run: Callable[..., None], mask: Masker
) -> dict[str, Any]:
    """Runs all steps of a job, from its input to its manifest.

    Args:
        job: The job without segments.
        folder: The folder of the intermediate files.
        workers: The processes that unpack the input, plan the parts and write the manifest.
        run: A `Runner` whose first argument is `IntermediateFiles`.
        mask: Masks the parts, and joins them into shards.

    Returns:
        The report for each split.
    """
    job = unpacking.cut_input(job, folder, workers)
    files = IntermediateFiles(job.config, folder, segments.sizes(job.config, job.segments))
    bins = prepare(job, files, partial(run, files))
    plans = {
        split: workers.call(stages.plan_parts, job.config, bins[split], len(paths))
        for split, paths in job.shards.items()
    }
    workers.call(outputs.remove_old_records, job)
    mask(job, files, plans, workers.call(outputs.completed_shards, job, files))
    return dict(workers.call(outputs.write_manifest, job, files))


def prepare(job: RecordsJob, files: IntermediateFiles, run: Runner) -> dict[str, np.ndarray]:
    """Reads and pairs all text, and checks that there is enough of it.

    Returns:
        For each split, the number of rows in each bin (see `shuffling.count_bins`).

    Raises:
        InputError: The text cannot be read, or there is too little of it, or too much is truncated.
    """
    last_split = list(job.shards)[-1]
    reading = [
        Task(
            files.path("documents", last_split, number),
            sum(piece.end - piece.start for piece in segment),
            (number, segment),
        )
        for number, segment in enumerate(job.segments)
    ]
    unit = "examples" if job.config.input_format == "tfds" else "bytes"
    run("reading", unit, stages.read_segment, reading)
    for split in job.shards:
        paths = files.segment_paths("documents", split)
        counts: np.ndarray = sum(map(shuffling.count_documents, paths), np.zeros(2, int))
        outputs.check_documents(job, files, split, counts)
    rows = {split: files.segment_paths("rows", split) for split in job.shards}
    pairing = [
        Task(f"{path}.keys", 1, (split, number))
        for split, paths in rows.items()
        for number, path in enumerate(paths)
    ]
    run("pairing", "segments", stages.pair_segment, pairing)
    tokens = (shuffling.load_token_counts(path) for paths in rows.values() for path in paths)
    outputs.check_truncation(job, sum(tokens, np.zeros(2, int)))
    return {
        split: np.asarray(sum(shuffling.count_bins(shuffling.load_keys(path)) for path in paths))
        for split, paths in rows.items()
    }
