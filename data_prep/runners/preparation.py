"""The steps of a run, on any runner: cut, read, pair and mask the text, write shards.

All results are files, in the folder of the intermediate files. The main process reads
the counts and the keys of all segments.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from bert_tf.data_prep.corpus.seekable_files import seekable_files, unpack
from bert_tf.data_prep.pretraining_data import segments
from bert_tf.data_prep.pretraining_data.settings import RecordsConfig
from bert_tf.data_prep.runners import outputs, shuffling, stages, work_folder
from bert_tf.data_prep.runners.job import RecordsJob
from bert_tf.data_prep.runners.runner import Runner, Task
from bert_tf.data_prep.runners.stages import IntermediateFiles


def create_records(
    runner: Runner,
    config: RecordsConfig,
    input_file: str,
    output_files: Sequence[str],
    overwrite: bool,
) -> dict[str, dict[str, Any]]:
    """Runs all steps, from the input to the manifest.

    Args:
        runner: Executes the stages.
        config: The settings that determine the bytes of the records.
        input_file: Comma-separated list of globs; not used if the input format is
            "tfds".
        output_files: Paths of the shards, or one path to which the shard numbers are
            added.
        overwrite: Whether existing records that were created with other settings may be
            replaced.

    Returns:
        The report for each split; empty if the records were already complete.

    Raises:
        InputError: Input or output cannot be used; the message names the remedy.
    """
    job = runner.call(
        outputs.plan_job,
        *(config, input_file, tuple(output_files), overwrite, runner.has_local_files),
    )
    if job is None:
        return {}

    # The processes end before the folder of their files is unlocked.
    with work_folder.locked(job), runner:
        runner.check_folder(job.intermediate_folder)
        return _create(job, runner)


def _create(job: RecordsJob, runner: Runner) -> dict[str, dict[str, Any]]:
    cut = _cut_input(job, runner)
    sizes = segments.sizes(job.config, cut)
    intermediate = IntermediateFiles(job.config, job.intermediate_folder, sizes)
    counts, bins = prepare(job, intermediate, cut, runner)
    plans = {
        split: runner.call(stages.plan_parts, job.config, bins[split], len(paths))
        for split, paths in job.shards.items()
    }

    # From here on, the earlier records are replaced. Shards that an interrupted run of
    # this job has written are kept.
    runner.call(outputs.remove_old_records, job)
    completed = runner.call(outputs.completed_shards, job, intermediate)

    # A part is masked for each shard that is missing.
    parts, shards = [], []
    for split, number in job.shard_keys:
        plan = {n: part for n, part in enumerate(plans[split]) if part.shard == number}
        rows = {n: part.rows for n, part in plan.items()}
        marker = intermediate.path("shard", split, number)
        path = job.shards[split][number]
        shards.append(Task(marker, sum(rows.values()), (split, number, path, rows)))
        if (split, number) not in completed:
            parts += [
                Task(intermediate.path("part", split, n), part.rows, (split, n, part))
                for n, part in plan.items()
            ]
    runner.mask(intermediate, parts)

    # The parts of each shard are joined.
    stage = partial(stages.assemble_shard, intermediate)
    runner.run("writing", "examples", stage, shards)
    return dict(runner.call(outputs.write_manifest, job, intermediate, counts, plans))


def _cut_input(job: RecordsJob, runner: Runner) -> list[segments.Segment]:
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
        runner.run("unpacking", "files", unpack, tasks)
    cut: list[segments.Segment] = runner.call(segments.cut, config, inputs)
    return cut


def prepare(
    job: RecordsJob,
    intermediate: IntermediateFiles,
    cut: Sequence[segments.Segment],
    runner: Runner,
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Reads and pairs all text, and checks that there is enough of it.

    Returns:
        For each split, the numbers of documents and of sentences, int64 [2]; and for
        each split, the number of rows in each bin (see `shuffling.count_bins`).

    Raises:
        InputError: The text cannot be read, or there is too little of it, or too much
            is truncated.
    """
    # Text to token ids; the file of the last split is written last.
    last_split = list(job.shards)[-1]
    sizes = intermediate.segment_sizes
    reading = [
        Task(
            intermediate.path("documents", last_split, number), size, (number, segment)
        )
        for number, (segment, size) in enumerate(zip(cut, sizes, strict=True))
    ]
    runner.run("reading", "bytes", partial(stages.read_segment, intermediate), reading)

    counts: dict[str, np.ndarray] = {}
    for split in job.shards:
        paths = intermediate.segment_paths("documents", split)
        counts[split] = sum(map(shuffling.count_documents, paths), np.zeros(2, int))
    outputs.check_documents(job, counts)

    # Documents to rows, which are not masked yet.
    rows = {split: intermediate.segment_paths("rows", split) for split in job.shards}
    pairing = [
        Task(f"{path}.keys", 1, (split, number))
        for split, paths in rows.items()
        for number, path in enumerate(paths)
    ]
    runner.run(
        "pairing", "segments", partial(stages.pair_segment, intermediate), pairing
    )

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
