"""The same records on Apache Beam, for corpora beyond one machine; needs the [beam] extra.

The steps are those of `stages`, and so are the bytes: a segment's documents go to all segments
that draw random next sentences from them, rows go to the part of the shuffled order they fall in,
parts to their shard. Between machines travel documents and rows; parts are files beside the
output, which all workers must be able to write.

Imports `files`, `errors`; Apache Beam and TensorFlow inside functions.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from bert_tf import files
from bert_tf.errors import InputError
from data_prep.pretraining_data import corpus, pairing, reading, stats
from data_prep.pretraining_data.settings import RecordsConfig
from data_prep.runners import outputs, shards, shuffling, stages
from data_prep.runners.outputs import Job

Key = tuple[str, int]
Plans = dict[str, list[shuffling.Part]]


def create(
    config: RecordsConfig,
    input_file: str,
    output_files: Sequence[str],
    beam_options: Sequence[str],
    overwrite: bool = False,
) -> dict[str, Any]:
    """Makes records, as `local.create`.

    Args:
        config: What decides the bytes.
        input_file: Comma list of globs.
        output_files: The shards, or one name that is numbered.
        beam_options: Options of Beam, such as "--runner=FlinkRunner".
        overwrite: Whether records made with other flags may be replaced.

    Returns:
        The report for each split; empty if the records were there already.

    Raises:
        InputError: Beam is not installed, or as `local.create`.
    """
    try:
        import apache_beam as beam
    except ImportError as error:
        raise InputError('runner=beam needs Apache Beam: pip install "bert-tf[beam]".') from error
    job, complete = outputs.prepare(config, input_file, tuple(output_files), overwrite)
    if complete:
        return {}
    outputs.remove_old(job)
    options = beam.options.pipeline_options.PipelineOptions(list(beam_options))
    try:
        with beam.Pipeline(options=options) as pipeline:
            build(pipeline, job)
    except Exception as error:
        # Runners wrap what a step raises, each in its own way.
        if found := re.search(r"InputError: (.*?)(?: \[while running|$)", str(error), re.M):
            raise InputError(found[1]) from error
        raise
    _remove_parts(job)
    return dict(outputs.read_reports(job))


def build(pipeline: Any, job: Job) -> None:
    """Adds all steps to a Beam pipeline."""
    import apache_beam as beam

    numbers = range(len(job.segments))
    users: dict[int, list[int]] = {number: [number] for number in numbers}
    for user in numbers:
        for number in pairing.pool_of(job.config, user, len(job.segments)):
            users[number].append(user)
    documents = (
        pipeline
        | "segments" >> beam.Create(list(enumerate(job.segments)))
        | "spread" >> beam.Reshuffle()
        | "read" >> beam.FlatMap(_read, job.config, {k: sorted(set(v)) for k, v in users.items()})
    )
    _ = (
        documents
        | "own" >> beam.Filter(lambda keyed: keyed[0][1] == keyed[1][0])
        | "sizes" >> beam.MapTuple(lambda key, numbered: (key[0], len(numbered[1])))
        | "sum" >> beam.CombinePerKey(sum)
        | "check" >> beam.MapTuple(lambda split, count: outputs.check_enough(job, split, count))
    )
    rows = (
        documents
        | "to users" >> beam.GroupByKey()
        | "pair" >> beam.FlatMap(_pair, job.config, len(job.segments))
    )
    plans = beam.pvalue.AsDict(
        rows
        | "bins" >> beam.MapTuple(lambda key, rows: (key[0], shuffling.count_bins(rows["key"])))
        | "count" >> beam.CombinePerKey(lambda counts: np.sum(list(counts), axis=0))
        | "plan" >> beam.Map(_plan, job)
    )
    made = (
        rows
        | "route" >> beam.FlatMap(_route, plans)
        | "to parts" >> beam.GroupByKey()
        | "mask" >> beam.Map(_mask, job, plans)
        | "to shards" >> beam.GroupByKey()
        | "assemble" >> beam.Map(_assemble, job)
    )
    _ = (
        made
        | "all" >> beam.Map(lambda shard: (None, shard))
        | "together" >> beam.GroupByKey()
        | "finish" >> beam.Map(_finish, job)
    )


def _read(
    numbered: tuple[int, reading.Segment], config: RecordsConfig, users: dict[int, list[int]]
) -> Iterator[tuple[Key, tuple[int, corpus.Documents]]]:
    number, segment = numbered
    dealt = stages.dealt(config, stages.tokenized(config, number, segment))
    for split, documents in dealt.items():
        for user in users[number]:
            yield (split, user), (number, documents)


def _pair(
    grouped: tuple[Key, Iterable[tuple[int, corpus.Documents]]], config: RecordsConfig, count: int
) -> Iterator[tuple[tuple[str, int, int], np.ndarray]]:
    (split, number), documents = grouped
    found = dict(documents)
    pool = [found[each] for each in pairing.pool_of(config, number, count)]
    for batch, rows in enumerate(stages.paired(config, found[number], pool)):
        yield (split, number, batch), rows


def _plan(counted: tuple[str, np.ndarray], job: Job) -> tuple[str, list[shuffling.Part]]:
    split, bins = counted
    size = stages.row_bytes(job.config)
    return split, shuffling.plan(bins, len(job.shards[split]), size)


def _route(
    keyed: tuple[tuple[str, int, int], np.ndarray], plans: Plans
) -> Iterator[tuple[Key, tuple[int, int, np.ndarray]]]:
    """Rows to the parts whose bins they are in; a bin at a border is in two."""
    (split, number, batch), rows = keyed
    for index, part in enumerate(plans[split]):
        mine = shuffling.slice_of(rows["key"], part)
        if mine.stop > mine.start or (part.rows == 0 and number == 0):
            yield (split, index), (number, batch, rows[mine])


def _mask(
    grouped: tuple[Key, Iterable[tuple[int, int, np.ndarray]]], job: Job, plans: Plans
) -> tuple[Key, tuple[int, int, stats.Stats]]:
    (split, index), slices = grouped
    part = plans[split][index]
    ordered = [rows for _, _, rows in sorted(slices, key=lambda piece: piece[:2])]
    total = sum(each.rows for parts in plans.values() for each in parts)
    rows = shuffling.in_order(np.concatenate(ordered), part)
    counts = [stats.Stats.empty(job.config)]
    with files.replacing(_part_path(job, split, index)) as temporary:
        sampled = stats.sampled_share(total)
        shards.write_records(temporary, stages.encoded(job.config, rows, sampled, counts))
    return (split, part.shard), (index, part.rows, stats.total(counts))


def _assemble(
    grouped: tuple[Key, Iterable[tuple[int, int, stats.Stats]]], job: Job
) -> tuple[Key, dict[str, Any], stats.Stats]:
    (split, shard), parts = grouped
    ordered = sorted(parts, key=lambda part: part[0])
    paths = [_part_path(job, split, index) for index, _, _ in ordered]
    made = shards.assemble(paths, job.shards[split][shard], job.config.compression)
    examples = sum(rows for _, rows, _ in ordered)
    return (split, shard), {"examples": examples, **made}, stats.total(s for _, _, s in ordered)


def _finish(
    grouped: tuple[None, Iterable[tuple[Key, dict[str, Any], stats.Stats]]], job: Job
) -> None:
    made: dict[str, list[dict[str, Any]]] = {split: [] for split in job.shards}
    counts: dict[str, list[stats.Stats]] = {split: [] for split in job.shards}
    for (split, _), facts, counted in sorted(grouped[1], key=lambda shard: shard[0]):
        made[split].append(facts)
        counts[split].append(counted)
    outputs.finish(job, made, {split: stats.total(each) for split, each in counts.items()})


def _parts_folder(job: Job) -> str:
    folder, name = os.path.split(job.base)
    return os.path.join(folder, f".{name}.parts")


def _part_path(job: Job, split: str, index: int) -> str:
    return os.path.join(_parts_folder(job), f"part-{split}-{index:06d}")


def _remove_parts(job: Job) -> None:
    from tensorflow.io import gfile

    if gfile.exists(_parts_folder(job)):
        gfile.rmtree(_parts_folder(job))
