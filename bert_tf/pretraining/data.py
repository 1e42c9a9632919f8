"""Pretraining records -> batches, and what is wrong where a record cannot be used."""

import hashlib
import itertools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf import features, files
from bert_tf.errors import InputError, plain_message
from bert_tf.pretraining import damage
from bert_tf.progress import Progress
from bert_tf.training.step.objective import ORIGIN

_FILES_AT_ONCE = 16
_READ_BYTES = 1 << 20  # a remote store takes as long for a little as for a lot
_RECORDS_IN_FILE = 1 << 40  # more than a file has
_SCAN_AT_ONCE = 1024
# For the objective that records were made for, those that they do not serve: they lack the pairs
# or the predictions, or their text is masked.
_UNFIT = {"mlm": ("mlm_nsp", "causal"), "causal": ("mlm", "mlm_nsp"), "mlm_nsp": ("causal",)}
# TensorFlow's message repeats what it cannot parse, and Python may fail to read the message.
_MISFITS = (tf.errors.InvalidArgumentError, UnicodeDecodeError)
READ_ERRORS = (tf.errors.DataLossError, *_MISFITS)  # what `explain_read_error` may know more of
# What a feature must stay below: the letter of the size, and where the user gives it.
_BOUNDS = {
    "input_ids": ("V", "the model's vocab_size"),
    "masked_lm_ids": ("V", "the model's vocab_size"),
    "masked_lm_positions": ("S", "max_seq_length"),
}


def record_files(patterns: str) -> list[str]:
    """The record files that a comma list of globs names.

    Raises:
        InputError: A pattern matches nothing, or a file is empty.
    """
    paths = files.expand_globs(patterns, "record")
    for path in paths:
        if tf.io.gfile.stat(path).length == 0:
            raise InputError(f"{path} is empty: write the records anew.")
    return paths


def training_batches(
    paths: Sequence[str],
    sizes: Mapping[str, int],
    batch_size: int,
    seed: int,
    shuffle_buffer_size: int,
) -> tf.data.Dataset:
    """Endless shuffled batches, the same for the same seed, whose position can be saved.

    A batch also holds `objective.ORIGIN`: int64 [B, 2], for each example the index of its file in
    `paths` and its own in the file. The position does not depend on what the files are called and
    what follows in them: a run may go on with files that were moved, or with `damage.salvage`.

    Args:
        paths: Record files, `.gz` if compressed.
        sizes: The lengths they were written with and, for ids to be checked, the size of the
            vocabulary: {"S": ..., "P": ..., "V": ...}.
        batch_size: Examples in a batch.
        seed: Of the order.
        shuffle_buffer_size: Examples that the order is drawn from; each pass draws another.

    Raises:
        InputError: The records are not what `features.PRETRAINING` says, or a file is not as long
            as its manifest says.
    """
    parse = _parser(sizes, _names(paths, sizes))
    numbers = tf.data.Dataset.range(len(paths))
    numbers = numbers.shuffle(len(paths), seed, reshuffle_each_iteration=True)
    dataset = numbers.interleave(_reader(paths), cycle_length=min(len(paths), _FILES_AT_ONCE))
    dataset = dataset.shuffle(shuffle_buffer_size, seed, reshuffle_each_iteration=True)
    dataset = dataset.repeat().batch(batch_size, drop_remainder=True)

    def finish(place: Any, records: Any) -> dict[str, Any]:
        origin = tf.stack([place // _RECORDS_IN_FILE, place % _RECORDS_IN_FILE], axis=1)
        return {**parse(records), ORIGIN: origin}

    return dataset.map(finish, num_parallel_calls=2, deterministic=True).prefetch(2)


def evaluation_batches(
    paths: Sequence[str], sizes: Mapping[str, int], batch_size: int
) -> tf.data.Dataset:
    """Each example once, in the order of the files; the last batch may be smaller.

    Args:
        paths: Record files, `.gz` if compressed.
        sizes: As in `training_batches`.
        batch_size: Examples in a batch.

    Raises:
        InputError: As in `training_batches`.
    """
    parse = _parser(sizes, _names(paths, sizes))
    dataset = tf.data.Dataset.range(len(paths)).flat_map(_reader(paths)).batch(batch_size)
    return dataset.map(lambda place, records: parse(records)).prefetch(2)


def describe_origins(paths: Sequence[str], origins: np.ndarray, most: int = 5) -> str:
    """Where examples came from: "a.tfrecord: records 17, 1042; b.tfrecord: records 3, and 27 more".

    Args:
        paths: As in `training_batches`.
        origins: The `objective.ORIGIN` of the examples, int64 [N, 2].
        most: How many records to name.
    """
    places = np.unique(np.asarray(origins), axis=0).tolist()
    named = []
    for file, group in itertools.groupby(places[:most], key=lambda place: place[0]):
        named.append(f"{paths[file]}: records {', '.join(str(record) for _, record in group)}")
    more = len(places) - most
    return "; ".join(named) + (f", and {more} more" if more > 0 else "")


def explain_read_error(
    paths: Sequence[str], sizes: Mapping[str, int], error: Exception
) -> str | None:
    """Says which record an error in reading batches is about, by reading all of them.

    Args:
        paths: Record files, `.gz` if compressed.
        sizes: As in `training_batches`.
        error: What was raised.

    Returns:
        File, record, what is wrong and what to do; None where all records are as they should be.
    """
    if isinstance(error, _MISFITS):
        return _find_misfit(paths, sizes)
    if not isinstance(error, tf.errors.DataLossError):
        return None
    found = damage.find_damage(paths)
    if found is None:
        return None
    return (
        f"Record {found.record} of {found.path} cannot be read: {found.reason}. "
        f"{_against_manifest(found.path)}, or give --skip_bad_records=true."
    )


def check_manifests(
    paths: Sequence[str],
    vocab_size: int,
    vocabulary_sha256: str | None = None,
    do_lower_case: bool | None = None,
    objective: str | None = None,
) -> None:
    """Compares the manifests beside the records with what they are to be used for.

    Args:
        paths: Record files; files without a manifest (written by other programs) pass.
        vocab_size: Of the model.
        vocabulary_sha256: Of the vocabulary in use, or None where the run was given none.
        do_lower_case: Casing in use, or None where the run was given no vocabulary.
        objective: What is trained, one of `objective.OBJECTIVES`, or None for any.

    Raises:
        InputError: The records were made with another vocabulary, a larger one, or another
            casing, or for an objective that needs other records.
    """
    for path in _manifests_of(paths):
        manifest = files.read_json(path)
        size, sha256 = manifest.get("vocab_size"), manifest.get("vocabulary_sha256")
        if size is not None and size > vocab_size:
            raise InputError(
                f"The records of {path} use a vocabulary of {size} entries, but the model's "
                f"vocab_size is {vocab_size}. Set vocab_size in --bert_config_file to {size}."
            )
        if sha256 and vocabulary_sha256 and sha256 != vocabulary_sha256:
            raise InputError(
                f"The records of {path} were made with a vocabulary of SHA-256 {sha256[:12]}, but "
                f"--vocab_file has {vocabulary_sha256[:12]}. Give the one they were made with."
            )
        casing = manifest.get("do_lower_case")
        if None not in (casing, do_lower_case) and casing != do_lower_case:
            raise InputError(
                f"The records of {path} were made with do_lower_case={casing}, but "
                f"--do_lower_case={do_lower_case} is in use. Give --do_lower_case={casing}."
            )
        made_for = manifest.get("flags", {}).get("objective")
        if objective in _UNFIT.get(made_for, ()):
            reason = (
                "their text is masked, but --objective=causal reads it as it is"
                if objective == "causal"
                else f"they lack what --objective={objective} predicts"
            )
            raise InputError(
                f"The records of {path} were made with --objective={made_for}: {reason}. Make them "
                "anew, or train the same objective."
            )


def fingerprint(paths: Sequence[str]) -> str:
    """Says which files these are, by names and sizes: another text for other records."""
    sizes = [[os.path.basename(path), tf.io.gfile.stat(path).length] for path in paths]
    return f"{len(paths)} files, SHA-256 {files.sha256(json.dumps(sizes).encode())[:16]}"


def manifests(paths: Sequence[str]) -> list[str]:
    """The manifests beside the record files."""
    folders = dict.fromkeys(_folder(path) for path in paths)
    found = (tf.io.gfile.glob(f"{folder}/*.manifest.json") for folder in folders)
    return sorted(itertools.chain.from_iterable(found))


def _manifests_of(paths: Sequence[str]) -> list[str]:
    """The manifests that list one of the files, or that list none at all."""
    shards = _shards(paths)
    ours = {
        shards[place][0]
        for place in ((_folder(path), os.path.basename(path)) for path in paths)
        if place in shards
    }
    silent = {*manifests(paths)} - {manifest for manifest, _ in shards.values()}
    return sorted(ours | silent)


def _folder(path: str) -> str:
    return path.rpartition("/")[0] or "."


def _shards(paths: Sequence[str]) -> dict[tuple[str, str], tuple[str, dict[str, Any]]]:
    """For folder and name of a record file, its manifest and what that says of it."""
    return {
        (_folder(path), shard["name"]): (path, shard)
        for path in manifests(paths)
        for shard in files.read_json(path).get("shards", [])
    }


def _check_lengths(paths: Sequence[str]) -> None:
    """Compares files with their manifests: a file that is cut off may end between two records."""
    shards = _shards(paths)
    for path in paths:
        manifest, shard = shards.get((_folder(path), os.path.basename(path)), (None, {}))
        length = tf.io.gfile.stat(path).length
        if shard.get("bytes", length) != length:
            raise InputError(
                f"{path} has {length:,} bytes, but {shard['bytes']:,} by {manifest}. Copy it "
                "again, write it anew, or give --skip_bad_records=true."
            )


def _against_manifest(path: str) -> str:
    """What a file's checksum says of when it was damaged, and what to do."""
    found = _shards([path]).get((_folder(path), os.path.basename(path)))
    if found is None:
        return "Write the file anew"
    digest = hashlib.sha256()
    with tf.io.gfile.GFile(path, "rb") as file:
        while block := file.read(_READ_BYTES):
            digest.update(block)
    manifest, shard = found
    if digest.hexdigest() == shard["sha256"]:
        return f"Its checksum is that of {manifest}, so it was written like that: write it anew"
    return f"Its checksum is not that of {manifest}: copy it again or write it anew"


def _reader(paths: Sequence[str]) -> Callable[[Any], tf.data.Dataset]:
    """A function from a file's index to its records, each with its place as one number."""
    names = tf.constant(list(paths))
    kinds = tf.constant([damage.compression(path) for path in paths])

    def read(file: Any) -> tf.data.Dataset:
        # `tf.data.TFRecordDataset` would save the file's name as a part of the position.
        records = tf.data.experimental.from_variant(
            tf.raw_ops.TFRecordDataset(
                filenames=names[file], compression_type=kinds[file], buffer_size=_READ_BYTES
            ),
            tf.TensorSpec([], tf.string),
        )
        return records.enumerate(file * _RECORDS_IN_FILE)

    return read


def _parser(sizes: Mapping[str, int], names: Mapping[str, str]) -> Any:
    """`features.parser`, and a check that a GPU would leave out: it reads 0 beyond a table."""
    parse = features.parser(features.PRETRAINING, sizes, names)

    def parse_and_check(records: Any) -> dict[str, Any]:
        values = parse(records)
        fits = [
            tf.reduce_all((values[name] >= 0) & (values[name] < sizes[letter]))
            for name, (letter, _) in _BOUNDS.items()
            if letter in sizes
        ]
        with tf.control_dependencies(
            [
                tf.debugging.Assert(
                    tf.reduce_all(fits),
                    ["a record holds an id or a position that is out of bounds"],
                )
            ]
        ):
            return {name: tf.identity(value) for name, value in values.items()}

    return parse_and_check


def _names(paths: Sequence[str], sizes: Mapping[str, int]) -> dict[str, str]:
    """Checks the first record of each file; how the features are called there."""
    _check_lengths(paths)
    names: dict[str, str] = {}
    for path in paths:
        found = _check_record(_first_record(path), sizes, path)
        if names and found != names:
            raise InputError(f"{path} names its features otherwise than {paths[0]} does.")
        names = found
    return names


def _first_record(path: str) -> bytes:
    dataset = tf.data.TFRecordDataset(path, damage.compression(path))
    try:
        first = next(iter(dataset.as_numpy_iterator()), None)
    except tf.errors.OpError as error:
        raise InputError(
            f"{path} is not a TFRecord file, or is damaged at its start, in record 0: "
            f"{plain_message(error)}. Give --skip_bad_records=true to leave damaged records out."
        ) from error
    if first is None:
        raise InputError(f"{path} holds no record: write the records anew.")
    return first


def _check_record(record: bytes, sizes: Mapping[str, int], where: str) -> dict[str, str]:
    """Checks a record.

    Returns:
        How the features are called in it.

    Raises:
        InputError: It lacks a feature, or one has another length or type, or is out of bounds.
    """
    names = features.names_in(record, features.PRETRAINING, sizes, where)
    try:
        values = features.parser(features.PRETRAINING, sizes, names)(tf.constant([record]))
    except tf.errors.InvalidArgumentError as error:
        raise InputError(f"{where} cannot be parsed: {plain_message(error)}.") from error
    for name, (letter, setting) in _BOUNDS.items():
        found = values[name].numpy()
        outside = found[(found < 0) | (found >= sizes[letter])] if letter in sizes else []
        if len(outside):
            raise InputError(
                f"{where} holds {outside[0]} in {names[name]}, but {setting} is {sizes[letter]}. "
                "Give what the records were made for."
            )
    return names


def _find_misfit(paths: Sequence[str], sizes: Mapping[str, int]) -> str | None:
    """What is wrong with the first record that can be read but not used, if there is one."""
    parse = _parser(sizes, _names(paths, sizes))
    with Progress("looking for the record", len(paths), "files") as progress:
        for path in paths:
            dataset = tf.data.TFRecordDataset(path, damage.compression(path))
            for number, records in enumerate(dataset.batch(_SCAN_AT_ONCE)):
                try:
                    parse(records)
                except _MISFITS:
                    return _first_misfit(records.numpy(), number * _SCAN_AT_ONCE, sizes, path)
            progress.update(1)
    return None


def _first_misfit(
    records: Sequence[bytes], start: int, sizes: Mapping[str, int], path: str
) -> str | None:
    for number, record in enumerate(records, start):
        try:
            _check_record(record, sizes, f"Record {number} of {path}")
        except InputError as error:
            return str(error)
    return None
