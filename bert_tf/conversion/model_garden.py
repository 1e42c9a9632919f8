"""Object-based checkpoints of the TensorFlow Model Garden's BERT encoders, read.

Imports layer 0, TensorFlow inside functions, `table` and `weights`.
"""

from typing import Any

import numpy as np

from bert_tf.conversion import table
from bert_tf.conversion.weights import Weights
from bert_tf.errors import InputError

GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"


def read(prefix: str, reader: Any) -> Weights:
    """Reads an object-based checkpoint.

    Its keys are paths through Python objects, which differ between the two encoder classes; the
    full names of the variables, which the file holds too, do not.

    Args:
        prefix: Its path without `.index`.
        reader: A TensorFlow checkpoint reader for it.

    Raises:
        InputError: It is not the checkpoint of a Model Garden BERT.
    """
    match = table.matcher({row.model_garden: row for row in table.rows()}, anywhere=True)
    arrays: dict[str, np.ndarray] = {}
    unknown = []
    for full_name, key in _variables(reader).items():
        found = match(full_name)
        if found is None:
            unknown.append(key)
            continue
        row, block = found
        name = row.google.replace("{i}", block)
        arrays[name] = table.from_heads(row, reader.get_tensor(key))
    if "bert/embeddings/word_embeddings" not in arrays:
        raise InputError(
            f"{prefix} is an object-based checkpoint, but not of a Model Garden BERT encoder: "
            "none of its variables is called word_embeddings/embeddings."
        )
    return Weights(prefix, "model_garden", arrays, unknown=tuple(unknown))


def _variables(reader: Any) -> dict[str, str]:
    """Checkpoint key of each variable by its full name; optimizer slots and counters left out."""
    from tensorflow.core.protobuf import trackable_object_graph_pb2

    graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(reader.get_tensor(GRAPH))
    slots = {slot.slot_variable_node_id for node in graph.nodes for slot in node.slot_variables}
    return {
        attribute.full_name: attribute.checkpoint_key
        for index, node in enumerate(graph.nodes)
        if index not in slots
        for attribute in node.attributes
        if attribute.name == "VARIABLE_VALUE" and attribute.full_name
    }
