"""The same records on Apache Beam, for corpora beyond one machine; needs the [beam] extra.

The steps are those of `stages`, and so are the bytes: a segment's documents go to all segments
that draw random next sentences from them, rows go to the part of the shuffled order they fall in,
parts to their shard. Between machines travel documents and rows; parts are files beside the
output, which all workers must be able to write. A run that failed goes on: text is read and paired
again, but shards that are made are not made again.

Imports `files`, `errors`; Apache Beam and TensorFlow inside functions.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from bert_tf import files
from bert_tf.errors import InputError
from data_prep.pretraining_data import corpus, pairing, reading, stats
from data_prep.pretraining_data.settings import RecordsConfig
from data_prep.runners import outputs, shards, shuffling, stages, work_folder
from data_prep.runners.outputs import Job

Key = tuple[str, int]
Plans = dict[str, list[shuffling.Part]]
Made = dict[Key, tuple[dict[str, Any], stats.Stats]]


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
    options = beam.options.pipeline_options.PipelineOptions(list(beam_options))
    with work_folder.opened(job):
        outputs.make_folders(job)
        try:
            made = _made(job)
            with beam.Pipeline(options=options) as pipeline:
                build(pipeline, job, made)
        except Exception as error:
            _remove_parts(job)
            if message := _input_error(error):
                raise InputError(message) from error
            raise
        files.remove(job.parts_folder)
    return dict(outputs.read_reports(job))


def _input_error(error: Exception) -> str | None:
    """What an `InputError` of a step says; runners wrap it, each in its own way."""
    kind = r"\A" if isinstance(error, InputError) else "InputError: "
    found = re.search(kind + r"(.*?)(?: \[while running|$)", str(error), re.M)
    return found[1] if found else None


def build(pipeline: Any, job: Job, made: Made) -> None:
    """Adds all steps to a Beam pipeline, but for shards that are made."""
    import apache_beam as beam

    sizes = reading.sizes(job.config, job.segments)
    documents = (
        pipeline
        | "segments" >> beam.Create(list(enumerate(job.segments)))
        | "spread" >> beam.Reshuffle()
        | "read" >> beam.FlatMap(_read, job.config, _users(job.config, sizes))
    )
    checked = (
        documents
        | "own" >> beam.Filter(lambda keyed: keyed[0][1] == keyed[1][0])
        | "sizes" >> beam.MapTuple(lambda key, numbered: (key[0], len(numbered[1])))
        | "sum" >> beam.CombinePerKey(sum)
        | "check" >> beam.MapTuple(lambda split, count: outputs.check_enough(job, split, count))
        | "both" >> beam.combiners.Count.Globally()
        | "remove old" >> beam.Map(lambda _: outputs.remove_old(job))
    )
    rows = (
        documents
        | "to users" >> beam.GroupByKey()
        | "pair" >> beam.FlatMap(_pair, job.config, sizes)
    )
    plans = beam.pvalue.AsDict(
        rows
        | "bins" >> beam.MapTuple(lambda key, rows: (key[0], shuffling.count_bins(rows["key"])))
        | "count" >> beam.CombinePerKey(lambda counts: np.sum(list(counts), axis=0))
        | "plan" >> beam.Map(_plan, job)
    )
    fresh = (
        rows
        | "route" >> beam.FlatMap(_route, plans, frozenset(made))
        | "to parts" >> beam.GroupByKey()
        # No file of the output is touched before the input is found good.
        | "mask" >> beam.Map(_mask, job, plans, beam.pvalue.AsList(checked))
        | "to shards" >> beam.GroupByKey()
        | "assemble" >> beam.Map(_assemble, job)
    )
    earlier = pipeline | "made" >> beam.Create([(key, *facts) for key, facts in made.items()])
    _ = (
        (fresh, earlier)
        | "shards" >> beam.Flatten()
        | "all" >> beam.Map(lambda shard: (None, shard))
        | "together" >> beam.GroupByKey()
        | "finish" >> beam.Map(_finish, job, beam.pvalue.AsList(checked))
    )


def _users(config: RecordsConfig, sizes: Sequence[int]) -> dict[int, list[int]]:
    """For each segment, those that draw random next sentences from it, and itself."""
    users: dict[int, set[int]] = {number: {number} for number in range(len(sizes))}
    for user in range(len(sizes)):
        for number in pairing.pool_segments(config, user, sizes):
            users[number].add(user)
    return {number: sorted(those) for number, those in users.items()}


def _read(
    numbered: tuple[int, reading.Segment], config: RecordsConfig, users: dict[int, list[int]]
) -> Iterator[tuple[Key, tuple[int, corpus.Documents]]]:
    number, segment = numbered
    dealt = stages.dealt(config, stages.tokenized(config, number, segment))
    for split, documents in dealt.items():
        for user in users[number]:
            yield (split, user), (number, documents)


def _pair(
    grouped: tuple[Key, Iterable[tuple[int, corpus.Documents]]],
    config: RecordsConfig,
    sizes: Sequence[int],
) -> Iterator[tuple[tuple[str, int, int], np.ndarray]]:
    (split, number), documents = grouped
    found = dict(documents)
    own, pool = found[number], pairing.pool_segments(config, number, sizes)
    joined = corpus.Documents.joined([own, *(found[each] for each in pool)])
    for batch, rows in enumerate(stages.paired(config, joined, len(own))):
        yield (split, number, batch), rows


def _plan(counted: tuple[str, np.ndarray], job: Job) -> tuple[str, list[shuffling.Part]]:
    split, bins = counted
    size = stages.row_bytes(job.config)
    return split, shuffling.plan(bins, len(job.shards[split]), size)


def _route(
    keyed: tuple[tuple[str, int, int], np.ndarray], plans: Plans, made: Collection[Key]
) -> Iterator[tuple[Key, tuple[int, int, np.ndarray]]]:
    """Rows to the parts whose bins they are in; a bin at a border is in two."""
    (split, number, batch), rows = keyed
    for index, part in enumerate(plans[split]):
        if (split, part.shard) in made:
            continue
        mine = shuffling.slice_of(rows["key"], part)
        if mine.stop > mine.start or (part.rows == 0 and number == 0):
            yield (split, index), (number, batch, rows[mine])


def _mask(
    grouped: tuple[Key, Iterable[tuple[int, int, np.ndarray]]],
    job: Job,
    plans: Plans,
    checked: Sequence[None],
) -> tuple[Key, tuple[int, int, stats.Stats]]:
    del checked  # Beam makes it before.
    (split, index), slices = grouped
    part = plans[split][index]
    ordered = [rows for _, _, rows in sorted(slices, key=lambda piece: piece[:2])]
    total = sum(each.rows for parts in plans.values() for each in parts)
    rows = shuffling.in_order(np.concatenate(ordered), part)
    counts = [stats.Stats.empty(job.config)]
    with files.atomic_replace(_path(job, "part", split, index)) as temporary:
        sampled = stats.sampled_share(total)
        shards.write_records(temporary, stages.encoded(job.config, rows, sampled, counts))
    return (split, part.shard), (index, part.rows, stats.total(counts))


def _assemble(
    grouped: tuple[Key, Iterable[tuple[int, int, stats.Stats]]], job: Job
) -> tuple[Key, dict[str, Any], stats.Stats]:
    (split, shard), parts = grouped
    ordered = sorted(parts, key=lambda part: part[0])
    paths = [_path(job, "part", split, index) for index, _, _ in ordered]
    made = shards.assemble(paths, job.shards[split][shard], job.config.compression)
    facts = {"examples": sum(rows for _, rows, _ in ordered), **made}
    counts = stats.total(counted for _, _, counted in ordered)
    files.write_bytes(_path(job, "stats", split, shard), counts.to_bytes())
    files.write_json(_path(job, "shard", split, shard), facts)
    return (split, shard), facts, counts


def _finish(
    grouped: tuple[None, Iterable[tuple[Key, dict[str, Any], stats.Stats]]],
    job: Job,
    checked: Sequence[None],
) -> None:
    del checked
    made: dict[str, list[dict[str, Any]]] = {split: [] for split in job.shards}
    counts: dict[str, list[stats.Stats]] = {split: [] for split in job.shards}
    for (split, _), facts, counted in sorted(grouped[1], key=lambda shard: shard[0]):
        made[split].append(facts)
        counts[split].append(counted)
    outputs.finish(job, made, {split: stats.total(each) for split, each in counts.items()})


def _path(job: Job, kind: str, split: str, number: int) -> str:
    """Name of an intermediate file; kind is part, or of a shard that is made stats or shard."""
    return f"{job.parts_folder}/{kind}-{split}-{number:06d}"


def _made(job: Job) -> Made:
    """The shards that an earlier run of the same job made; what others left is removed."""
    _remove_parts(job)
    if not outputs.is_ours(job, job.parts_folder):
        files.remove(job.parts_folder)
        files.write_text(f"{job.parts_folder}/{outputs.IDENTITY}", job.identity)
    found = {}
    for split, names in job.shards.items():
        for number, name in enumerate(names):
            marker = _path(job, "shard", split, number)
            facts = json.loads(files.read_text(marker)) if shards.size(marker) else {}
            if facts and facts["bytes"] == shards.size(name):
                counts = files.read_bytes(_path(job, "stats", split, number))
                found[split, number] = facts, stats.Stats.from_bytes(counts)
    return found


def _remove_parts(job: Job) -> None:
    """Removes the parts; and the folder, if it does not say of a shard that it is made."""
    from tensorflow.io import gfile

    for path in gfile.glob(f"{job.parts_folder}/part-*"):
        gfile.remove(path)
    if gfile.exists(job.parts_folder) and not gfile.glob(f"{job.parts_folder}/shard-*"):
        gfile.rmtree(job.parts_folder)
