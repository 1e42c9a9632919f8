"""Warm-up requests of TensorFlow Serving: a TFRecord file of `PredictionLog`s.

TensorFlow Serving runs these requests when it loads a model, so that the first requests
of users are not slow. The messages are encoded here, so that an export needs no
tensorflow-serving-api.

Source: `tensorflow_serving/apis/*.proto`; the numbers below are the field numbers of
the messages.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from bert_tf.export.layout import EXTRA
from bert_tf.export.requests import Request, example_requests
from bert_tf.export.served import ServedModel

FILE = f"{EXTRA}/tf_serving_warmup_requests"
_TEXTS = (
    b"A short [MASK] text.",
    b"The quick [MASK] fox jumps over the lazy dog, and [MASK] in the village looks up. "
    * 4,
)
_MODEL_SPEC, _INPUTS = (
    1,
    2,
)  # of PredictRequest, ClassificationRequest and RegressionRequest
_SIGNATURE_NAME = 3  # of ModelSpec
_EXAMPLE_LIST, _EXAMPLES = 1, 1  # of Input and of ExampleList
_KEY, _VALUE = 1, 2  # of an entry of a map
_REQUEST = 1  # of ClassifyLog, RegressLog and PredictLog
_LOGS = {"classify": 2, "regress": 3, "predict": 6}  # of PredictionLog


def requests(served: ServedModel) -> list[Request]:
    """Returns requests for each signature of a model, with one row each."""
    return example_requests(served, served.endpoints(), *([text] for text in _TEXTS))


def write(path: str, found: Sequence[Request]) -> None:
    """Writes the warm-up file.

    Args:
        path: The file.
        found: At most 1,000 requests, which is the limit of TensorFlow Serving.
    """
    with tf.io.TFRecordWriter(path) as file:
        for request in found:
            file.write(prediction_log(request))


def prediction_log(request: Request) -> bytes:
    """Returns the serialized `PredictionLog` of a request."""
    spec = _field(_MODEL_SPEC, _field(_SIGNATURE_NAME, request.signature.encode()))
    if (
        request.signature in _LOGS
    ):  # the Classify and Regress APIs take examples, not tensors
        examples = b"".join(
            _field(_EXAMPLES, each) for each in request.inputs["inputs"]
        )
        body = _field(_INPUTS, _field(_EXAMPLE_LIST, examples))
        number = _LOGS[request.signature]
    else:
        body = b"".join(
            _field(_INPUTS, _map_entry(*each)) for each in request.inputs.items()
        )
        number = _LOGS["predict"]
    return _field(number, _field(_REQUEST, spec + body))


def _map_entry(name: str, value: np.ndarray) -> bytes:
    tensor = tf.make_tensor_proto(value).SerializeToString()
    return _field(_KEY, name.encode()) + _field(_VALUE, tensor)


def _field(number: int, content: bytes) -> bytes:
    """Encodes a length-delimited field of a protocol buffer."""
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    groups = bytearray()
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    return bytes([*groups, value])
