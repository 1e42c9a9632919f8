"""Writes, reads and runs the ONNX files of an export."""

import dataclasses
import functools
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from bert_tf.errors import InputError
from bert_tf.export.formats import check_installed
from bert_tf.export.job import ExportJob
from bert_tf.export.model_file import (
    STORED_TEXTS,
    FileForward,
    ModelFile,
    OpenFile,
    PreparedFiles,
    embedded_files,
)
from bert_tf.export.onnx.onnx_conversion import convert, quantize
from bert_tf.export.served import ServedModel, load_served
from bert_tf.storage import files

_LOGGER = logging.getLogger(__name__)
_CLIENT = "onnx_client.py"
_CLIENT_PATH = os.path.join(os.path.dirname(__file__), _CLIENT)


def prepare(job: ExportJob) -> PreparedFiles:
    """Reads everything that ONNX files need, before anything is written.

    Args:
        job: The model and the settings.

    Returns:
        A file for each precision. Exports of tasks with one output for each text also
        have `onnx_client.py`.

    Raises:
        InputError: The checkpoint cannot be exported for the task, or a package is not
            installed.
    """
    check_installed("onnx", to_write=True)
    settings = dataclasses.replace(job.settings, precision="float32")
    served = load_served(job.checkpoint, settings)
    found = [
        ModelFile(precision) for precision in dict.fromkeys(settings.onnx_precisions)
    ]
    # Both precisions need the float32 model, which is converted once.
    float32 = functools.cache(lambda: convert(served))
    write = functools.partial(_write_file, float32, job, served)
    client = files.read_bytes(_CLIENT_PATH)
    return PreparedFiles(
        served, found, write, {_CLIENT: client} if served.lite_takes_texts else {}
    )


def _write_file(
    float32: Callable[[], bytes],
    job: ExportJob,
    served: ServedModel,
    place: str,
    file: ModelFile,
) -> ModelFile:
    """Writes a model with its vocabulary, labels and facts."""
    name = f"{file.precision}.onnx"
    _LOGGER.info("converting %s", name)
    model = quantize(float32()) if file.precision == "int8" else float32()
    path = os.path.join(place, name)
    files.write_bytes(path, with_metadata(model, embedded_files(job, served)))
    return dataclasses.replace(file, path=path)


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
    """Checks that an ONNX file contains its weights, and only operators of ONNX itself.

    Args:
        path: The path of the file, for messages.
        content: Its content. ONNX Runtime reports it if it is damaged.

    Raises:
        InputError: The file reads other files or needs
            operators that ONNX does not define.
    """
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


def open_session(path: str, content: bytes, num_threads: int) -> Any:
    """Returns an ONNX file in ONNX Runtime.

    Args:
        path: The path of the ONNX file, for messages.
        content: Its content.
        num_threads: The number of threads.

    Raises:
        InputError: ONNX Runtime is not installed, or it cannot run the file.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads
    options.log_severity_level = 3  # errors only
    try:
        return onnxruntime.InferenceSession(
            content, options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # ONNX Runtime has many classes of errors
        reason = " ".join(str(error).split())
        raise InputError(
            f"{path} is not a file that ONNX Runtime {onnxruntime.__version__} can "
            f"run: ... {reason[-200:]} Install a newer onnxruntime, or export the "
            "model again."
        ) from error


class OnnxForward(FileForward):
    """The outputs of an ONNX file for a batch.

    Args:
        session: The file in ONNX Runtime, from `open_session`.
        outputs_of_tokens: Whether the outputs have one value for each token.
    """

    def __init__(self, session: Any, outputs_of_tokens: bool) -> None:
        self._session = session
        shapes = {
            each.name: [size if isinstance(size, int) else -1 for size in each.shape]
            for each in session.get_outputs()
        }
        inputs = [each.name for each in session.get_inputs()]
        super().__init__(inputs, shapes, outputs_of_tokens)

    def _run_rows(self, batch: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Returns the outputs of one row or more."""
        return dict(
            zip(self._outputs, self._session.run(None, dict(batch)), strict=True)
        )


def open_file(path: str, content: bytes, num_threads: int) -> OpenFile:
    """Reads what is in an ONNX file of bert-tf; see `model_file`.

    Raises:
        InputError: The file is damaged, needs other files or operators, or bert-tf did
            not write it.
    """
    check_graph(path, content)
    session = open_session(path, content, num_threads)
    texts = read_metadata(path, session, *STORED_TEXTS)
    return OpenFile(texts, "", functools.partial(OnnxForward, session))


def run_file(
    path: str, content: bytes, num_threads: int, outputs_of_tokens: bool
) -> FileForward:
    """Returns what runs an ONNX file; see `OnnxForward`."""
    return OnnxForward(open_session(path, content, num_threads), outputs_of_tokens)
