"""Loads a SavedModel, after a check that its graph only computes.

A SavedModel is a program. Loading it runs functions of its graph, such as initializers,
and its operations can read and write files and run Python code. The graphs that bert-tf
exports need only operations that compute, and those that read the weights.
`saved_model_allowed_operations.txt` lists them; all of them exist in TensorFlow 2.12
and tensorflow-text 2.12, which TensorFlow Serving contained from 2023 to 2026, and in
2.20.
"""

import collections
import importlib.resources
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.framework import op_def_registry

from bert_tf.errors import InputError, plain_message
from bert_tf.export.layout import CHECKED_FILES, EXTRA, FILES_SHA256
from bert_tf.storage import files, integrity, json_files
from bert_tf.storage.weights import FACTS_FILE

_WEIGHTS = "variables/variables.data-00000-of-00001"
# The operations that write and read the weights; only the functions of the saver may
# use them. Some programs, such as TensorFlow Serving, run the function that restores
# when they load a model.
_OF_SAVE = frozenset({"MergeV2Checkpoints", "SaveV2", "ShardedFilename"})
_OF_RESTORE = frozenset({"RestoreV2"})
# The identifiers of Python classes that TensorFlow creates for the objects of a
# SavedModel.
_CLASSES = {
    "_generic_user_object",
    "signature_map",
    "trackable_dict_wrapper",
    "trackable_list_wrapper",
    "trackable_tuple_wrapper",
}
_REGISTERED = {"tf.TrackableConstant"}
_KINDS = {
    "bare_concrete_function",
    "captured_tensor",
    "constant",
    "function",
    "user_object",
    "variable",
}


def load_saved_model(folder: str, trust: bool) -> tuple[Any, Mapping[str, Any]]:
    """Loads a SavedModel that bert-tf exported; returns it and its facts.

    With `trust`, neither the graph nor the checksums are checked, and the graph may do
    anything that this process may do.

    Raises:
        InputError: A file is missing, damaged or was changed, or the graph contains
            anything that models of bert-tf do not need.
    """
    facts = json_files.read(os.path.join(folder, EXTRA, FACTS_FILE), own=True)
    if not trust:
        _check_graph(folder)
        _check_checksums(folder, facts)
    try:
        with files.path_without_globs(folder) as readable:
            return tf.saved_model.load(readable), facts
    except Exception as error:  # a damaged model leads to errors of many classes
        message = (
            plain_message(error) if isinstance(error, tf.errors.OpError) else str(error)
        )
        reason = " ".join(message.split()).rstrip(".") or type(error).__name__
        path = os.path.join(folder, _WEIGHTS) if "Read less bytes" in reason else folder
        raise InputError(
            f"{path} cannot be loaded: {reason:.300}. It is incomplete or damaged; "
            "export or copy the model again."
        ) from error


def _check_graph(folder: str) -> None:
    foreign = foreign_parts(read_graph(folder))
    if foreign:
        listed = ", ".join(foreign[:5]) + (", ..." if len(foreign) > 5 else "")
        raise InputError(
            f"{folder} is refused: a SavedModel is a program, and this one contains "
            f"{listed}, which no model of bert-tf needs. It could read or write files. "
            "If you trust its author, give trust=True."
        )


def _check_checksums(folder: str, facts: Mapping[str, Any]) -> None:
    own = f"{EXTRA}/{FACTS_FILE}"
    listed = facts.get(FILES_SHA256, {})
    expected = {name: listed.get(name) for name in CHECKED_FILES}
    changed = [] if integrity.is_sealed(facts) else [os.path.join(folder, own)]
    for path in itertools.chain(changed, integrity.changed_files(folder, expected)):
        raise InputError(
            f"{path} was changed after the export: {own} does not state its SHA-256. "
            "Export the model again, or give trust=True."
        )


def read_graph(folder: str) -> Any:
    """Reads the `MetaGraphDef` of a SavedModel. Runs no part of it.

    Raises:
        InputError: The file is missing, damaged, or not of TensorFlow 2.
    """
    path = os.path.join(folder, "saved_model.pb")
    with files.explain_read_errors(path):
        model = saved_model_pb2.SavedModel.FromString(files.read_bytes(path))
    if len(model.meta_graphs) != 1 or not model.meta_graphs[0].HasField(
        "object_graph_def"
    ):
        raise InputError(
            f"{path} is damaged, or is not a SavedModel of TensorFlow 2. Export the "
            "model again."
        )
    return model.meta_graphs[0]


def foreign_parts(graph: Any) -> list[str]:
    """Describes the parts of a `MetaGraphDef` that no model of bert-tf needs.

    It checks the operations of all functions, also of functions that nothing calls.
    """
    library = graph.graph_def.library
    functions = {each.signature.name: each.node_def for each in library.function}
    allowed = _allowed()
    of_saver = _functions_of_saver(graph)

    # Operations of the graph and of its functions.
    parts = set(_ambiguous_names(library, allowed))
    for name, nodes in (("", graph.graph_def.node), *functions.items()):
        own = allowed | of_saver.get(name, frozenset())
        parts |= {f"the operation {each.op}" for each in nodes if each.op not in own}

    # A function that is not in the library could be one that this process has defined
    # before.
    everywhere = itertools.chain(graph.graph_def.node, *functions.values())
    unknown = _in_attributes(everywhere) - functions.keys()
    parts |= {f"the unknown function {name}" for name in unknown}

    for name, signature in graph.signature_def.items():
        for each in [*signature.inputs.values(), *signature.outputs.values()]:
            if each.WhichOneof("encoding") not in (None, "name"):
                parts.add(f"a sparse or composite tensor of the signature {name}")
    return [*sorted(parts), *_foreign_objects(graph.object_graph_def)]


def _ambiguous_names(library: Any, allowed: frozenset[str]) -> Iterator[str]:
    """Describes each function that has the name of an operation or of another function.

    TensorFlow would call such a function instead of the operation with its name.
    """
    names = collections.Counter(
        function.signature.name for function in library.function
    )
    for name, count in names.items():
        is_operation = name in allowed | _OF_SAVE | _OF_RESTORE or op_def_registry.get(
            name
        )
        if is_operation or count > 1:
            yield f"the ambiguous function {name}"


def _saver_nodes(graph: Any) -> dict[str, frozenset[str]]:
    """Returns the nodes that only save or restore weights, with the operations they may run."""
    saver = graph.saver_def
    nodes = {
        saver.save_tensor_name.partition(":")[0]: _OF_SAVE,
        saver.restore_op_name.partition(":")[0]: _OF_RESTORE,
    }
    used = [name for node in graph.graph_def.node for name in node.input]
    for signature in graph.signature_def.values():
        used += [output.name for output in signature.outputs.values()]
    for collection in graph.collection_def.values():
        used += collection.node_list.value
    others = {name.lstrip("^").partition(":")[0] for name in used}
    return {
        name: operations for name, operations in nodes.items() if name not in others
    }


def _functions_of_saver(graph: Any) -> dict[str, frozenset[str]]:
    """Returns the functions that only save or restore weights, with the operations they may run."""
    nodes = graph.graph_def.node
    library = graph.graph_def.library
    objects = graph.object_graph_def

    # Collect all functions that something else than the saver may call.
    savers = _saver_nodes(graph)
    others = _called(each for each in nodes if each.name not in savers)
    for function in library.function:
        others |= _called(function.node_def)
        # TensorFlow may replace a function by another one with the same interface.
        if "api_implements" in function.attr:
            others.add(function.signature.name)
    others.update(objects.concrete_functions)
    for each in (*library.gradient, *library.registered_gradients):
        others.add(each.gradient_func)
    for each in objects.nodes:
        others.add(each.bare_concrete_function.concrete_function_name)
        others.update(each.function.concrete_functions)

    return {
        function: operations
        for saver, operations in savers.items()
        for function in _in_attributes(each for each in nodes if each.name == saver)
        - others
    }


def _called(nodes: Iterable[Any]) -> set[str]:
    """Returns the functions that nodes may call: in their attributes, or as their operation."""
    nodes = list(nodes)
    return _in_attributes(nodes) | {node.op for node in nodes}


def _in_attributes(nodes: Iterable[Any]) -> set[str]:
    return {name for node in nodes for name in _functions_in(node.attr)}


def _functions_in(attributes: Mapping[str, Any]) -> Iterator[str]:
    for value in attributes.values():
        functions = value.list.func
        if value.HasField("func"):
            functions = [value.func]
        for function in functions:
            yield function.name
            yield from _functions_in(function.attr)


def _foreign_objects(objects: Any) -> list[str]:
    """Describes the objects that loading would create in Python although they are not allowed."""
    parts: set[str] = set()
    for node in objects.nodes:
        kind = node.WhichOneof("kind")
        if kind not in _KINDS:
            parts.add(f"an object of the kind {kind}")
        elif kind == "user_object" and node.user_object.identifier not in _CLASSES:
            parts.add(f"the class {node.user_object.identifier}")
        names = {node.registered_name, node.registered_saver} - {""} - _REGISTERED
        parts |= {f"the class {name}" for name in names}
    return sorted(parts)


def _allowed() -> frozenset[str]:
    path = (
        importlib.resources.files("bert_tf.export")
        / "saved_model_allowed_operations.txt"
    )
    return frozenset(path.read_text("utf-8").split())
