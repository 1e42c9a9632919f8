"""Finds the record that caused an error in reading batches.

Imports `damage`, `record_checks`; `manifest`, `progress`, `errors`.
"""

from collections.abc import Mapping, Sequence

import tensorflow as tf

from bert_tf.errors import InputError
from bert_tf.manifest import list_shards, manifests_next_to
from bert_tf.pretraining import damage, record_checks
from bert_tf.progress import Progress

_RECORDS_AT_ONCE = 1024
# TensorFlow puts the bytes that it cannot parse into its message, which Python may fail to decode.
_PARSE_ERRORS = (tf.errors.InvalidArgumentError, UnicodeDecodeError)
READ_ERRORS = (tf.errors.DataLossError, *_PARSE_ERRORS)  # the errors that are explained here


def explain_read_error(
    paths: Sequence[str], sizes: Mapping[str, int], error: Exception
) -> str | None:
    """Reads all records to find the one that caused an error.

    Args:
        paths: Record files, `.gz` if compressed.
        sizes: As in `batches.training_batches`.
        error: The error.

    Returns:
        A message with the file, the record, the problem and the remedy; None if all records can be
        used.
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
    """Compares the checksum of a damaged file with its manifest; returns the resulting advice."""
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
    """Returns the message about the first record that can be read but not used, if there is one."""
    parse = record_checks.checking_parser(sizes, record_checks.check_files(paths, sizes))
    with Progress("looking for the record", len(paths), "files") as progress:
        for path in paths:
            dataset = tf.data.TFRecordDataset(path, damage.compression(path))
            for batch, records in enumerate(dataset.batch(_RECORDS_AT_ONCE)):
                try:
                    parse(records)
                except _PARSE_ERRORS:
                    return _explain_batch(records.numpy(), batch * _RECORDS_AT_ONCE, sizes, path)
            progress.update(1)
    return None


def _explain_batch(
    records: Sequence[bytes], start: int, sizes: Mapping[str, int], path: str
) -> str | None:
    """Returns the message about the first unusable record of a batch.

    Args:
        records: The records.
        start: Index of the first record in the file.
        sizes: As in `batches.training_batches`.
        path: The file.
    """
    for number, record in enumerate(records, start):
        try:
            record_checks.check_record(record, sizes, f"Record {number} of {path}")
        except InputError as error:
            return str(error)
    return None
