"""Which operations of a SavedModel TensorFlow Serving may not have.

`operations.txt` lists the operations of TensorFlow 2.20.0 and tensorflow-text 2.20.0, which
TensorFlow Serving 2.20, the newest release, contains; tensorflow-text 2.20.1 has the same. A
SavedModel with another operation does not load there.
"""

import importlib.resources
import os

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2


def unknown_operations(folder: str) -> list[str]:
    """Returns the operations of a SavedModel that are not in `operations.txt`.

    Args:
        folder: The SavedModel.
    """
    model = saved_model_pb2.SavedModel()
    with tf.io.gfile.GFile(os.path.join(folder, "saved_model.pb"), "rb") as file:
        model.ParseFromString(file.read())
    used: set[str] = set()
    for graph in (each.graph_def for each in model.meta_graphs):
        functions = graph.library.function
        nodes = [*graph.node, *(node for each in functions for node in each.node_def)]
        used |= {node.op for node in nodes} - {each.signature.name for each in functions}
    return sorted(used - _known())


def _known() -> set[str]:
    path = importlib.resources.files("bert_tf.export") / "operations.txt"
    return set(path.read_text("utf-8").split())
