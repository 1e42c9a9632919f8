"""Opens TensorFlow checkpoint files, which the dialects "google" and "model_garden" both use.

Imports foundation modules and also `tokenization.released_casing`; TensorFlow is imported inside
functions only.
"""

import posixpath
from typing import Any

from bert_tf import files
from bert_tf.config import BertConfig
from bert_tf.conversion.hugging_face_tokenizer import TOKENIZER_CONFIG_FILE
from bert_tf.errors import InputError
from bert_tf.tokenization.released_casing import released_casing
from bert_tf.weights import CONFIG_FILE, VOCABULARY_FILE, read_vocabulary

OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"  # only object-based checkpoints have this tensor


def find(path: str) -> tuple[str, Any]:
    """Finds and opens the checkpoint at a path.

    Args:
        path: The prefix of the checkpoint, its `.index` file, or its folder. If the folder contains
            several checkpoints, the file `checkpoint` in the folder must name one of them.

    Returns:
        The prefix and a TensorFlow checkpoint reader, or `path` and None if there is no TensorFlow
        checkpoint at the path.

    Raises:
        InputError: The checkpoint is damaged, or the folder contains several checkpoints but no
            file `checkpoint` that names one of them.
    """
    import tensorflow as tf

    prefix = _find_prefix(path)
    if prefix is None:
        return path, None
    try:
        # `tf.train.load_checkpoint` is not used, because that function first checks whether the
        # prefix is the path of a folder.
        return prefix, tf.compat.v1.train.NewCheckpointReader(prefix)
    except (tf.errors.OpError, ValueError) as error:
        message = " ".join(str(error).split())
        raise InputError(f"{prefix} is not a valid TensorFlow checkpoint: {message}") from error


def _find_prefix(path: str) -> str | None:
    import tensorflow as tf

    prefix = path.removesuffix(".index")
    # The `.index` file is checked before the folder, because some file systems report that the
    # prefix of an existing file is a folder.
    if tf.io.gfile.exists(f"{prefix}.index"):
        return prefix
    names = tf.io.gfile.listdir(path) if tf.io.gfile.isdir(path) else []
    prefixes = sorted(name.removesuffix(".index") for name in names if name.endswith(".index"))
    latest = tf.train.latest_checkpoint(path) if prefixes else None
    if latest or not prefixes:
        return latest
    if len(prefixes) > 1:
        raise InputError(
            f"{path} holds {len(prefixes)} checkpoints. Give the path of one of them, such as "
            f"{posixpath.join(path, prefixes[-1])}."
        )
    return posixpath.join(path, prefixes[0])


def read_neighbors(prefix: str) -> dict[str, Any]:
    """Reads the config and the vocabulary in the folder of a checkpoint.

    Returns:
        The fields `config`, `vocabulary` and `do_lower_case` of `CheckpointContents`. A field is
        None if its value is unknown. `do_lower_case` is known if the folder has the name of a
        released model, such as `uncased_L-12_H-768_A-12`, or a `tokenizer_config.json`.

    Raises:
        InputError: A file is damaged, or the casing is not a truth value.
    """
    from tensorflow.io import gfile

    folder = posixpath.dirname(prefix)
    config_path = posixpath.join(folder, CONFIG_FILE)
    vocabulary_path = posixpath.join(folder, VOCABULARY_FILE)
    config, vocabulary = None, None
    if gfile.exists(config_path):
        config = BertConfig.from_json(files.read_text(config_path), config_path)
    if gfile.exists(vocabulary_path):
        vocabulary = read_vocabulary(vocabulary_path)
    casing = released_casing(posixpath.basename(folder))
    settings_path = posixpath.join(folder, TOKENIZER_CONFIG_FILE)
    if casing is None and gfile.exists(settings_path):
        casing = _read_casing(settings_path)
    return {"config": config, "vocabulary": vocabulary, "do_lower_case": casing}


def _read_casing(path: str) -> bool | None:
    """Returns `do_lower_case` of a `tokenizer_config.json`, or None if the file does not state it.

    Raises:
        InputError: The file is not a JSON object, or the value is not a truth value.
    """
    casing = files.read_json_object(path).get("do_lower_case")
    if casing is not None and not isinstance(casing, bool):
        raise InputError(f"{path}: do_lower_case must be true or false. Received: {casing!r:.40}.")
    return casing
