"""Creates records on one machine, with several worker processes.

The results of all stages are files in a work folder next to the output, so that a
killed run can be resumed. With several workers, the main process does not import
TensorFlow, because the import takes seconds. A part is a range of the shuffled order
(see `shuffling`).
"""

import glob
import os
from collections.abc import Sequence
from typing import Any

from bert_tf.data_prep.pretraining_data.settings import RecordsConfig
from bert_tf.data_prep.runners.preparation import create_records
from bert_tf.data_prep.runners.runner import Runner
from bert_tf.data_prep.runners.workers import Workers

# There is one worker, and one more for each full block of this many bytes. The text is
# counted `dupe_factor` times. For less text, one more worker would take more time to
# start (about 3 s) than the worker would save.
_BYTES_PER_WORKER = 16 << 20


def create(
    config: RecordsConfig,
    input_file: str,
    output_files: Sequence[str],
    num_workers: int,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Creates records, or resumes a run that was interrupted.

    Args:
        config: The settings that determine the bytes of the records.
        input_file: Comma-separated list of globs; not used if the input format is
            "tfds".
        output_files: Paths of the shards, or one path to which the shard numbers are
            added.
        num_workers: Largest number of processes, at least 1.
        overwrite: Whether existing records that were created with other settings may be
            replaced.

    Returns:
        The report for each split; empty if the records were already complete.

    Raises:
        InputError: Input or output cannot be used; the message names the remedy.
    """
    size = _local_input_bytes(input_file) * config.dupe_factor
    with LocalRunner(min(num_workers, 1 + size // _BYTES_PER_WORKER)) as runner:
        return create_records(runner, config, input_file, output_files, overwrite)


def _local_input_bytes(patterns: str) -> int:
    """Returns the size of local input in bytes, and a large number for other input.

    Does not import TensorFlow, because the import takes seconds.
    """
    if not patterns or "://" in patterns:
        return 1 << 40
    paths = (
        path for pattern in patterns.split(",") for path in glob.glob(pattern.strip())
    )
    return sum(os.path.getsize(path) for path in paths if os.path.isfile(path))


class LocalRunner(Workers, Runner):
    """Runs the stages in processes of this machine; a single one is this process."""

    def __enter__(self) -> "LocalRunner":
        return self
