"""ONNX files: converts served models, writes and reads files, and runs them."""

import dataclasses
import functools
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.message import (  # type: ignore[import-untyped]
    DecodeError,
    Message,
)

from bert_tf.errors import InputError
from bert_tf.export.formats import as_export_check_error
from bert_tf.export.job import ExportJob
from bert_tf.export.model_file import (
    FACTS_FILE,
    STORED_TEXTS,
    Arrays,
    FileForward,
    ModelFile,
    OpenFile,
    PreparedFiles,
    embedded_files,
)
from bert_tf.export.served import ServedModel, load_served
from bert_tf.modeling.inputs import INPUT_NAMES, POSITIONS
from bert_tf.optional_packages import import_package
from bert_tf.storage import files

OPSET = 17  # ONNX Runtime from 1.12 on, of 2022
_CLIENT = "onnx_client.py"


def prepare(job: ExportJob) -> PreparedFiles:
    """Reads everything that ONNX files need, before anything is written.

    There is one file for each precision. Exports of models that `onnx_client.py` can
    run (classifiers without windows, text vectors) also contain this program.
    """
    settings = dataclasses.replace(job.settings, precision="float32")
    served = load_served(job.checkpoint, settings)
    model_files = [
        ModelFile(precision) for precision in dict.fromkeys(settings.onnx_precisions)
    ]
    # Both precisions need the float32 model, which is converted once.
    float32 = functools.cache(lambda: convert(served))

    def content(file: ModelFile) -> bytes:
        model = quantize(float32()) if file.precision == "int8" else float32()
        return with_metadata(model, embedded_files(job, served))

    client = files.read_bytes(os.path.join(os.path.dirname(__file__), "client.py"))
    extra = {_CLIENT: client} if served.file_takes_texts else {}
    return PreparedFiles(
        served, model_files, content, other_run=_in_openvino, extra=extra
    )


def _in_openvino(file: ModelFile) -> tuple[ModelFile, str] | None:
    """Implements `PreparedFiles.other_run`: OpenVINO, if installed, runs float32 files too."""
    if file.precision != "float32" or not find_spec("openvino"):
        return None
    import openvino

    dtype = openvino.Core().get_property("CPU", "INFERENCE_PRECISION_HINT")
    file = dataclasses.replace(file, precision="bfloat16", runtime="openvino")
    return file, f"OpenVINO in {dtype.to_string()}"  # f32 or bf16


def convert(served: ServedModel) -> bytes:
    """Converts `served.forward` to a float32 ONNX model, and returns it serialized.

    The inputs are `input_ids`, `input_mask` and `segment_ids`, int32 [B, S], and, for a
    masked LM, `masked_lm_positions`, int32 [B, P]: the positions to predict.
    """
    import onnx
    import tf2onnx

    names = [*INPUT_NAMES, *([POSITIONS] if served.takes_masks else [])]
    specs = [tf.TensorSpec([None, None], tf.int32, name=name) for name in names]

    def outputs(*inputs: Any) -> dict[str, Any]:
        all_outputs = served.outputs(dict(zip(names, inputs, strict=True)))
        return {name: all_outputs[name] for name in served.file_outputs}

    with as_export_check_error("onnx"):
        model, _ = tf2onnx.convert.from_function(
            tf.function(outputs, autograph=False),
            specs,
            opset=OPSET,
            custom_op_handlers={"Erfc": (_as_erf, [])},
        )
        onnx.checker.check_model(model)
        return bytes(model.SerializeToString())


def _as_erf(context: Any, node: Any, name: str, _: Any) -> None:
    """Replaces a node Erfc(x), which ONNX does not have, by 1 - Erf(x)."""
    erf = context.make_node("Erf", node.input[:1])
    one = context.make_const(f"{name}_one", np.ones([], np.float32))
    shape, dtype = context.get_shape(node.output[0]), context.get_dtype(node.output[0])
    context.remove_node(name)
    context.make_node(
        "Sub",
        [one.output[0], erf.output[0]],
        outputs=node.output,
        name=name,
        shapes=[shape],
        dtypes=[dtype],
    )


def quantize(model: bytes) -> bytes:
    """Quantizes the weights of matrix products and embeddings of an ONNX model to int8.

    Activations are quantized while the model runs. The outputs for a row do not depend
    on the other rows of the batch (see `_quantize_products`), and are the same on all
    processors (see `_int8_weights`).
    """
    import onnx
    from onnxruntime import quantization

    with files.temporary_folder() as folder, as_export_check_error("onnx"):
        path = os.path.join(folder, "int8.onnx")
        model_proto = onnx.ModelProto.FromString(model)
        _quantize_products(model_proto.graph)

        # The other operations with weights are the look-ups of embeddings.
        quantization.quantize_dynamic(
            model_proto,
            path,
            op_types_to_quantize=["Gather"],
            weight_type=quantization.QuantType.QInt8,
        )
        return files.read_bytes(path)


def _quantize_products(graph: Any) -> None:
    """Replaces matrix products of activations and float weights by products of integers.

    Each row of activations is divided by its largest absolute value before the product,
    and the result is multiplied by this value. All rows then lie in [-1, 1], so one
    constant scale quantizes them. With one scale for the batch, as
    `DynamicQuantizeLinear` computes it, a result would depend on the other rows, and
    the large values of [CLS] and [SEP] would make the scale too coarse for words.
    """
    from onnx import TensorProto, helper, numpy_helper

    weights = {
        initializer.name: numpy_helper.to_array(initializer)
        for initializer in graph.initializer
    }
    constants = {
        "smallest_row": np.array(1e-30, np.float32),
        "row_scale": np.array(2 / 255, np.float32),
        "row_zero": np.array(128, np.uint8),
    }
    nodes: list[Any] = []
    quantized_rows: set[str] = set()

    def add(
        operator: str, inputs: Sequence[str], output: str, **attributes: Any
    ) -> None:
        nodes.append(
            helper.make_node(operator, inputs, [output], name=output, **attributes)
        )

    for node in list(graph.node):
        if node.op_type != "MatMul" or np.ndim(weights.get(node.input[1])) != 2:
            nodes.append(node)
            continue
        rows, kernel = node.input
        product = node.output[0]

        # Several products may have the same rows or the same weights.
        if rows not in quantized_rows:
            quantized_rows.add(rows)
            add("Abs", [rows], f"{rows}_abs")
            add("ReduceMax", [f"{rows}_abs"], f"{rows}_max", axes=[-1])
            add("Max", [f"{rows}_max", "smallest_row"], f"{rows}_size")
            add("Div", [rows, f"{rows}_size"], f"{rows}_scaled")
            add(
                "QuantizeLinear",
                [f"{rows}_scaled", "row_scale", "row_zero"],
                f"{rows}_int8",
            )
        constants[f"{kernel}_int8"], constants[f"{kernel}_scale"] = _int8_weights(
            weights[kernel]
        )

        # ONNX Runtime computes the next four nodes as one operation.
        add(
            "MatMulInteger",
            [f"{rows}_int8", f"{kernel}_int8", "row_zero"],
            f"{product}_int32",
        )
        add("Cast", [f"{product}_int32"], f"{product}_float", to=TensorProto.FLOAT)
        add("Mul", ["row_scale", f"{kernel}_scale"], f"{product}_scale")
        add("Mul", [f"{product}_float", f"{product}_scale"], f"{product}_scaled")
        add("Mul", [f"{product}_scaled", f"{rows}_size"], product)

    used = {name for node in nodes for name in node.input}
    kept = [
        initializer for initializer in graph.initializer if initializer.name in used
    ]
    kept += [numpy_helper.from_array(value, name) for name, value in constants.items()]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes)
    graph.initializer.extend(kept)


def _int8_weights(kernel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns weights [inputs, outputs] as int8, and the float32 scale of each output.

    Processors without VNNI instructions add the products of two neighboring inputs in
    16 bits. As activations are uint8, such a sum saturates if the weights of both
    inputs have the same sign, and the sum of their absolute values is above 128. The
    scale of an output is the smallest that avoids this, so that a file gives the same
    results on all processors. It is about 1.3 times as coarse as a scale that uses all
    8 bits, and finer than one that uses 7 bits.
    """
    inputs, outputs = kernel.shape
    pairs = np.pad(kernel, [(0, inputs % 2), (0, 0)]).reshape(-1, 2, outputs)
    sums = [np.maximum(sign * pairs, 0).sum(axis=1).max(axis=0) for sign in (1, -1)]

    # The sum of two rounded weights may be one larger than that of the weights.
    scale = np.maximum(np.maximum(*sums), 1e-30) / 127
    return np.rint(kernel / scale).astype(np.int8), scale.astype(np.float32)


def with_metadata(model: bytes, embedded: Mapping[str, bytes]) -> bytes:
    """Adds texts, UTF-8 by name, to the metadata of a serialized ONNX model."""
    import onnx

    entries = [{"key": name, "value": text.decode()} for name, text in embedded.items()]
    # Protocol buffers read two joined messages as one message with the fields of both.
    return model + onnx.ModelProto(metadata_props=entries).SerializeToString()


def check_graph(path: str, content: bytes) -> Any:
    """Checks that an ONNX file contains all its weights, and only standard operators.

    Returns its ModelProto, or None if the file is damaged; the runtime then reports that.

    Raises:
        InputError: The file reads other files, or needs operators that ONNX does not
            define.
    """
    import onnx

    try:
        model = onnx.ModelProto.FromString(content)
    except DecodeError:
        return None
    parts = list(_messages(model))
    domains = {part.domain for part in parts if isinstance(part, onnx.NodeProto)}
    if (
        model.functions
        or domains - {"", "ai.onnx"}
        or any(
            isinstance(part, onnx.TensorProto)
            and onnx.external_data_helper.uses_external_data(part)
            for part in parts
        )
    ):
        raise InputError(
            f"{path} has operators of its own or of others, or weights in other files, "
            "which files of bert-tf do not have. Export the model again with "
            "--format=onnx, or run the file with ONNX Runtime itself."
        )
    return model


def _messages(message: Any) -> Iterator[Any]:
    """Yields a protocol buffer message and all messages in it, such as tensors."""
    yield message
    for field, value in message.ListFields():
        if field.message_type:
            for child in [value] if isinstance(value, Message) else value:
                yield from _messages(child)


class OnnxForward(FileForward):
    """Computes the outputs of an ONNX file for a batch.

    The function `run` of the runtime returns the outputs for a batch, in the order of
    the outputs of `graph`.
    """

    def __init__(self, graph: Any, run: Any) -> None:
        ranks = {
            tensor.name: len(tensor.type.tensor_type.shape.dim)
            for tensor in graph.output
        }
        super().__init__([tensor.name for tensor in graph.input], ranks)
        self._run = run

    def _run_rows(self, batch: Arrays) -> Arrays:
        """Returns the outputs of a batch with at least one row."""
        return dict(zip(self._ranks, self._run(dict(batch)), strict=True))


def _start_onnxruntime(onnxruntime: Any, content: bytes, num_threads: int) -> Any:
    """Loads a model in ONNX Runtime; returns a function that runs it on a batch."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads
    options.log_severity_level = 3  # errors only
    session = onnxruntime.InferenceSession(
        content, options, providers=["CPUExecutionProvider"]
    )
    return functools.partial(session.run, None)


def _start_openvino(openvino: Any, content: bytes, num_threads: int) -> Any:
    """Loads a model in OpenVINO; returns a function that runs it on a batch."""
    core = openvino.Core()
    lock = threading.Lock()
    options = {"INFERENCE_NUM_THREADS": num_threads}
    model = core.compile_model(core.read_model(content), "CPU", options)

    def run(batch: Any) -> Any:
        with lock:  # a model computes one batch at a time
            return model(batch).to_tuple()

    return run


_RUNTIMES = {
    "onnxruntime": ("ONNX Runtime", _start_onnxruntime),
    "openvino": ("OpenVINO", _start_openvino),
}


def open_file(path: str, content: bytes, num_threads: int, runtime: str) -> OpenFile:
    """Opens an ONNX file of bert-tf; see `model_file`."""
    model = check_graph(path, content)
    if runtime == "auto":
        runtime = "onnxruntime"
    title, start = _RUNTIMES[runtime]
    module = import_package(runtime, runtime, "This runtime")
    try:
        run = start(module, content, num_threads)
    except Exception as error:  # the runtimes have many classes of errors
        # OpenVINO names the operators that it lacks, and then gives hints for its
        # developers.
        reason = " ".join(str(error).partition("To facilitate")[0].split())
        raise InputError(
            f"{path} is not a file that {title} {module.__version__} can run: "
            f"... {reason[-200:]} Install a newer {runtime}, or export the model again."
        ) from error

    texts = {entry.key: entry.value.encode() for entry in model.metadata_props}
    if FACTS_FILE not in texts:
        raise InputError(
            f"{path} contains no {FACTS_FILE}: it is not an ONNX file of bert-tf. "
            "Export the model again with --format=onnx."
        )
    forward = functools.partial(OnnxForward, model.graph, run)
    return OpenFile([texts[name] for name in STORED_TEXTS], "", forward)
