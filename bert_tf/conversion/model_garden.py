"""The dialect "model_garden": object-based checkpoints of the TensorFlow Model Garden.

Checkpoints of this dialect (format) can be read but not written.
"""

import dataclasses
from typing import Any

import numpy as np
from tensorflow.core.protobuf import trackable_object_graph_pb2

from bert_tf.conversion import tensorflow_checkpoint, weight_names
from bert_tf.conversion.checkpoint_contents import CheckpointContents
from bert_tf.conversion.weight_names import Row
from bert_tf.errors import InputError

_WORD_EMBEDDINGS = "bert/embeddings/word_embeddings"
# Further weights: the last part of the variable's full name, and the name in bert-tf.
_HEADS = {
    # `BertPretrainerV2` and some classifiers train a pooler of the head, and leave that
    # of the encoder, `pooler_transform`, at its initial values.
    "pooler_dense/kernel": "bert/pooler/dense/kernel",
    "pooler_dense/bias": "bert/pooler/dense/bias",
    "next_sentence/logits/kernel": "cls/seq_relationship/output_weights",
    "next_sentence/logits/bias": "cls/seq_relationship/output_bias",
    "sentence_prediction/logits/kernel": "output_weights",
    "sentence_prediction/logits/bias": "output_bias",
    # A tagger, a span labeler and the classifiers of 2020 have the same names.
    "predictions/transform/logits/kernel": "classifier.weight",
    "predictions/transform/logits/bias": "classifier.bias",
}
# `tf.train.Checkpoint` counts its files in this variable.
_SAVE_COUNTER = "save_counter"


def read(path: str, slots: bool) -> CheckpointContents | None:
    """Reads an object-based checkpoint without slots, and its config and vocabulary.

    Returns None if the path, which may be a prefix, an `.index` file or a folder, holds
    no object-based checkpoint. A checkpoint of another model than BERT raises
    `InputError`.
    """
    with tensorflow_checkpoint.opened(path) as (prefix, reader):
        if reader is None or not reader.has_tensor(tensorflow_checkpoint.OBJECT_GRAPH):
            return None
        contents, _ = read_weights(prefix, reader)

    if _WORD_EMBEDDINGS not in contents.arrays:
        raise InputError(
            f"{prefix} is an object-based checkpoint, but not of a Model Garden BERT "
            "encoder: it has no variable with the name word_embeddings/embeddings."
        )

    return dataclasses.replace(contents, **tensorflow_checkpoint.read_neighbors(prefix))


def read_weights(prefix: str, reader: Any) -> tuple[CheckpointContents, int]:
    """Reads the weights, given a result of `tensorflow_checkpoint.opened`.

    The keys of the checkpoint are paths through Python objects, and differ between the
    classes of the Model Garden. This function uses the full names of the variables,
    which the checkpoint contains too, and which are the same for all classes.

    Returns:
        The contents without config and vocabulary, and the number of attention heads
        (0 if there is no attention).
    """
    names = {row.model_garden: row for row in weight_names.rows()}
    names |= {name: Row(google, "") for name, google in _HEADS.items()}
    match = weight_names.matcher(names, with_scope=True)

    arrays: dict[str, np.ndarray] = {}
    unknown = []
    heads = 0
    keys = _keys_by_full_name(reader)
    found_at: dict[str, str] = {}
    # The pooler of a head is read last, so it replaces the pooler of the encoder.
    for full_name in sorted(keys, key=_order_of_poolers):
        row = match(full_name)
        if row is None:
            unknown.append(keys[full_name])
            continue

        array = tensorflow_checkpoint.get_weight(reader, keys[full_name])
        if row.heads == "out" and array.ndim == 3:
            heads = array.shape[1]

        # [in, heads, head size] becomes [in, out], the [in, out] of an output layer
        # becomes [out, in].
        array = weight_names.merge_heads(row, array)
        name = row.google
        arrays[name] = array.T if full_name.endswith("logits/kernel") else array

        # No other weight may be replaced.
        before = found_at.get(name)
        found_at[name] = full_name
        if before and "pooler_dense" in before:
            unknown.append(keys[before])
        elif before and "pooler_transform" not in before:
            raise InputError(
                f"The checkpoint has two variables for {name}: {before} and "
                f"{full_name}. Save the model with one encoder."
            )

    of_classifier = [name for name in arrays if name.startswith("classifier.")]
    classifier = {name: arrays.pop(name) for name in of_classifier}
    contents = CheckpointContents(
        prefix,
        "model_garden",
        arrays,
        unknown=tuple(unknown),
        classifier=classifier,
    )
    return contents, heads


def _order_of_poolers(full_name: str) -> int:
    """Returns the sort key of a variable, so that poolers of heads are read last.

    A variable that is read later replaces an earlier one. So the pooler of a
    next-sentence or classification head (key 2) replaces the pooler of another head
    (key 1), and both replace the pooler of the encoder (key 0, as all other variables).
    """
    usual = ("next_sentence/", "sentence_prediction/")
    return ("pooler_dense" in full_name) * (1 + any(u in full_name for u in usual))


def _keys_by_full_name(reader: Any) -> dict[str, str]:
    """Returns checkpoint keys by full variable name, without slots and the save counter."""
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
        if attribute.name == "VARIABLE_VALUE"
        and attribute.full_name not in ("", _SAVE_COUNTER)
    }
