"""The warm-up file, read with the messages of tensorflow-serving-api."""

import export_models
import pytest
import tensorflow as tf


@pytest.mark.parametrize("kind", export_models.KINDS)
def test_the_file_contains_a_valid_request_for_each_signature(exported, kind):
    log_pb2 = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    folder = exported(kind)
    path = f"{folder}/assets.extra/tf_serving_warmup_requests"
    records = [each.numpy() for each in tf.data.TFRecordDataset(path)]
    assert 0 < len(records) <= 1000
    model, seen = tf.saved_model.load(folder), set()
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
            examples = message.input.example_list.examples
            inputs = {"inputs": tf.constant([each.SerializeToString() for each in examples])}
        outputs = model.signatures[name](**inputs)
        assert all(value.shape[0] == 1 for value in outputs.values())
        seen.add(name)
    assert seen == set(model.signatures)
