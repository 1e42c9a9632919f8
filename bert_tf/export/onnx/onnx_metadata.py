"""Vocabulary, labels and facts in the metadata of an ONNX file.

And a check of its graph.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from bert_tf.errors import InputError
from bert_tf.export.model_files.packages import check_installed


def with_metadata(model: bytes, embedded: Mapping[str, bytes]) -> bytes:
    """Returns an ONNX model with texts in its metadata.

    Args:
        model: A serialized ModelProto.
        embedded: Each text, UTF-8, by name.
    """
    import onnx

    entries = [{"key": name, "value": text.decode()} for name, text in embedded.items()]
    # Two messages of protobuf in a row are one that has the fields of both.
    return model + onnx.ModelProto(metadata_props=entries).SerializeToString()


def read_metadata(path: str, session: Any, *names: str) -> list[bytes]:
    """Returns texts from the metadata of an ONNX file.

    Args:
        path: The path of the file, for messages.
        session: The file in ONNX Runtime.
        *names: The names of the texts.

    Raises:
        InputError: bert-tf did not write the file.
    """
    found = session.get_modelmeta().custom_metadata_map
    if names[0] not in found:
        raise InputError(
            f"{path} contains no {names[0]}: it is not an ONNX file of bert-tf. Export "
            "the model again with --format=onnx."
        )
    return [found[name].encode() for name in names]


def check_graph(path: str, content: bytes) -> None:
    """Checks that an ONNX file contains all of its weights, and only operators of ONNX itself.

    Args:
        path: The path of the file, for messages.
        content: Its content. ONNX Runtime reports it if it is damaged.

    Raises:
        InputError: onnx is not installed, or the file reads other files or needs
            operators that ONNX does not define.
    """
    check_installed("onnx", "onnxruntime", "onnx")
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        model = onnx.ModelProto.FromString(content)
    except DecodeError:
        return
    graphs = list(_graphs(model.graph))
    others = {node.domain for graph in graphs for node in graph.node} - {"", "ai.onnx"}
    is_external = onnx.external_data_helper.uses_external_data
    if (
        others
        or model.functions
        or any(is_external(t) for g in graphs for t in _tensors(g))
    ):
        raise InputError(
            f"{path} has operators of its own or of others, or weights in other files, "
            "which files of bert-tf do not have. Export the model again with "
            "--format=onnx, or run the file with ONNX Runtime itself."
        )


def _graphs(graph: Any) -> Iterator[Any]:
    """Yields a graph, and those in it, such as the bodies of loops."""
    yield graph
    for attribute in (each for node in graph.node for each in node.attribute):
        for inner in (attribute.g, *attribute.graphs):
            yield from _graphs(inner)


def _tensors(graph: Any) -> Iterator[Any]:
    """Yields the constants of a graph, without those of the graphs in it."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for attribute in (each for node in graph.node for each in node.attribute):
        yield from (attribute.t, *attribute.tensors)
