"""Creates the same records on Apache Beam, for corpora that need several machines.

Needs the [beam] extra. The pipeline and `local` call the same functions of `stages`, so both
write records with equal bytes.

A segment is a group of whole documents (see `segments`). The pool of a segment is the set of
segments from which its random next sentences are drawn. The documents of a segment are sent to
every segment whose pool contains them. A row is an unmasked sequence, and a part is a range of the
shuffled order (see `shuffling`). Each row is sent to the part that contains the key of the row.
Parts are not sent, but written to a folder next to the output, and then joined into shards. So
every worker must be able to write to the folder of the output. After a failure, the next run reads
and pairs the text again, but keeps the shards that are complete.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bert_tf import files
from bert_tf.data_prep.pretraining_data import pairing, segments, stats
from bert_tf.data_prep.pretraining_data.documents import Documents
from bert_tf.data_prep.pretraining_data.settings import RecordsConfig
from bert_tf.data_prep.runners import outputs, shuffling, stages, unpacking
from bert_tf.data_prep.runners.job import RecordsJob
from bert_tf.data_prep.runners.stages import IntermediateFiles
from bert_tf.data_prep.runners.work_folder import check_folder, locked_work_folder
from bert_tf.data_prep.runners.workers import Workers
from bert_tf.errors import InputError

Key = tuple[str, int]  # a split, and the index of a segment, a part or a shard
NumberedDocuments = tuple[int, Documents]  # index of a segment, and its documents
NumberedRows = tuple[int, int, np.ndarray]  # index of a segment, index of a batch, rows
Plans = dict[str, list[shuffling.Part]]


def create(
    config: RecordsConfig,
    input_file: str,
    output_files: Sequence[str],
    beam_options: Sequence[str],
    overwrite: bool = False,
) -> dict[str, Any]:
    """Creates the same records as `local.create`.

    Args:
        config: The settings that determine the bytes of the records.
        input_file: Comma-separated list of globs.
        output_files: Paths of the shards, or one path to which the shard numbers are added.
        beam_options: Options of Beam, such as "--runner=FlinkRunner".
        overwrite: Whether existing records that were created with other settings may be replaced.

    Returns:
        The report for each split; empty if the records were already complete.

    Raises:
        InputError: Beam is not installed, or input or output cannot be used.
    """
    try:
        import apache_beam as beam
    except ImportError as error:
        raise InputError('runner=beam needs Apache Beam: pip install "bert-tf[beam]".') from error
    job, is_complete = outputs.plan_job(config, input_file, tuple(output_files), overwrite)
    if is_complete:
        return {}
    try:
        options = beam.options.pipeline_options.PipelineOptions(list(beam_options))
        pipeline = beam.Pipeline(options=options)
    except ValueError as error:
        raise InputError(f"beam_options cannot be used: {error}") from error
    with locked_work_folder(job):
        outputs.make_folders(job)
        check_folder(job.parts_folder)
        if not outputs.belongs_to_job(job.parts_folder, job):
            files.remove(job.parts_folder)
            files.make_folder(job.parts_folder)
            files.write_bytes(f"{job.parts_folder}/{outputs.IDENTITY}", job.identity)
        try:
            job = unpacking.cut_input(job, job.parts_folder, Workers(1))
            sizes = segments.sizes(job.config, job.segments)
            parts = IntermediateFiles(job.config, job.parts_folder, sizes)
            pools = [pairing.pool_segments(job.config, each, sizes) for each in range(len(sizes))]
            missing = set(job.shard_keys) - outputs.completed_shards(job, parts).keys()
            with pipeline:
                _Pipeline(job, parts, pools, missing).build(pipeline)
        except Exception as error:
            _remove_parts(job)
            if message := _input_error_message(error):
                raise InputError(message) from error
            raise
        reports = outputs.write_manifest(job, parts)
        files.remove(job.parts_folder)
    return reports


def _input_error_message(error: Exception) -> str | None:
    """Returns the message of the `InputError` that a stage raised; None for any other error.

    Beam wraps the error of a stage in its own error. The text that Beam adds to the message depends
    on the runner of Beam.
    """
    kind = r"\A" if isinstance(error, InputError) else "InputError: "
    found = re.search(kind + r"(.*?)(?: \[while running|$)", str(error), re.M)
    return found[1] if found else None


class _Pipeline(NamedTuple):
    """The stages as transforms of a Beam pipeline.

    Attributes:
        job: The set of records to create.
        parts: The names of the parts and of the files that mark complete shards.
        pools: For each segment, the indices of the segments in its pool.
        missing: Split and index of each shard that is not yet complete.
    """

    job: RecordsJob
    parts: IntermediateFiles
    pools: list[list[int]]
    missing: Collection[Key]

    def build(self, pipeline: Any) -> None:
        """Adds all stages to a `beam.Pipeline`."""
        import apache_beam as beam

        documents = (
            pipeline
            | "segments" >> beam.Create(list(enumerate(self.job.segments)))
            | "spread" >> beam.Reshuffle()
            | "read" >> beam.FlatMapTuple(self.read)
        )
        rows = (
            documents
            | "to pool users" >> beam.GroupByKey()
            | "pair" >> beam.FlatMapTuple(self.pair)
        )
        truncation = (
            rows
            | "tokens" >> beam.MapTuple(lambda _, rows: shuffling.count_tokens(rows[2]))
            | "add" >> beam.CombineGlobally(lambda counts: sum(counts, np.zeros(2, int)))
            | "limit" >> beam.Map(partial(outputs.check_truncation, self.job))
        )
        checked = (
            documents
            | "own" >> beam.Filter(lambda keyed: keyed[0][1] == keyed[1][0])
            | "sizes" >> beam.MapTuple(lambda key, numbered: (key[0], numbered[1].counts))
            | "sum" >> beam.CombinePerKey(lambda counts: sum(counts, np.zeros(2, int)))
            | "check" >> beam.MapTuple(partial(outputs.check_documents, self.job, self.parts))
            | "all splits" >> beam.combiners.Count.Globally()
            | "remove old" >> beam.Map(self.remove_old, beam.pvalue.AsList(truncation))
        )
        plans = beam.pvalue.AsDict(
            rows
            | "bins"
            >> beam.MapTuple(lambda split, rows: (split, shuffling.count_bins(rows[2]["key"])))
            | "count" >> beam.CombinePerKey(lambda counts: np.sum(list(counts), axis=0))
            | "plan" >> beam.MapTuple(self.plan)
        )
        _ = (
            rows
            | "route" >> beam.FlatMap(self.route, plans)
            | "to parts" >> beam.GroupByKey()
            # With `checked` as an input, no output file changes before the input is checked.
            | "mask" >> beam.Map(self.mask, plans, beam.pvalue.AsList(checked))
            | "to shards" >> beam.GroupByKey()
            | "assemble" >> beam.MapTuple(self.assemble)
        )

    def remove_old(self, *checks: Any) -> None:
        """Removes the replaced records, after the checks that the arguments result from."""
        outputs.remove_old_records(self.job)

    def read(
        self, number: int, segment: segments.Segment
    ) -> Iterator[tuple[Key, NumberedDocuments]]:
        """Tokenizes a segment, and yields its documents for each segment that needs them."""
        users = [user for user, pool in enumerate(self.pools) if number in (user, *pool)]
        for split, documents in stages.tokenize_segment(self.job.config, number, segment).items():
            for user in users:
                yield (split, user), (number, documents)

    def pair(
        self, key: Key, documents: Iterable[NumberedDocuments]
    ) -> Iterator[tuple[str, NumberedRows]]:
        """Pairs the documents of a segment, and yields the rows of the segment in batches."""
        (split, number), by_segment = key, dict(documents)
        joined = Documents.joined([by_segment[n] for n in (number, *self.pools[number])])
        batches = stages.pair_documents(self.job.config, joined, len(by_segment[number]))
        for batch, rows in enumerate(batches):
            yield split, (number, batch, rows)

    def plan(self, split: str, bins: np.ndarray) -> tuple[str, list[shuffling.Part]]:
        """Divides a split into parts."""
        return split, stages.plan_parts(self.job.config, bins, len(self.job.shards[split]))

    def route(
        self, keyed: tuple[str, NumberedRows], plans: Plans
    ) -> Iterator[tuple[Key, NumberedRows]]:
        """Yields, for each part, the rows of a batch whose bins are in the part.

        The bin of a row is the number in the leading bits of the key of the row. If two parts
        share a bin, the rows of that bin are sent to both parts.
        """
        split, (number, batch, rows) = keyed
        for index, part in enumerate(plans[split]):
            mine = shuffling.slice_of_part(rows["key"], part)
            is_used = mine.stop > mine.start or (part.rows == 0 and number == 0)
            if is_used and (split, part.shard) in self.missing:
                yield (split, index), (number, batch, rows[mine])

    def mask(
        self, keyed: tuple[Key, Iterable[NumberedRows]], plans: Plans, checked: Sequence[None]
    ) -> tuple[Key, tuple[int, int]]:
        """Masks and writes a part; returns the shard, the index and the row count of the part."""
        del checked
        (split, index), batches = keyed
        part = plans[split][index]
        ordered = [rows for _, _, rows in sorted(batches, key=lambda batch: batch[:2])]
        rows = shuffling.sort_part(np.concatenate(ordered), part)
        total = sum(each.rows for parts in plans.values() for each in parts)
        stages.write_part(self.parts, split, index, rows, stats.sampled_share(total))
        return (split, part.shard), (index, part.rows)

    def assemble(self, key: Key, parts: Iterable[tuple[int, int]]) -> None:
        """Joins the parts of a shard."""
        (split, number), ordered = key, sorted(parts)
        paths = [self.parts.path("part", split, index) for index, _ in ordered]
        rows = sum(rows for _, rows in ordered)
        stages.assemble_shard(self.parts, key, paths, self.job.shards[split][number], rows)


def _remove_parts(job: RecordsJob) -> None:
    """Removes all parts. If no shard is complete, also removes the folder of the parts."""
    from tensorflow.io import gfile

    for path in gfile.glob(f"{job.parts_folder}/part-*"):
        gfile.remove(path)
    if not gfile.glob(f"{job.parts_folder}/shard-*"):
        files.remove(job.parts_folder)
