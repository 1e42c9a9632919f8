"""Finds the record that caused an error while batches were read."""

from collections.abc import Mapping, Sequence

import tensorflow as tf

from bert_tf.errors import InputError
from bert_tf.manifest import list_shards, manifests_next_to
from bert_tf.pretraining import damage, record_checks
from bert_tf.progress import Progress
from bert_tf.tfrecords import open_records

_RECORDS_AT_ONCE = 1024
# TensorFlow raises InvalidArgumentError for a record that cannot be parsed. The message contains
# bytes of the record. If these bytes are not valid UTF-8, Python raises UnicodeDecodeError instead.
_PARSE_ERRORS = (tf.errors.InvalidArgumentError, UnicodeDecodeError)
READ_ERRORS = (tf.errors.DataLossError, *_PARSE_ERRORS)  # for `explain_read_error`


def explain_read_error(
    paths: Sequence[str], sizes: Mapping[str, int], error: Exception
) -> str | None:
    """Reads all records to find the one that caused an error.

    Args:
        paths: Record files, plain or compressed with gzip.
        sizes: As in `batches.training_batches`.
        error: The exception that the input pipeline raised.

    Returns:
        A message with the file, the record, the problem and the remedy; None if all records
        can be read and pass the checks.
    """
    if isinstance(error, _PARSE_ERRORS):
        return _explain_unusable_record(paths, sizes)
    if not isinstance(error, tf.errors.DataLossError):
        return None
    found = damage.find_damage(paths)
    if found is None:
        return None
    return (
        f"Record {found.record} of {found.path} cannot be read: {found.reason}. "
        f"{_remedy(found.path)}, or give skip_bad_records=true."
    )


def _remedy(path: str) -> str:
    """Returns advice about a damaged file.

    The advice depends on whether a manifest lists the file, and whether the listed checksum is that
    of the file.
    """
    listed = list_shards(manifests_next_to([path]), path)
    for manifest, shard in listed:
        if shard.has_recorded_checksum():
            return (
                f"Its checksum is equal to the one in {manifest.path}, so it was written like "
                "that: create it again"
            )
    if listed:
        return (
            f"Its checksum differs from the one in {listed[-1][0].path}, so it was changed later: "
            "copy it again or create it again"
        )
    return "Create the file again"


def _explain_unusable_record(paths: Sequence[str], sizes: Mapping[str, int]) -> str | None:
    """Returns a message about the first readable record that fails the checks; None if all pass."""
    parse = record_checks.checking_parser(sizes, record_checks.check_files(paths, sizes))
    with Progress("looking for the record", len(paths), "files") as progress:
        for path in paths:
            for batch, records in enumerate(open_records(path).batch(_RECORDS_AT_ONCE)):
                try:
                    parse(records)
                except _PARSE_ERRORS:
                    return _explain_batch(records.numpy(), batch * _RECORDS_AT_ONCE, sizes, path)
            progress.update(1)
    return None


def _explain_batch(
    records: Sequence[bytes], start: int, sizes: Mapping[str, int], path: str
) -> str | None:
    """Returns a message about the first record that fails the checks; None if all records pass.

    Args:
        records: The serialized records of the batch.
        start: The index that the first record of the batch has in the file, from 0.
        sizes: As in `batches.training_batches`.
        path: The file that contains the records.
    """
    for number, record in enumerate(records, start):
        try:
            record_checks.check_record(record, sizes, f"Record {number} of {path}")
        except InputError as error:
            return str(error)
    return None
