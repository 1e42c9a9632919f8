"""Warm-up requests of TensorFlow Serving: a TFRecord file of `PredictionLog`s.

TensorFlow Serving runs these requests when it loads a model, so that the first requests of users
are not slow. The messages are encoded here, so that an export needs no tensorflow-serving-api.

Source: `tensorflow_serving/apis/*.proto`; the numbers below are the field numbers of the messages.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from bert_tf.export.layout import EXTRA
from bert_tf.export.requests import Request, array_of, inputs_for
from bert_tf.export.served import ServedModel
from bert_tf.tfrecords import open_records

FILE = f"{EXTRA}/tf_serving_warmup_requests"
_TEXTS = (
    b"A short [MASK] text.",
    b"The quick [MASK] fox jumps over the lazy dog, and [MASK] in the village looks up. " * 4,
)
_MODEL_SPEC, _INPUTS = 1, 2  # of PredictRequest, ClassificationRequest and RegressionRequest
_SIGNATURE_NAME = 3  # of ModelSpec
_EXAMPLE_LIST, _EXAMPLES = 1, 1  # of Input and of ExampleList
_KEY, _VALUE = 1, 2  # of an entry of a map
_REQUEST = 1  # of ClassifyLog, RegressLog and PredictLog
_LOGS = {"classify": 2, "regress": 3, "predict": 6}  # of PredictionLog


def requests(served: ServedModel, texts: Sequence[bytes] = _TEXTS) -> list[Request]:
    """Returns one request for each signature of a model and each text.

    Args:
        served: The model.
        texts: The texts.
    """
    return [
        Request(name, inputs_for(served, name, [text]))
        for text in texts for name in served.endpoints()
    ]  # fmt: skip


def write(path: str, found: Sequence[Request]) -> None:
    """Writes the warm-up file.

    Args:
        path: The file.
        found: At most 1,000 requests, which is the limit of TensorFlow Serving.
    """
    with tf.io.TFRecordWriter(path) as file:
        for request in found:
            file.write(prediction_log(request))


def read(path: str) -> list[Request]:
    """Returns the requests of a warm-up file, as TensorFlow Serving runs them."""
    return [_parse_log(each.numpy()) for each in open_records(path)]


def _parse_log(serialized: bytes) -> Request:
    """Returns the request of a serialized `PredictionLog`."""
    ((kind, log),) = _parse_fields(serialized)
    ((_, request),) = _parse_fields(log)
    (_, spec), *inputs = _parse_fields(request)
    signature = dict(_parse_fields(spec))[_SIGNATURE_NAME].decode()
    if kind == _LOGS["predict"]:
        entries = (dict(_parse_fields(entry)) for _, entry in inputs)
        tensors = {entry[_KEY].decode(): array_of(entry[_VALUE]) for entry in entries}
        return Request(signature, tensors)
    ((_, example_list),) = _parse_fields(inputs[0][1])
    examples = [each for _, each in _parse_fields(example_list)]
    return Request(signature, {"inputs": np.array(examples, object)})


def _parse_fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields number and content of the fields of a message; all are length-delimited."""
    place = 0
    while place < len(message):
        number, place = message[place] >> 3, place + 1
        length = shift = 0
        while True:
            byte, place = message[place], place + 1
            length |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        yield number, message[place : place + length]
        place += length


def prediction_log(request: Request) -> bytes:
    """Returns the serialized `PredictionLog` of a request."""
    spec = _field(_MODEL_SPEC, _field(_SIGNATURE_NAME, request.signature.encode()))
    if request.signature in _LOGS:  # the Classify and Regress APIs take examples, not tensors
        examples = b"".join(_field(_EXAMPLES, each) for each in request.inputs["inputs"])
        body = _field(_INPUTS, _field(_EXAMPLE_LIST, examples))
        number = _LOGS[request.signature]
    else:
        body = b"".join(_field(_INPUTS, _map_entry(*each)) for each in request.inputs.items())
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
