"""Checks that records match the model, the vocabulary and their manifests."""

import contextlib
import dataclasses
import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from bert_tf import record_format
from bert_tf.config import BertConfig
from bert_tf.errors import InputError, plain_message
from bert_tf.masking.algorithm import Vocabulary
from bert_tf.masking.dynamic_masks import DynamicMasks
from bert_tf.masking.masking_config import MaskingConfig
from bert_tf.pretraining.pretraining_config import (
    LENGTHS,
    PretrainingConfig,
    PretrainingRecords,
)
from bert_tf.record_format import Sizes
from bert_tf.storage import files, tfrecords
from bert_tf.storage.manifest import (
    Manifest,
    find_records,
    list_shards,
    manifests_next_to,
)
from bert_tf.tokenization import BertTokenizer

_LOGGER = logging.getLogger(__name__)
# For each feature with bounds: the number of allowed values, from 0 on, or the key of
# this number in `sizes`.
_BOUNDS = {
    "input_ids": "V",
    "input_mask": "2",
    "segment_ids": "T",
    "masked_lm_positions": "S",
    "masked_lm_ids": "V",
    "next_sentence_labels": "2",
    "ids_uint16": "V",
    "ids_int32": "V",
}
_SIZE_NAMES = {"V": "vocab_size", "T": "type_vocab_size", "S": "max_seq_length"}
_WEIGHTS = "masked_lm_weights"


def checked_records(
    input_file: str | None,
    eval_input_file: str | None,
    config: PretrainingConfig,
    architecture: BertConfig,
    masking: MaskingConfig,
    tokenizer: BertTokenizer | None,
) -> PretrainingRecords:
    """Finds the record files of a run; checks that they suit its model and settings.

    Logs a warning if unmasked records will have fewer masks than `masking` says.

    Args:
        input_file: Comma-separated globs of the files for training; None if the run
            does not train.
        eval_input_file: Comma-separated globs of the files for evaluation; None to
            evaluate on the files for training.
        masking: Which tokens of unmasked records are masked. Its
            `max_predictions_per_seq` is ignored.
        tokenizer: The tokenizer of the run, to compare with that of the records; None
            without a vocabulary. Unmasked records require a tokenizer.

    Raises:
        InputError: A pattern matches no file, only some records are unmasked, the
            sequences are too long for the model, or the records do not suit the
            vocabulary, the casing, the objective or the settings of the masks.
    """
    vocabulary = Vocabulary.of(tokenizer) if tokenizer else None
    train_files = record_files(input_file) if input_file else []
    eval_files = record_files(eval_input_file or input_file or "")
    both = [*train_files, *eval_files]

    # The lengths of the manifest, unless they are given.
    lengths = _recorded_lengths(both) | config.given_lengths
    records = PretrainingRecords(
        train_files, eval_files, config=config, masks=None, **lengths
    )
    architecture.check_length(records.max_seq_length)

    check_manifests(
        both,
        architecture.vocab_size,
        vocabulary_sha256=vocabulary.sha256 if vocabulary else None,
        do_lower_case=tokenizer.do_lower_case if tokenizer else None,
        objective=config.objective,
    )

    if not _are_unmasked(both):
        names = {field.name for field in dataclasses.fields(masking)}
        others = sorted(names - {"max_predictions_per_seq"})
        masking.check_effect(False, "records of --masking=dynamic", *others)
        return records

    if vocabulary is None or config.objective == "causal":
        raise InputError(
            f"The records of {both[0]} are unmasked. They need vocab_file, because the "
            "masks are made while training, and an objective with masks. Received: "
            f"{config.objective}."
        )
    masking = dataclasses.replace(
        masking, max_predictions_per_seq=records.max_predictions_per_seq
    )
    if warning := masking.warning(records.max_seq_length):
        _LOGGER.warning(warning)
    return dataclasses.replace(records, masks=DynamicMasks(masking, vocabulary))


def _are_unmasked(paths: Sequence[str]) -> bool:
    """Returns whether records are unmasked; raises `InputError` if only some are."""
    kinds = set()
    for path in paths:
        with contextlib.suppress(InputError):  # damage is reported or replaced later
            kinds.add(record_format.is_unmasked(_first_record(path)))
    if len(kinds) > 1:
        raise InputError(
            "Some of the records are unmasked (--masking=dynamic), and others have "
            "masks. Give records of one kind."
        )
    return True in kinds


def record_files(patterns: str) -> list[str]:
    """Returns the record files that match a comma-separated list of globs.

    Raises:
        InputError: A pattern matches no file, or a path is a folder or a named pipe.
    """
    paths = find_records(patterns)
    for path in paths:
        tfrecords.compression(path)
    return paths


def fingerprint(paths: Sequence[str]) -> str:
    """Returns a string with the number of files, and a hash of their names and sizes."""
    sizes = [[os.path.basename(path), tf.io.gfile.stat(path).length] for path in paths]
    return (
        f"{len(paths)} files, SHA-256 {files.sha256(json.dumps(sizes).encode())[:16]}"
    )


def check_manifests(
    paths: Sequence[str],
    vocab_size: int,
    vocabulary_sha256: str | None,
    do_lower_case: bool | None,
    objective: str,
) -> None:
    """Compares the manifests next to the records with the settings of a run.

    Files without a manifest, from other programs, are accepted. `vocabulary_sha256` and
    `do_lower_case` are None if the run has no vocabulary.

    Raises:
        InputError: The records were created with another vocabulary, with a vocabulary
            that is too large for the model, with another casing, or for an incompatible
            objective.
    """
    for manifest in _manifests_of(paths):
        facts = manifest.facts
        path = manifest.path
        created_for = facts.get("flags", {}).get("objective")
        if (created_for, objective) == ("mlm_nsp", "mlm"):
            created_for = objective  # mlm ignores the sentence pairs

        recorded_facts = {**facts, "objective": created_for}
        for name, setting, parameter in (
            ("vocabulary_sha256", vocabulary_sha256, "vocab_file"),
            ("do_lower_case", do_lower_case, "do_lower_case"),
            ("objective", objective, "objective"),
        ):
            recorded = recorded_facts.get(name)
            if None not in (recorded, setting) and recorded != setting:
                raise InputError(
                    f"The records of {path} were created with {name}={recorded}, but "
                    f"this run has {name}={setting}. Give the {parameter} that the "
                    "records were created with."
                )

        size = facts.get("vocab_size")
        if size is not None and size > vocab_size:
            raise InputError(
                f"The records of {path} use a vocabulary of {size} entries, but the "
                f"model's vocab_size is {vocab_size}. Set vocab_size in "
                f"bert_config_file to {size}."
            )


def _recorded_lengths(paths: Sequence[str]) -> dict[str, int]:
    """Returns the `LENGTHS` that the manifest of the records has; {} without a manifest."""
    facts = next((manifest.facts for manifest in _manifests_of(paths)), {})
    return {name: facts[name] for name in LENGTHS if facts.get(name) is not None}


def _manifests_of(paths: Sequence[str]) -> list[Manifest]:
    """Returns the manifests next to record files that list one of these files, or no files."""
    return [
        manifest
        for manifest in manifests_next_to(paths)
        if not manifest.shards or any(map(manifest.find_shard, paths))
    ]


def check_files(paths: Sequence[str], sizes: Sizes) -> dict[str, str]:
    """Checks the first record of each file, and the sizes of files in a manifest.

    Returns:
        Dict from each feature of `record_format.PRETRAINING` or
        `record_format.unmasked` to the key of the feature in the records.
    """
    names: dict[str, str] = {}
    manifests = manifests_next_to(paths)
    for path in paths:
        # TensorFlow reports no error for a file that ends between two records.
        listed = list_shards(manifests, path)
        if listed and not any(shard.has_recorded_size() for _, shard in listed):
            manifest, shard = listed[-1]
            raise InputError(
                f"{path} has {tf.io.gfile.stat(path).length:,} bytes, but "
                f"{shard.bytes:,} by {manifest.path}. Copy it again, or create it "
                "again."
            )

        names = check_record(_first_record(path), sizes, path)
    return names


def _first_record(path: str) -> bytes:
    try:
        first = next(iter(tfrecords.open_records(path).as_numpy_iterator()), None)
    except tf.errors.OpError as error:
        raise InputError(
            f"{path} is not a TFRecord file, or is damaged at its start, in record 0: "
            f"{plain_message(error)}. Give skip_bad_records=true to leave damaged "
            "records out."
        ) from error
    if first is None:
        raise InputError(f"{path} holds no record. Create the records again.")
    return first


def check_record(record: bytes, sizes: Sizes, where: str) -> dict[str, str]:
    """Checks that a record has the expected features, with values within their bounds.

    Args:
        record: A serialized `tf.train.Example`.
        where: The file, or the file and the record, as named in error messages.

    Returns:
        Dict from each feature to the key of the feature in the record.
    """
    table = _table(record_format.is_unmasked(record), sizes)
    names = record_format.names_in(record, table, sizes, where)
    parse = record_format.parser(table, sizes, names, keep_int64=True)
    try:
        values = parse(tf.constant([record]))
    except tf.errors.InvalidArgumentError as error:  # such as another type
        raise InputError(
            f"{where} cannot be parsed: {plain_message(error)}."
        ) from error

    for name, (is_outside, expected) in _outside(values, sizes).items():
        if outside := tf.boolean_mask(values[name], is_outside).numpy().tolist():
            raise InputError(
                f"{where} holds {outside[0]} in {names[name]}, but {expected}. Give "
                "the model and the lengths that the records were created for, or "
                "create them again."
            )
    return names


def _outside(values: Mapping[str, Any], sizes: Sizes) -> dict[str, tuple[Any, str]]:
    """Finds the values of parsed records (int64 or float32) that are out of bounds.

    Returns:
        Dict from the name of a feature to a pair: a bool tensor, True for each value
        that is out of bounds, and text that states the expected values.
    """
    checks = {}
    for name in filter(_BOUNDS.__contains__, values):
        letter = _BOUNDS[name]
        limit = int(sizes.get(letter, letter))
        expected = (
            "0 or 1 is expected"
            if letter == "2"
            else f"{_SIZE_NAMES[letter]} is {limit}"
        )
        # As a uint64, a negative number is larger than every limit.
        checks[name] = tf.bitcast(values[name], tf.uint64) >= limit, expected

    if _WEIGHTS in values:
        weights = values[_WEIGHTS]
        # A NaN is not within the range.
        checks[_WEIGHTS] = (
            ~((weights >= 0) & (weights <= 1)),
            "a number from 0 to 1 is expected",
        )
    else:
        is_too_long = record_format.unmasked_lengths(values) > sizes["S"]
        checks["lengths"] = is_too_long, f"max_seq_length is {sizes['S']}"
    return checks


def checking_parser(
    paths: Sequence[str], sizes: Sizes
) -> Callable[[Any], dict[str, Any]]:
    """Returns a function that parses records, and checks the bounds of all values.

    First checks the files with `check_files`.

    The check of the bounds is needed because on a GPU, `tf.gather` returns 0 for an
    index that is out of bounds and raises no error. The values are checked as int64,
    because the conversion to int32 drops the upper 32 bits.
    """
    with tf.init_scope():  # eagerly, also if this is called in a graph
        names = check_files(paths, sizes)
    is_unmasked = _WEIGHTS not in names
    parse = record_format.parser(
        _table(is_unmasked, sizes), sizes, names, keep_int64=True
    )

    def parse_and_check(records: Any) -> dict[str, Any]:
        values = parse(records)
        fits = [
            ~tf.reduce_any(is_outside)
            for is_outside, _ in _outside(values, sizes).values()
        ]
        message = "a record holds a value that is out of bounds"
        assertion = tf.debugging.Assert(tf.reduce_all(fits), [message])
        # Without a control dependency, a graph may compute the outputs before the
        # assertion.
        with tf.control_dependencies([assertion]):
            if not is_unmasked:  # unmasked records have keys of 64 bits
                values = record_format.to_int32(values)
            return {name: tf.identity(value) for name, value in values.items()}

    return parse_and_check


def _table(is_unmasked: bool, sizes: Sizes) -> record_format.Table:
    return (
        record_format.unmasked(sizes["V"]) if is_unmasked else record_format.PRETRAINING
    )
