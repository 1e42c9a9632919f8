"""Reads pretraining records of any origin in batches of columns.

Imports `features`, `files`, `errors`, `tokenization`; TensorFlow inside functions.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from bert_tf import features, files
from bert_tf.errors import InputError
from data_prep.pretraining_data.masking import Vocabulary
from data_prep.pretraining_data.settings import RecordsConfig
from data_prep.runners import stages

_BATCH = 4096
_GZIP = b"\x1f\x8b"


def load_vocabulary(vocab_file: str, do_lower_case: bool) -> tuple[Vocabulary, list[str]]:
    """The vocabulary's special ids, and its tokens.

    Raises:
        InputError: It cannot be used.
    """
    config = RecordsConfig(vocab_file, do_lower_case)
    return stages.vocabulary(config), stages.tokenizer(vocab_file, do_lower_case).vocabulary


def read(patterns: str) -> Iterator[dict[str, np.ndarray]]:
    """The columns of `bert_tf.features.PRETRAINING`, batch by batch.

    Args:
        patterns: Comma list of globs.

    Raises:
        InputError: No file, no record, a damaged one, or one that lacks a feature.
    """
    import tensorflow as tf

    for path in files.expand(patterns, "record"):
        with tf.io.gfile.GFile(path, "rb") as file:
            compression = "GZIP" if file.read(2) == _GZIP else ""
        data = tf.data.TFRecordDataset(path, compression)
        try:
            parse: Any = None
            for batch in data.batch(_BATCH):
                parse = parse or _parser(batch[0].numpy(), path)
                yield {name: value.numpy() for name, value in parse(batch).items()}
        except tf.errors.OpError as error:
            raise InputError(f"{path} is damaged: {error.message}") from error
        if parse is None:
            raise InputError(f"{path} holds no record.")


def _parser(record: bytes, path: str) -> Any:
    """For records like this one: under its names, in its lengths."""
    import tensorflow as tf

    try:
        found = tf.train.Example.FromString(record).features.feature
    except Exception as error:  # protobuf's DecodeError lives in a module that has moved
        raise InputError(f"{path} holds a record that is not a tf.train.Example.") from error
    sizes = {"S": len(found["input_mask"].int64_list.value)}
    sizes["P"] = len(found["masked_lm_ids"].int64_list.value)
    names = features.names_in(record, features.PRETRAINING, sizes, path)
    return features.parser(features.PRETRAINING, sizes, names)
