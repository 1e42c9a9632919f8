"""Opens TensorFlow checkpoints, for the dialects "google" and "model_garden"."""

import contextlib
import os
import posixpath
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.conversion.checkpoint_contents import to_float32
from bert_tf.conversion.hugging_face_tokenizer import TOKENIZER_CONFIG_FILE
from bert_tf.errors import InputError
from bert_tf.storage import files, json_files
from bert_tf.storage.files import find_file
from bert_tf.storage.weights import CONFIG_FILE, VOCABULARY_FILE, read_vocabulary
from bert_tf.tokenization.vocabulary import released_casing

_AS_CHECKPOINT = " as a TensorFlow checkpoint"  # a part of error messages
OBJECT_GRAPH = (
    "_CHECKPOINTABLE_OBJECT_GRAPH"  # only object-based checkpoints have this tensor
)


@contextlib.contextmanager
def opened(path: str) -> Iterator[tuple[str, Any]]:
    """Finds and opens the checkpoint at a path: a prefix, an `.index` file or a folder.

    If a folder contains several checkpoints, its file `checkpoint` must name one.

    Yields:
        The prefix and a TensorFlow checkpoint reader, or `path` and None if there is no
        TensorFlow checkpoint at the path.

    Raises:
        InputError: The checkpoint is damaged, even if this is found only when the
            caller reads it; or the file `checkpoint` of the folder names a checkpoint
            in another folder, or none of several checkpoints.
    """
    with files.explain_read_errors(path, _AS_CHECKPOINT):
        prefix = _find_prefix(path)
    if prefix is None:
        yield path, None
        return

    with (
        files.explain_read_errors(prefix, _AS_CHECKPOINT),
        files.path_without_globs(prefix) as readable,
    ):
        try:
            # `tf.train.load_checkpoint` is not used, because that function first checks
            # whether the prefix is the path of a folder.
            yield prefix, tf.compat.v1.train.NewCheckpointReader(readable)
        except IndexError as error:  # a weight is after the end of the file
            raise InputError(
                f"{prefix}.data-* is incomplete: {error}. Copy it again from its "
                "source."
            ) from error


def get_weight(reader: Any, name: str) -> np.ndarray:
    """Reads the tensor of a name from a checkpoint, floating-point numbers as float32."""
    return to_float32(np.asarray(reader.get_tensor(name)))


def _find_prefix(path: str) -> str | None:
    prefix = path.removesuffix(".index")
    # The `.index` file is checked before the folder, because some file systems report
    # that the prefix of an existing file is a folder.
    if tf.io.gfile.exists(f"{prefix}.index"):
        return prefix

    names = tf.io.gfile.listdir(path) if tf.io.gfile.isdir(path) else []
    # Other files have an index too, such as train.tf_record with train.tf_record.index.
    stems = (name.removesuffix(".index") for name in names if name.endswith(".index"))
    prefixes = sorted(stem for stem in stems if stem not in names)

    # `tf.train.latest_checkpoint` prints an error if the folder was moved.
    state = tf.train.get_checkpoint_state(path) if prefixes else None
    latest = state.model_checkpoint_path if state else ""
    if latest and tf.io.gfile.exists(f"{latest}.index"):
        if os.path.realpath(posixpath.dirname(latest)) != os.path.realpath(path):
            raise InputError(
                f"{posixpath.join(path, 'checkpoint')} names {latest}, which is in "
                "another folder. Give the path of the checkpoint that you want."
            )
        return latest

    if not prefixes:
        return None
    latest_name = posixpath.basename(latest)
    if latest_name in prefixes:  # the folder was moved
        prefixes = [latest_name]

    if len(prefixes) > 1:
        raise InputError(
            f"{path} holds {len(prefixes)} checkpoints. Give the path of one of them, "
            f"such as {posixpath.join(path, prefixes[-1])}."
        )
    return posixpath.join(path, prefixes[0])


def read_neighbors(prefix: str) -> dict[str, Any]:
    """Reads the config and the vocabulary in the folder of a checkpoint.

    Returns:
        The fields `config`, `vocabulary` and `do_lower_case` of `CheckpointContents`.
        `do_lower_case` is None unless the folder has a `tokenizer_config.json` or the
        name of a released model, such as `uncased_L-12_H-768_A-12`.
    """
    folder = posixpath.dirname(prefix)
    config = None
    vocabulary = None
    if path := find_file(folder, CONFIG_FILE):
        config = BertConfig.from_dict(json_files.read(path), path)
    if path := find_file(folder, VOCABULARY_FILE):
        vocabulary = read_vocabulary(path)

    casing = released_casing(posixpath.basename(folder))
    if casing is None:
        schema = {"do_lower_case": json_files.TRUTH}
        settings = json_files.read_optional(folder, TOKENIZER_CONFIG_FILE, schema)
        casing = settings.get("do_lower_case")

    return {"config": config, "vocabulary": vocabulary, "do_lower_case": casing}
