"""The dialect "google": name-based checkpoints, such as Google's `bert_model.ckpt`.

The keys of a name-based checkpoint are the names of the variables.
"""

import posixpath
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.conversion import tensorflow_checkpoint, weight_names
from bert_tf.conversion.checkpoint_contents import CheckpointContents
from bert_tf.conversion.hugging_face_tokenizer import TOKENIZER_CONFIG_FILE
from bert_tf.conversion.tensorflow_checkpoint import get_weight
from bert_tf.errors import InputError
from bert_tf.storage import files
from bert_tf.storage.weights import CONFIG_FILE, write_vocabulary_file

SLOTS = ("adam_m", "adam_v")
STEP = "global_step"
# The file in which TensorFlow stores the name of the newest checkpoint of a folder.
_STATE = "checkpoint"
# google-research/bert ignores most other values without an error, and then computes a
# different model.
SUPPORTED_SETTINGS = {
    "hidden_act": ("gelu", "relu", "tanh", "linear"),
    "attention": ("bidirectional",),
    "layer_norm_eps": (BertConfig.layer_norm_eps,),
}


def read(path: str, slots: bool) -> CheckpointContents | None:
    """Reads a name-based checkpoint, and the config and the vocabulary in its folder.

    Returns None if the path, which may be a prefix, an `.index` file or a folder, holds
    no name-based checkpoint.
    """
    with tensorflow_checkpoint.opened(path) as (prefix, reader):
        if reader is None or reader.has_tensor(tensorflow_checkpoint.OBJECT_GRAPH):
            return None

        names = list(reader.get_variable_to_shape_map())
        weights = [n for n in names if not n.endswith(SLOTS) and n != STEP]
        if not any(name.startswith("bert/") for name in weights):
            raise InputError(
                f"{prefix} is not a BERT checkpoint: the name of no variable starts "
                f"with bert/. It has {len(names)} variables, such as "
                f"{', '.join(sorted(names)[:3])}."
            )

        # Weights and slots that the table lists are read.
        heads = weight_names.CLASSIFIER_HEADS
        match = weight_names.matcher(
            {row.google: row for h in heads for row in weight_names.rows(h)}
        )
        known = [name for name in weights if match(name)]
        known_slots = [
            name
            for name in names
            if slots and name.endswith(SLOTS) and match(name.rpartition("/")[0])
        ]

        return CheckpointContents(
            source=prefix,
            dialect="google",
            arrays={name: get_weight(reader, name) for name in known},
            unknown=tuple(sorted(set(weights) - set(known))),
            slots={name: get_weight(reader, name) for name in known_slots},
            global_step=int(reader.get_tensor(STEP)) if STEP in names else None,
            **tensorflow_checkpoint.read_neighbors(prefix),
        )


def write(folder: str, contents: CheckpointContents) -> str:
    """Writes checkpoint, config and vocabulary to an empty folder; returns the prefix.

    If `contents` has slots, the checkpoint is named `model.ckpt-<step>`, and
    google-research/bert can resume training with the folder as its `output_dir`.
    Otherwise the checkpoint is named `bert_model.ckpt`. The file `checkpoint` in the
    folder contains that name.
    """
    values: dict[str, Any] = {**contents.arrays, **contents.slots}
    name = "bert_model.ckpt"
    if contents.slots:
        values[STEP] = np.int64(contents.global_step or 0)
        name = f"model.ckpt-{values[STEP]}"
    names = sorted(values)

    files.write_text(
        posixpath.join(folder, CONFIG_FILE), contents.require_config().to_json()
    )
    write_vocabulary_file(folder, contents.vocabulary)
    if contents.do_lower_case is not None:
        # google-research/bert ignores this file, and takes the casing from
        # --do_lower_case.
        settings = {"do_lower_case": contents.do_lower_case}
        files.write_json(posixpath.join(folder, TOKENIZER_CONFIG_FILE), settings)

    # The format of TensorFlow 1's saver, which the original programs read.
    prefix = posixpath.join(folder, name)
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[tf.constant(values[name]) for name in names],
    )

    state = f'model_checkpoint_path: "{name}"\nall_model_checkpoint_paths: "{name}"\n'
    files.write_text(posixpath.join(folder, _STATE), state)
    return prefix
