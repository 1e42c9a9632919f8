"""Converts a served model to ONNX."""

import contextlib
import logging
import os
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.export.gate_process import GateError
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

    with _as_gate_error():
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
    runs.

    Args:
        model: A float32 model.

    Raises:
        GateError: ONNX Runtime cannot quantize the model.
    """
    import onnx
    from onnxruntime import quantization

    with _as_gate_error(), tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "int8.onnx")
        quantization.quantize_dynamic(
            onnx.ModelProto.FromString(model), path, per_channel=True,
            weight_type=quantization.QuantType.QInt8,
        )  # fmt: skip
        with open(path, "rb") as file:
            return file.read()


@contextlib.contextmanager
def _as_gate_error() -> Iterator[None]:
    """Converts errors of the converters, which have many classes, and hides their warnings."""
    disabled = logging.root.manager.disable
    logging.disable(max(disabled, logging.WARNING))
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split())
        raise GateError(
            f"ONNX cannot represent the model: {reason:.300} Nothing was exported."
        ) from error
    finally:
        logging.disable(disabled)
