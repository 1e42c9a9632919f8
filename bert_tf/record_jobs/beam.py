"""Creates records on Apache Beam, for corpora that need several machines.

Needs the [beam] extra. Beam calls the same functions of `stages` as `local`, so both
write records with equal bytes. The stages write their files to a folder next to the
output, so every worker must be able to write to the folder of the output. After a
failure, the next run uses these files again.

Each stage is a pipeline. A row is an unmasked sequence, and a part is a range of the
shuffled order (see `shuffling`). The pipeline that masks sends each row to the part
that contains its key.
"""

import contextlib
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from bert_tf.errors import InputError
from bert_tf.optional_packages import import_package
from bert_tf.program import startup
from bert_tf.record_jobs import shuffling, stages
from bert_tf.record_jobs.base import Runner, WorkUnit, unfinished
from bert_tf.record_jobs.records_job import RecordsJob

Key = tuple[str, int]  # a split, and the index of a part
Parts = Mapping[Key, shuffling.Part]
NumberedRows = tuple[int, np.ndarray]  # index of a segment, and rows of it


class BeamRunner(Runner):
    """Runs each stage as a pipeline, and `call` in this process.

    `beam_options` has options of Beam, such as "--runner=FlinkRunner --parallelism=16".
    """

    has_local_files = False

    def __init__(self, beam_options: str) -> None:
        beam = import_package("apache_beam", "beam", "runner=beam")
        try:
            self._options = beam.options.pipeline_options.PipelineOptions(
                shlex.split(beam_options)
            )
            beam.Pipeline(options=self._options)
        except ValueError as error:
            raise InputError(f"beam_options cannot be used: {error}") from error
        startup.import_tensorflow()

    def run(
        self,
        name: str,
        unit: str,
        stage: Callable[..., None],
        tasks: Sequence[WorkUnit],
    ) -> None:
        """Runs the unfinished tasks in a pipeline; Beam reports the progress."""
        import apache_beam as beam

        del unit
        arguments = [task.arguments for task in unfinished(tasks)]
        with _one_line_errors(), beam.Pipeline(options=self._options) as pipeline:
            _ = (
                pipeline
                | "tasks" >> beam.Create(arguments)
                | "spread" >> beam.Reshuffle()
                | name >> beam.MapTuple(stage)
            )

    def mask(self, job: RecordsJob, parts: Sequence[WorkUnit]) -> None:
        """Masks and writes the parts in a pipeline, which sends each row to its part."""
        import apache_beam as beam

        missing = (task.arguments for task in unfinished(parts))
        ranges = {(split, number): part for split, number, part in missing}
        numbers = range(len(job.segment_sizes))
        splits = dict.fromkeys(split for split, _ in ranges)
        segments = [(split, number) for split in splits for number in numbers]
        with _one_line_errors(), beam.Pipeline(options=self._options) as pipeline:
            _ = (
                pipeline
                | "segments" >> beam.Create(segments)
                | "spread" >> beam.Reshuffle()
                | "route" >> beam.FlatMapTuple(partial(_route, job, ranges))
                | "to parts" >> beam.GroupByKey()
                | "mask" >> beam.MapTuple(partial(_mask_part, job, ranges))
            )


@contextlib.contextmanager
def _one_line_errors() -> Iterator[None]:
    """Raises the `InputError` of a stage instead of Beam's error, which contains it.

    The text that Beam adds to the message depends on the runner of Beam.
    """
    try:
        yield
    except Exception as error:
        kind = r"\A" if isinstance(error, InputError) else "InputError: "
        match = re.search(kind + r"(.*?)(?: \[while running|$)", str(error), re.M)
        if match is None:
            raise
        raise InputError(match[1]) from error


def _route(
    job: RecordsJob, parts: Parts, split: str, number: int
) -> Iterator[tuple[Key, NumberedRows]]:
    """Yields, for each part, the rows of a segment whose bins are in the part.

    The bin of a row is the number in the leading bits of the key of the row. If two
    parts share a bin, the rows of that bin are sent to both parts. The first segment
    sends rows to each part, so that parts without rows are written too.
    """
    path = job.path("rows", split, number)
    rows = shuffling.load_array(f"{path}.rows", stages.row_dtype(job.config))
    keys = shuffling.load_array(f"{path}.keys", np.uint64)
    for key, part in parts.items():
        mine = shuffling.slice_of_part(keys, part)
        if key[0] == split and (mine.stop > mine.start or number == 0):
            yield key, (number, rows[mine])


def _mask_part(
    job: RecordsJob,
    parts: Parts,
    key: Key,
    slices: Iterable[NumberedRows],
) -> None:
    """Masks and writes a part, from the rows that `_route` sent to the part."""
    by_segment = dict(slices)  # a runner may have repeated a call of `_route`
    rows = np.concatenate([by_segment[number] for number in sorted(by_segment)])
    stages.write_part(job, *key, shuffling.sort_part(rows, parts[key]))
