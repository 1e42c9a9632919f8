"""The dialect "model_garden": object-based encoders of the TensorFlow Model Garden.

Checkpoints of this dialect (format) can be read but not written.
"""

from typing import Any

import numpy as np
from tensorflow.core.protobuf import trackable_object_graph_pb2

from bert_tf.conversion import tensorflow_checkpoint, weight_table
from bert_tf.conversion.checkpoint_contents import CheckpointContents
from bert_tf.errors import InputError


def read(path: str, slots: bool) -> CheckpointContents | None:
    """Reads an object-based checkpoint, and config and vocabulary in its folder.

    The keys of the checkpoint are paths through Python objects. The keys differ between
    the two encoder classes of the Model Garden. This function uses the full names of
    the variables instead, which are the same for both classes. The checkpoint contains
    the full names too.

    Args:
        path: The prefix of the checkpoint, its `.index` file, or its folder.
        slots: Ignored. Slots (Adam's moments) of this dialect are not read.

    Returns:
        The contents, or None if the path holds no object-based checkpoint.

    Raises:
        InputError: The checkpoint is damaged or is not a BERT encoder of the Model
            Garden.
    """
    with tensorflow_checkpoint.opened(path) as (prefix, reader):
        if reader is None or not reader.has_tensor(tensorflow_checkpoint.OBJECT_GRAPH):
            return None
        return _read(prefix, reader)


def _read(prefix: str, reader: Any) -> CheckpointContents:
    names = {row.model_garden: row for row in weight_table.rows()}
    match = weight_table.matcher(names, with_scope=True)

    arrays: dict[str, np.ndarray] = {}
    unknown = []
    for full_name, key in _keys_by_full_name(reader).items():
        found = match(full_name)
        if found is None:
            unknown.append(key)
            continue

        # [in, heads, head size] becomes [in, out].
        row, block = found
        name = row.google.replace("{i}", block)
        arrays[name] = weight_table.merge_heads(
            row, tensorflow_checkpoint.get_weight(reader, key)
        )

    if "bert/embeddings/word_embeddings" not in arrays:
        raise InputError(
            f"{prefix} is an object-based checkpoint, but not of a Model Garden BERT "
            "encoder: it has no variable with the name word_embeddings/embeddings."
        )

    neighbors = tensorflow_checkpoint.read_neighbors(prefix)
    return CheckpointContents(
        prefix, "model_garden", arrays, unknown=tuple(unknown), **neighbors
    )


def _keys_by_full_name(reader: Any) -> dict[str, str]:
    """Returns a dict from full variable name to checkpoint key.

    Optimizer slots are omitted.
    """
    serialized = reader.get_tensor(tensorflow_checkpoint.OBJECT_GRAPH)
    graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(serialized)

    slots = {
        slot.slot_variable_node_id
        for node in graph.nodes
        for slot in node.slot_variables
    }

    return {
        attribute.full_name: attribute.checkpoint_key
        for index, node in enumerate(graph.nodes)
        if index not in slots
        for attribute in node.attributes
        if attribute.name == "VARIABLE_VALUE" and attribute.full_name
    }
