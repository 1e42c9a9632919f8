"""The warm-up file, read with the messages of tensorflow-serving-api."""

import export_models
import numpy as np
import pytest
import tensorflow as tf
from model_file_checks import saved_model

from bert_tf.export import saved_model_writing
from bert_tf.export.signature_requests import Request, serialized_example

log_pb2 = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")


def read_requests(path):
    """Returns the kind and the message of each request in a file."""
    logs = [
        log_pb2.PredictionLog.FromString(record.numpy())
        for record in tf.data.TFRecordDataset(path)
    ]
    kinds = [log.WhichOneof("log_type") for log in logs]
    return [
        (kind, getattr(log, kind).request)
        for kind, log in zip(kinds, logs, strict=True)
    ]


def examples_of(message):
    return [each.SerializeToString() for each in message.input.example_list.examples]


@export_models.EACH_KIND
def test_the_file_contains_a_valid_request_for_each_signature(exported, kind):
    folder = exported(kind)
    found = read_requests(f"{folder}/assets.extra/tf_serving_warmup_requests")
    assert 0 < len(found) <= 1000
    model, seen = saved_model(folder), set()
    for which, message in found:
        name = message.model_spec.signature_name
        if which == "predict_log":
            inputs = {key: tf.constant(tf.make_ndarray(each), each.dtype)
                      for key, each in message.inputs.items()}  # fmt: skip
        else:
            assert which == {"classify": "classify_log", "regress": "regress_log"}[name]
            inputs = {"inputs": tf.constant(examples_of(message))}
        outputs = model.signatures[name](**inputs)
        assert all(value.shape[0] == 1 for value in outputs.values())
        seen.add(name)
    assert seen == set(model.signatures)


def test_requests_of_any_size_are_encoded(tmp_path):
    """Lengths of messages around the limits of one, two and three bytes."""
    sizes = (0, 127, 128, 16_384, 70_000)
    texts = [np.array([b"x" * size], object) for size in sizes]
    ids = np.arange(-3, 60_000, dtype=np.int32).reshape(3, -1)
    inputs = [
        *({"text": each} for each in texts),
        {"input_ids": ids, "input_mask": ids[:0]},
    ]
    found = [Request("serving_default", each) for each in inputs]
    rows = [[serialized_example({"text": b"y" * size}), b""] for size in sizes]
    found += [Request("classify", {"inputs": np.array(each, object)}) for each in rows]
    path = str(tmp_path / "requests")
    saved_model_writing.write_warm_up(path, found)
    for (_, message), request in zip(read_requests(path), found, strict=True):
        assert message.model_spec.signature_name == request.signature
        if request.signature == "classify":
            assert examples_of(message) == request.inputs["inputs"].tolist()
            continue
        assert message.inputs.keys() == request.inputs.keys()
        for name, value in request.inputs.items():
            array = tf.make_ndarray(message.inputs[name])
            assert (array.dtype, array.shape) == (value.dtype, value.shape)
            assert array.tolist() == value.tolist()
