"""Name-based checkpoints of google-research/bert (`bert_model.ckpt`), read and written.

Imports layer 0, TensorFlow inside functions, `table` and `weights`.
"""

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from bert_tf import files
from bert_tf.config import BertConfig
from bert_tf.conversion import table
from bert_tf.conversion.weights import Weights
from bert_tf.errors import InputError
from bert_tf.weights import CONFIG_FILE, VOCABULARY_FILE, vocabulary_text

SLOTS = ("adam_m", "adam_v")
STEP = "global_step"
_STATE = "checkpoint"  # which checkpoint is the newest, as TensorFlow keeps it


def open_checkpoint(prefix: str) -> Any:
    """A TensorFlow checkpoint reader.

    Raises:
        InputError: The files are missing or damaged.
    """
    import tensorflow as tf

    try:
        # Not `tf.train.load_checkpoint`, which looks for a folder of that name first.
        return tf.compat.v1.train.NewCheckpointReader(prefix)
    except (tf.errors.OpError, ValueError) as error:
        message = " ".join(str(error).split())
        raise InputError(f"{prefix} is not a whole TensorFlow checkpoint: {message}") from error


def read(prefix: str, reader: Any, slots: bool) -> Weights:
    """Reads a name-based checkpoint.

    Args:
        prefix: Its path without `.index`.
        reader: What `open_checkpoint` returned for it.
        slots: Whether to read Adam's slots too.

    Raises:
        InputError: It holds no `bert/` variables.
    """
    names = list(reader.get_variable_to_shape_map())
    weights = [n for n in names if not n.endswith(SLOTS) and n != STEP]
    if not any(name.startswith("bert/") for name in weights):
        raise InputError(
            f"{prefix} is no BERT checkpoint: no variable starts with bert/. It holds "
            f"{', '.join(sorted(names)[:3])}."
        )
    match = table.matcher({row.google: row for row in _all_rows()}, anywhere=False)
    known = [name for name in weights if match(name)]
    kept = [n for n in names if n.endswith(SLOTS) and match(n.rpartition("/")[0])] if slots else []
    return Weights(
        source=prefix,
        dialect="google",
        arrays={name: reader.get_tensor(name).astype(np.float32) for name in known},
        unknown=tuple(sorted(set(weights) - set(known))),
        slots={name: reader.get_tensor(name) for name in kept},
        global_step=int(reader.get_tensor(STEP)) if STEP in names else None,
    )


def _all_rows() -> Iterator[table.Row]:
    """Rows of every head: those that Hugging Face calls alike have different names here."""
    for architecture in table.CLASSIFIER_HEADS:
        yield from table.rows(architecture)


def beyond_the_original(config: BertConfig) -> list[str]:
    """What a config asks for that google-research/bert cannot compute, mostly without a word."""
    beyond = {
        "hidden_act": config.hidden_act not in ("gelu", "relu", "tanh", "linear"),
        "attention": config.attention != "bidirectional",
        "layer_norm_eps": config.layer_norm_eps != BertConfig.layer_norm_eps,
    }
    return [f"{name} {getattr(config, name)}" for name, is_beyond in beyond.items() if is_beyond]


def write(folder: str, weights: Weights, arrays: Mapping[str, np.ndarray]) -> str:
    """Writes a folder that the original programs take: checkpoint, config and vocabulary.

    With slots the checkpoint is `model.ckpt-<step>` and a `checkpoint` file names it, so that the
    original training goes on from it as its `output_dir`; without, it is `bert_model.ckpt`.

    Args:
        folder: Where; an existing folder is replaced.
        weights: What to write beside the arrays: config, vocabulary, slots and step.
        arrays: The weights by google-research/bert name.

    Returns:
        The prefix of the checkpoint.
    """
    import tensorflow as tf

    values: dict[str, Any] = {**arrays, **weights.slots}
    name = "bert_model.ckpt"
    if weights.slots:
        values[STEP] = np.int64(weights.global_step or 0)
        name = f"model.ckpt-{values[STEP]}"
    names = sorted(values)
    folder = folder.rstrip("/")
    with files.atomic_folder(folder, _STATE) as place:
        tf.io.gfile.makedirs(place)
        if weights.config is not None:
            files.write_text(posixpath.join(place, CONFIG_FILE), weights.config.to_json())
        if weights.vocabulary is not None:
            path = posixpath.join(place, VOCABULARY_FILE)
            files.write_bytes(path, vocabulary_text(weights.vocabulary))
        tf.raw_ops.SaveV2(
            prefix=posixpath.join(place, name),
            tensor_names=names,
            shape_and_slices=[""] * len(names),
            tensors=[tf.constant(values[name]) for name in names],
        )
        state = f'model_checkpoint_path: "{name}"\nall_model_checkpoint_paths: "{name}"\n'
        files.write_text(posixpath.join(place, _STATE), state)
    return posixpath.join(folder, name)
