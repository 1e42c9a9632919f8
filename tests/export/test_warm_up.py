"""The warm-up file, read with the messages of tensorflow-serving-api."""

import export_models
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.export import warm_up
from bert_tf.export.requests import Request


@pytest.mark.parametrize("kind", export_models.KINDS)
def test_the_file_contains_a_valid_request_for_each_signature(exported, kind):
    log_pb2 = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    folder = exported(kind)
    path = f"{folder}/assets.extra/tf_serving_warmup_requests"
    records = [each.numpy() for each in tf.data.TFRecordDataset(path)]
    assert 0 < len(records) <= 1000
    model, seen = tf.saved_model.load(folder), set()
    for record, request in zip(records, warm_up.read(path), strict=True):
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
            inputs = {"inputs": tf.constant([each.SerializeToString() for each in examples])}
            # The order of the features in a serialized example is not defined.
            assert examples == [tf.train.Example.FromString(e) for e in request.inputs["inputs"]]
        assert name == request.signature and set(inputs) == set(request.inputs)
        if which == "predict_log":
            for key, value in inputs.items():
                assert value.numpy().tolist() == request.inputs[key].tolist()
        outputs = model.signatures[name](**inputs)
        assert all(value.shape[0] == 1 for value in outputs.values())
        seen.add(name)
    assert seen == set(model.signatures)


def test_requests_of_any_size_are_read_back(tmp_path):
    """Lengths of messages around the limits of one, two and three bytes."""
    sizes = (0, 1, 100, 127, 128, 129, 16_200, 16_384, 70_000)
    found = [Request("serving_default", {"text": np.array([b"x" * n], object)}) for n in sizes]
    found += [Request("classify", {"inputs": np.array([b"y" * n, b""], object)}) for n in sizes]
    ids = np.arange(-3, 60_000, dtype=np.int32).reshape(3, -1)
    found.append(Request("ids", {"input_ids": ids, "input_mask": ids[:0]}))
    path = str(tmp_path / "requests")
    warm_up.write(path, found)
    for request, other in zip(warm_up.read(path), found, strict=True):
        assert request.signature == other.signature
        assert request.inputs.keys() == other.inputs.keys()
        for name, value in request.inputs.items():
            assert value.dtype == other.inputs[name].dtype
            assert value.shape == other.inputs[name].shape
            assert value.tolist() == other.inputs[name].tolist()
