"""Converts a served model to ONNX."""

import copy
import os
import tempfile
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.export.model_files.packages import as_gate_error
from bert_tf.export.served import ServedModel
from bert_tf.modeling.inputs import INPUT_NAMES, POSITIONS

OPSET = 17  # ONNX Runtime from 1.12 on, of 2022


def convert(served: ServedModel) -> bytes:
    """Returns an ONNX model of `served.forward`, float32.

    The inputs are `input_ids`, `input_mask` and `segment_ids`, int32 [B, S], and, for a masked LM,
    `masked_lm_positions`, int32 [B, P].

    Raises:
        GateError: ONNX cannot represent the model.
    """
    import onnx
    import tf2onnx

    names = [*INPUT_NAMES, *([POSITIONS] if served.takes_masks else [])]
    specs = [tf.TensorSpec([None, None], tf.int32, name=name) for name in names]

    def outputs(*inputs: Any) -> dict[str, Any]:
        found = served.outputs(dict(zip(names, inputs, strict=True)))
        return {name: found[name] for name in served.lite_outputs}

    with as_gate_error("ONNX"):
        model, _ = tf2onnx.convert.from_function(
            tf.function(outputs, autograph=False), specs, opset=OPSET,
            custom_op_handlers={"Erfc": (_as_erf, [])},
        )  # fmt: skip
        onnx.checker.check_model(model)
        return bytes(model.SerializeToString())


def _as_erf(context: Any, node: Any, name: str, _: Any) -> None:
    """Replaces Erfc(x), which ONNX does not have, by 1 - Erf(x)."""
    erf = context.make_node("Erf", node.input[:1])
    one = context.make_const(f"{name}_one", np.ones([], np.float32))
    shape, dtype = context.get_shape(node.output[0]), context.get_dtype(node.output[0])
    context.remove_node(name)
    context.make_node(
        "Sub", [one.output[0], erf.output[0]], outputs=node.output, name=name,
        shapes=[shape], dtypes=[dtype],
    )  # fmt: skip


def quantize(model: bytes) -> bytes:
    """Returns an ONNX model with int8 weights of matrix products and embeddings.

    A weight has a scale for each output of its product. Activations are quantized while the model
    runs, after a division of each row by its largest value; see `_scale_rows`.

    Args:
        model: A float32 model.

    Raises:
        GateError: ONNX Runtime cannot quantize the model.
    """
    import onnx
    from onnxruntime import quantization

    with as_gate_error("ONNX"), tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "int8.onnx")
        scaled = onnx.ModelProto.FromString(model)
        _scale_rows(scaled.graph)
        quantization.quantize_dynamic(
            scaled, path, per_channel=True, weight_type=quantization.QuantType.QInt8
        )
        with open(path, "rb") as file:
            return file.read()


def _scale_rows(graph: Any) -> None:
    """Divides each row before a product with weights by its largest value; multiplies it after.

    ONNX Runtime quantizes all rows of a batch with one scale. The tokens [CLS] and [SEP] have some
    values that are many times as large as those of words, which would leave few steps for words.
    """
    from onnx import helper, numpy_helper

    weights = {each.name for each in graph.initializer}
    tiny = numpy_helper.from_array(np.array(1e-30, np.float32), "smallest_row")
    nodes: list[Any] = []
    sizes: dict[str, str] = {}  # the largest values by the name of the rows
    for node in copy.deepcopy(list(graph.node)):
        if node.op_type != "MatMul" or node.input[1] not in weights:
            nodes.append(node)
            continue
        rows, product = node.input[0], node.output[0]
        if rows not in sizes:
            sizes[rows] = size = f"{rows}_size"
            names = [f"{rows}_{end}" for end in ("max", "min", "negative_min")]
            nodes += [
                helper.make_node("ReduceMax", [rows], names[:1], axes=[-1]),
                helper.make_node("ReduceMin", [rows], names[1:2], axes=[-1]),
                helper.make_node("Neg", names[1:2], names[2:]),
                helper.make_node("Max", [names[0], names[2], tiny.name], [size]),
                helper.make_node("Div", [rows, size], [f"{rows}_scaled"]),
            ]
        node.input[0], node.output[0] = f"{rows}_scaled", f"{product}_scaled"
        nodes += [node, helper.make_node("Mul", [node.output[0], sizes[rows]], [product])]
    graph.initializer.append(tiny)
    del graph.node[:]
    graph.node.extend(nodes)
