"""The dialect "tensorflow_hub": SavedModels of TensorFlow Hub and Kaggle.

The variables of a SavedModel have the names of the Model Garden. In modules of
TensorFlow 1, they have the names of google-research/bert. Nothing in the graph is run.
Checkpoints of this dialect (format) can be read but not written.
"""

import dataclasses
import posixpath
from collections.abc import Mapping
from typing import Any

import numpy as np
from tensorflow.core.protobuf import saved_model_pb2

from bert_tf.config import BertConfig
from bert_tf.conversion import google, model_garden, tensorflow_checkpoint
from bert_tf.conversion.checkpoint_contents import CheckpointContents
from bert_tf.errors import InputError
from bert_tf.storage import files
from bert_tf.storage.files import find_file
from bert_tf.storage.weights import VOCABULARY_FILE, read_vocabulary

_GRAPH_FILE = "saved_model.pb"
_CASING = "do_lower_case/.ATTRIBUTES/VARIABLE_VALUE"
_EMBEDDINGS = "bert/embeddings/"
_INTERMEDIATE = "bert/encoder/layer_0/intermediate/dense/bias"


def read(path: str, slots: bool) -> CheckpointContents | None:
    """Reads the weights, the architecture and the vocabulary of a SavedModel.

    Returns None if the path is not the folder of a BERT encoder. A SavedModel that only
    prepares texts raises `InputError`. `config` is None for a module of TensorFlow 1,
    whose variables do not show how many attention heads the model has. `slots` has no
    effect, because a SavedModel has no slots (Adam's moments).
    """
    graph_file = posixpath.join(path, _GRAPH_FILE)
    if not files.exists(graph_file):
        return None

    vocabulary_file = find_file(path, posixpath.join("assets", VOCABULARY_FILE))
    facts: dict[str, Any] = {"source": path, "dialect": "tensorflow_hub"}
    if vocabulary_file:
        facts["vocabulary"] = read_vocabulary(vocabulary_file)

    variables = posixpath.join(path, "variables/variables")
    with tensorflow_checkpoint.opened(variables) as (prefix, reader):
        if reader is None:
            return None
        if not reader.has_tensor(tensorflow_checkpoint.OBJECT_GRAPH):
            contents = google.read(prefix, slots=False)
            return contents and dataclasses.replace(contents, **facts)

        weights, heads = model_garden.read_weights(prefix, reader)
        has_weights = any(reader.get_variable_to_shape_map().values())
        if reader.has_tensor(_CASING):
            facts["do_lower_case"] = bool(reader.get_tensor(_CASING))

    if vocabulary_file and not has_weights:
        raise InputError(
            f"{path} prepares texts for an encoder, and has no weights. Give the "
            "SavedModel of the encoder; bert-tf has a tokenizer of its own."
        )
    if (
        not heads
        or not {f"{_EMBEDDINGS}word_embeddings", _INTERMEDIATE} <= weights.arrays.keys()
    ):
        return None

    unknown = tuple(key for key in weights.unknown if key != _CASING)
    if unknown:
        facts["notes"] = (
            f"it has {len(unknown)} variables that a BERT does not have, such as "
            f"{unknown[0]}, so bert-tf may compute another model",
        )
    config = _config(weights.arrays, heads, _hidden_act(graph_file))
    return dataclasses.replace(weights, config=config, unknown=unknown, **facts)


def _config(
    arrays: Mapping[str, np.ndarray], heads: int, hidden_act: str
) -> BertConfig:
    """Derives the architecture from the shapes of the weights."""
    shapes = {
        name.removeprefix(_EMBEDDINGS): array.shape for name, array in arrays.items()
    }
    blocks = [name for name in shapes if name.endswith("intermediate/dense/bias")]
    return BertConfig(
        vocab_size=shapes["word_embeddings"][0],
        hidden_size=shapes["word_embeddings"][1],
        num_hidden_layers=len(blocks),
        num_attention_heads=heads,
        intermediate_size=shapes[_INTERMEDIATE][0],
        max_position_embeddings=shapes["position_embeddings"][0],
        type_vocab_size=shapes["token_type_embeddings"][0],
        hidden_act=hidden_act,
    )


def _hidden_act(graph_file: str) -> str:
    """Derives the activation of the blocks from the operations in the graph.

    Erf shows the erf form of gelu, and Relu shows relu. In all other cases, the result
    is the tanh form of gelu. The operation Tanh shows nothing: every pooler has one.
    """
    with files.explain_read_errors(graph_file, " as a SavedModel"):
        graph = saved_model_pb2.SavedModel.FromString(files.read_bytes(graph_file))

    operations = {
        node.op
        for meta_graph in graph.meta_graphs
        for function in meta_graph.graph_def.library.function
        for node in function.node_def
    }
    if operations & {"Erf", "Erfc"}:
        return "gelu_exact"
    return "relu" if "Relu" in operations else "gelu"
