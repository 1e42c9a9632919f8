"""Finds the record that caused an error while batches were read."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from bert_tf.errors import InputError, plain_message
from bert_tf.pretraining import record_checks
from bert_tf.progress import Progress
from bert_tf.storage.tfrecords import open_records
from bert_tf.training.lifecycle.failures import READ_ERRORS

_RECORDS_AT_ONCE = 1024


def explain_read_error(paths: Sequence[str], sizes: Mapping[str, int]) -> str | None:
    """Reads all records to find the one that caused an error.

    Args:
        paths: Record files, plain or compressed with gzip.
        sizes: As in `batches.training_batches`.

    Returns:
        A message with the file, the record, the problem and the remedy; None if all
        records can be read and pass the checks.
    """
    try:
        parse = record_checks.checking_parser(
            sizes, record_checks.check_files(paths, sizes)
        )
        with Progress("looking for the record", len(paths), "files") as progress:
            for path in paths:
                _check_records(path, parse, sizes)
                progress.update(1)
    except InputError as error:
        return str(error)
    return None


def _check_records(
    path: str, parse: Callable[[Any], Any], sizes: Mapping[str, int]
) -> None:
    """Reads all records of a file.

    Raises:
        InputError: A record cannot be read or fails the checks.
    """
    records, number = open_records(path), 0
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
