"""Creates the same records on Apache Beam, for corpora that need several machines.

Needs the [beam] extra. Beam calls the same functions of `stages` as `local`, so both write records
with equal bytes. The stages write their files to a folder next to the output, so every worker must
be able to write to the folder of the output. After a failure, the next run uses the files again.

One pipeline reads all segments (groups of whole documents), and the next one pairs their documents.
A row is an unmasked sequence, and a part is a range of the shuffled order (see `shuffling`). The
last pipeline sends each row to the part that contains the key of the row, masks the parts, and
joins the parts into shards.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bert_tf import startup
from bert_tf.data_prep.pretraining_data.settings import RecordsConfig
from bert_tf.data_prep.runners import outputs, preparation, shuffling, stages, work_folder
from bert_tf.data_prep.runners.job import RecordsJob
from bert_tf.data_prep.runners.preparation import Key, Task
from bert_tf.data_prep.runners.stages import IntermediateFiles
from bert_tf.data_prep.runners.workers import Workers
from bert_tf.errors import InputError

_OTHER_RUNNER = "Give another runner in beam_options, such as --runner=FlinkRunner."
NumberedRows = tuple[int, np.ndarray]  # index of a segment, and rows of it


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
    startup.import_tensorflow()
    job = outputs.plan_job(config, input_file, tuple(output_files), overwrite, is_local=False)
    if job is None:
        return {}
    try:
        options = beam.options.pipeline_options.PipelineOptions(list(beam_options))
        beam.Pipeline(options=options)
    except ValueError as error:
        raise InputError(f"beam_options cannot be used: {error}") from error
    with work_folder.locked(job):
        try:
            return preparation.create_records(
                job, Workers(1), partial(_run, options),
                lambda *arguments: _Masking(*arguments).run(options),
            )  # fmt: skip
        except Exception as error:
            if message := _input_error_message(error):
                raise InputError(message) from error
            raise


def _input_error_message(error: Exception) -> str | None:
    """Returns the message of the `InputError` that a stage raised; None for any other error.

    Beam wraps the error of a stage in its own error. The text that Beam adds to the message depends
    on the runner of Beam.
    """
    kind = r"\A" if isinstance(error, InputError) else "InputError: "
    found = re.search(kind + r"(.*?)(?: \[while running|$)", str(error), re.M)
    return found[1] if found else None


def _run(
    options: Any, name: str, unit: str, stage: Callable[..., None], tasks: Sequence[Task]
) -> None:
    """Is a `preparation.Runner` when the options of Beam are given."""
    import apache_beam as beam

    del unit
    with beam.Pipeline(options=options) as pipeline:
        _ = (
            pipeline
            | "tasks" >> beam.Create([task.arguments for task in preparation.unfinished(tasks)])
            | "spread" >> beam.Reshuffle()
            | name >> beam.MapTuple(stage)
        )


class _Masking(NamedTuple):
    """The last stages as transforms of a Beam pipeline.

    Attributes:
        job: The set of records to create.
        intermediate: The names of the intermediate files.
        plans: The parts of each split.
        completed: Split and index of each shard that is already complete.
    """

    job: RecordsJob
    intermediate: IntermediateFiles
    plans: preparation.Plans
    completed: Collection[Key]

    def run(self, options: Any) -> None:
        """Runs all transforms with these options of Beam."""
        import apache_beam as beam

        count = len(self.intermediate.segment_sizes)
        with beam.Pipeline(options=options) as pipeline:
            _ = (
                pipeline
                | "segments" >> beam.Create([(s, n) for s in self.job.shards for n in range(count)])
                | "spread" >> beam.Reshuffle()
                | "route" >> beam.FlatMapTuple(self.route)
                | "to parts" >> beam.GroupByKey()
                | "mask" >> beam.MapTuple(self.mask)
                | "to shards" >> beam.GroupByKey()
                | "assemble" >> beam.MapTuple(self.assemble)
            )

    def route(self, split: str, number: int) -> Iterator[tuple[Key, NumberedRows]]:
        """Yields, for each part, the rows of a segment whose bins are in the part.

        The bin of a row is the number in the leading bits of the key of the row. If two parts
        share a bin, the rows of that bin are sent to both parts.
        """
        path = self.intermediate.path("rows", split, number)
        rows = shuffling.load_array(f"{path}.rows", stages.row_dtype(self.job.config))
        keys = shuffling.load_keys(path)
        for index, part in enumerate(self.plans[split]):
            mine = shuffling.slice_of_part(keys, part)
            is_used = mine.stop > mine.start or (part.rows == 0 and number == 0)
            if is_used and (split, part.shard) not in self.completed:
                yield (split, index), (number, rows[mine])

    def mask(self, key: Key, slices: Iterable[NumberedRows]) -> tuple[Key, tuple[int, int]]:
        """Masks and writes a part; returns the shard, the index and the row count of the part."""
        split, index = key
        part = self.plans[split][index]
        by_segment = sorted(slices, key=lambda numbered: numbered[0])
        numbers, ordered = zip(*by_segment, strict=True)
        if len({*numbers}) < len(numbers):
            raise InputError(f"This runner of Beam gave a part rows twice. {_OTHER_RUNNER}")
        rows = shuffling.sort_part(np.concatenate(ordered), part)
        stages.write_part(self.intermediate, split, index, part, rows)
        return (split, part.shard), (index, part.rows)

    def assemble(self, key: Key, parts: Iterable[tuple[int, int]]) -> None:
        """Joins the parts of a shard."""
        split, shard = key
        found, path = dict(sorted(parts)), self.job.shards[split][shard]
        if [*found] != [n for n, part in enumerate(self.plans[split]) if part.shard == shard]:
            raise InputError(f"This runner of Beam lost parts of a shard. {_OTHER_RUNNER}")
        stages.assemble_shard(self.intermediate, *key, path, found)
