"""The warm-up file, read with the messages of tensorflow-serving-api."""

import export_models
import numpy as np
import pytest
import tensorflow as tf
from model_file_checks import saved_model

from bert_tf.export import saved_model_writing
from bert_tf.export.signature_requests import Request, serialized_example


@pytest.mark.parametrize("kind", export_models.with_tiers())
def test_the_file_contains_a_valid_request_for_each_signature(exported, kind):
    log_pb2 = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    folder = exported(kind)
    path = f"{folder}/assets.extra/tf_serving_warmup_requests"
    records = [each.numpy() for each in tf.data.TFRecordDataset(path)]
    assert 0 < len(records) <= 1000
    model, seen = saved_model(folder), set()
    for record in records:
        log = log_pb2.PredictionLog.FromString(record)
        which = log.WhichOneof("log_type")
        message = getattr(log, which).request
        name = message.model_spec.signature_name
        if which == "predict_log":
            inputs = {key: tf.constant(tf.make_ndarray(each), each.dtype)
                      for key, each in message.inputs.items()}  # fmt: skip
        else:
            assert which == {"classify": "classify_log", "regress": "regress_log"}[name]
            examples = list(message.input.example_list.examples)
            inputs = {
                "inputs": tf.constant([each.SerializeToString() for each in examples])
            }
        outputs = model.signatures[name](**inputs)
        assert all(value.shape[0] == 1 for value in outputs.values())
        seen.add(name)
    assert seen == set(model.signatures)


def test_requests_of_any_size_are_encoded(tmp_path):
    """Lengths of messages around the limits of one, two and three bytes."""
    log_pb2 = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
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
    records = [each.numpy() for each in tf.data.TFRecordDataset(path)]
    for record, request in zip(records, found, strict=True):
        log = log_pb2.PredictionLog.FromString(record)
        message = getattr(log, log.WhichOneof("log_type")).request
        assert message.model_spec.signature_name == request.signature
        if request.signature == "classify":
            examples = [
                each.SerializeToString() for each in message.input.example_list.examples
            ]
            assert examples == request.inputs["inputs"].tolist()
            continue
        assert message.inputs.keys() == request.inputs.keys()
        for name, value in request.inputs.items():
            array = tf.make_ndarray(message.inputs[name])
            assert (array.dtype, array.shape) == (value.dtype, value.shape)
            assert array.tolist() == value.tolist()
