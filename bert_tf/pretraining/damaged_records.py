"""Finds the record that caused an error, and copies files without damaged records.

TensorFlow's reader cannot read the records that follow a damaged one in a file.

`bert_tf.storage.tfrecords` describes the format of the files.
"""

import contextlib
import dataclasses
import json
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from bert_tf.errors import InputError, plain_message
from bert_tf.pretraining import record_checks
from bert_tf.pretraining.pretraining_config import PretrainingRecords
from bert_tf.progress import Progress
from bert_tf.record_format import Sizes
from bert_tf.storage import files
from bert_tf.storage.tfrecords import (
    DAMAGED,
    INTACT,
    LOST,
    compression,
    open_records,
    read_frames,
)
from bert_tf.training.lifecycle.error_messages import READ_ERRORS
from bert_tf.training.lifecycle.run_folder import RunFolder

_RECORDS_AT_ONCE = 1024
_LOGGER = logging.getLogger(__name__)


def explain_read_error(paths: Sequence[str], sizes: Sizes) -> str | None:
    """Reads all records to find the one that caused an error, and describes it.

    The message names the file, the record, the problem and the remedy. The result is
    None if all records can be read and pass the checks.
    """
    try:
        parse = record_checks.checking_parser(paths, sizes)
        with Progress("looking for the record", len(paths), "files") as progress:
            for path in paths:
                _check_records(path, parse, sizes)
                progress.update(1)
    except InputError as error:
        return str(error)
    return None


def _check_records(path: str, parse: Callable[[Any], Any], sizes: Sizes) -> None:
    """Reads all records of a file; raises `InputError` for the first unreadable or invalid one."""
    records = open_records(path)
    number = 0
    try:
        for batch in records.batch(_RECORDS_AT_ONCE):
            try:
                parse(batch)
            except READ_ERRORS:
                for index, record in enumerate(batch.numpy(), number):
                    record_checks.check_record(
                        record, sizes, f"Record {index} of {path}"
                    )
            number += len(batch)

    except tf.errors.DataLossError as error:
        # The batch that failed may contain records before the damaged one.
        with contextlib.suppress(tf.errors.DataLossError):
            for _ in records.skip(number):
                number += 1
        raise InputError(
            f"Record {number} of {path} cannot be read: {plain_message(error)}. Copy "
            "the file again, create it again, or give skip_bad_records=true."
        ) from error


def salvage(paths: Sequence[str], folder: str) -> list[str]:
    """Copies the undamaged records of each damaged file, and returns the paths to read.

    A record with damaged data is left out of the copy. The copy ends before the first
    record with a damaged length, before a truncated record, and before damaged
    compressed data. Undamaged files are not copied. Copies in `folder` from an earlier
    call are reused.

    Raises:
        InputError: A file contains no undamaged record.
    """
    used = []
    with Progress("checking records", len(paths), "files") as progress:
        for path in paths:
            counts = Counter(state for state, _ in read_frames(path))
            if not counts[INTACT]:
                raise InputError(
                    f"{path} holds no record that can be read. Remove it from the "
                    "input files, or create it again."
                )

            is_damaged = counts[DAMAGED] or counts[LOST]
            if is_damaged:
                _LOGGER.warning(
                    "warning: damaged records of %s left out: %d%s",
                    path,
                    counts[DAMAGED],
                    ", and its end" * counts[LOST],
                )
            used.append(_copy(path, folder) if is_damaged else path)
            progress.update(1)
    return used


def _copy(path: str, folder: str) -> str:
    """Copies the intact records of a file to a new file in `folder`; returns its path.

    The name of the new file contains a hash of the path, size and time of the original
    file.
    """
    identity = json.dumps([path, *files.size_and_mtime(path)])
    digest = files.sha256(identity.encode())[:12]
    target = os.path.join(folder, f"{digest}-{os.path.basename(path)}")
    if not tf.io.gfile.exists(target):
        with (
            files.atomic_replace(target) as temporary,
            tf.io.TFRecordWriter(temporary, compression(path)) as file,
        ):
            for state, record in read_frames(path):
                if state == INTACT:
                    file.write(record)
    return target


@contextlib.contextmanager
def without_damage(
    records: PretrainingRecords, folder: RunFolder, is_chief: bool
) -> Iterator[PretrainingRecords]:
    """Yields the records; with `skip_bad_records`, copies replace files with damaged records."""
    if not records.config.skip_bad_records:
        yield records
        return
    # The copies are in the folder of the run, which the chief therefore locks first.
    with folder.locked() if is_chief else contextlib.nullcontext():
        copies = os.path.join(folder.path, "salvaged")
        yield dataclasses.replace(
            records,
            train_files=salvage(records.train_files, copies),
            eval_files=salvage(records.eval_files, copies),
        )
