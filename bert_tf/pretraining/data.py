"""Pretraining records -> batches."""

import itertools
import json
import os
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from bert_tf import features, files
from bert_tf.errors import InputError, plain_message

_FILES_AT_ONCE = 16


def record_files(patterns: str) -> list[str]:
    """The record files that a comma list of globs names.

    Raises:
        InputError: A pattern matches nothing, or a file is empty.
    """
    paths = files.expand(patterns, "record")
    for path in paths:
        if tf.io.gfile.stat(path).length == 0:
            raise InputError(f"{path} is empty: write the records anew.")
    return paths


def training_batches(
    paths: Sequence[str],
    sizes: dict[str, int],
    batch_size: int,
    seed: int,
    shuffle_buffer_size: int,
) -> tf.data.Dataset:
    """Endless shuffled batches, the same for the same seed, whose position can be saved.

    Args:
        paths: Record files, `.gz` if compressed.
        sizes: The lengths they were written with: {"S": ..., "P": ...}.
        batch_size: Examples in a batch.
        seed: Of the order.
        shuffle_buffer_size: Examples that the order is drawn from; each pass draws another.

    Raises:
        InputError: The records are not what `features.PRETRAINING` says.
    """
    names = _names(paths, sizes)
    dataset = tf.data.Dataset.from_tensor_slices(list(paths))
    dataset = dataset.shuffle(len(paths), seed, reshuffle_each_iteration=True)
    dataset = dataset.interleave(
        lambda path: tf.data.TFRecordDataset(path, _compression(paths)),
        cycle_length=min(len(paths), _FILES_AT_ONCE),
    )
    dataset = dataset.shuffle(shuffle_buffer_size, seed, reshuffle_each_iteration=True)
    dataset = dataset.repeat().batch(batch_size, drop_remainder=True)
    parse = features.parser(features.PRETRAINING, sizes, names)
    return dataset.map(parse, num_parallel_calls=2, deterministic=True).prefetch(2)


def evaluation_batches(
    paths: Sequence[str], sizes: dict[str, int], batch_size: int
) -> tf.data.Dataset:
    """Each example once, in the order of the files; the last batch may be smaller.

    Args:
        paths: Record files, `.gz` if compressed.
        sizes: The lengths they were written with: {"S": ..., "P": ...}.
        batch_size: Examples in a batch.

    Raises:
        InputError: The records are not what `features.PRETRAINING` says.
    """
    parse = features.parser(features.PRETRAINING, sizes, _names(paths, sizes))
    dataset = tf.data.TFRecordDataset(list(paths), _compression(paths))
    return dataset.batch(batch_size).map(parse).prefetch(2)


def check_vocabulary(
    paths: Sequence[str],
    vocab_size: int,
    vocabulary_sha256: str | None = None,
    do_lower_case: bool | None = None,
) -> None:
    """Compares the manifests beside the records with the model and the vocabulary in use.

    Args:
        paths: Record files; files without a manifest (written by other programs) pass.
        vocab_size: Of the model.
        vocabulary_sha256: Of the vocabulary in use, or None where the run was given none.
        do_lower_case: Casing in use, or None where the run was given no vocabulary.

    Raises:
        InputError: The records were made with another vocabulary, a larger one, or another
            casing.
    """
    for path in manifests(paths):
        manifest = json.loads(files.read_text(path))
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


def check_ids(paths: Sequence[str], vocab_size: int) -> None:
    """Checks that the ids of the first record of each file are ids of the model.

    Raises:
        InputError: An id is not below `vocab_size`.
    """
    for path in paths:
        for record in _records(path):
            found = tf.train.Example.FromString(record).features.feature
            for name in ("input_ids", "input_word_ids", "masked_lm_ids"):
                highest = max(found[name].int64_list.value, default=0) if name in found else 0
                if highest >= vocab_size:
                    raise InputError(
                        f"{path} holds the id {highest} in {name}, but the model's vocab_size is "
                        f"{vocab_size}. Give the config the records were made for."
                    )


def fingerprint(paths: Sequence[str]) -> str:
    """Says which files these are, by names and sizes: another text for other records."""
    sizes = [[os.path.basename(path), tf.io.gfile.stat(path).length] for path in paths]
    return f"{len(paths)} files, SHA-256 {files.sha256(json.dumps(sizes).encode())[:16]}"


def manifests(paths: Sequence[str]) -> list[str]:
    """The manifests beside the record files."""
    folders = dict.fromkeys(path.rpartition("/")[0] or "." for path in paths)
    found = (tf.io.gfile.glob(f"{folder}/*.manifest.json") for folder in folders)
    return sorted(itertools.chain.from_iterable(found))


def _compression(paths: Sequence[str]) -> str:
    return "GZIP" if paths[0].endswith(".gz") else ""


def _names(paths: Sequence[str], sizes: dict[str, int]) -> dict[str, str]:
    """Checks the first record of each file; how the features are called there."""
    names: dict[str, str] = {}
    for path in paths:
        first: Any = next(iter(_records(path)), None)
        if first is None:
            raise InputError(f"{path} holds no record: write the records anew.")
        found = features.names_in(first, features.PRETRAINING, sizes, path)
        if names and found != names:
            raise InputError(f"{path} names its features otherwise than {paths[0]} does.")
        names = found
    return names


def _records(path: str) -> Any:
    try:
        yield from tf.data.TFRecordDataset(path, _compression([path])).take(1).as_numpy_iterator()
    except tf.errors.OpError as error:
        raise InputError(f"{path} is not a TFRecord file: {plain_message(error)}.") from error
