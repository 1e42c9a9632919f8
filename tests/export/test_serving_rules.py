"""The signatures as written, and requests over REST, by the rules of TensorFlow Serving."""

import json

import export_models
import numpy as np
import pytest
import tensorflow as tf
from reference import serving_rules
from tensorflow.core.protobuf import saved_model_pb2

from bert_tf.export.requests import serialized_example

APIS = {"classify": serving_rules.check_classify, "regress": serving_rules.check_regress}
INIT = "__saved_model_init_op"  # of TensorFlow, for lookup tables; not for requests
TEXTS = ["a b c", "", "Ž é [MASK] d", "h"]


@pytest.fixture(scope="module", params=export_models.KINDS)
def export(request, exported):
    """The kind, the folder, and the signatures in its saved_model.pb."""
    folder = exported(request.param)
    model = saved_model_pb2.SavedModel()
    with open(f"{folder}/saved_model.pb", "rb") as file:
        model.ParseFromString(file.read())
    (graph,) = model.meta_graphs
    assert list(graph.meta_info_def.tags) == ["serve"]
    return request.param, folder, {n: s for n, s in graph.signature_def.items() if n != INIT}


def run(folder, name, inputs):
    """Returns the outputs of a signature for arrays."""
    model = tf.saved_model.load(folder)
    tensors = {key: tf.constant(value, tf.string if value.dtype == object else None)
               for key, value in inputs.items()}  # fmt: skip
    return {key: value.numpy() for key, value in model.signatures[name](**tensors).items()}


def test_signatures_follow_the_rules_of_the_three_apis(export):
    _, _, signatures = export
    for name, signature in signatures.items():
        serving_rules.check_predict(signature)
        APIS.get(name, serving_rules.check_predict)(signature)
        for key, info in [*signature.inputs.items(), *signature.outputs.items()]:
            assert not info.tensor_shape.unknown_rank, key
            assert info.tensor_shape.dim[0].size == -1, key  # the batch
            assert not key.endswith("_bytes"), key


def test_examples_give_outputs_of_the_required_shapes(export):
    kind, folder, signatures = export
    row = dict.fromkeys(export_models.text_names(kind), b"a b")
    serialized = np.array([serialized_example(row)] * 3, object)
    for name in APIS.keys() & signatures.keys():
        outputs = run(folder, name, {"inputs": serialized})
        assert all(len(value) == 3 for value in outputs.values())
        assert len({value.shape for value in outputs.values()}) == 1


def test_rows_and_columns_of_rest_bodies_give_the_same_answers(export):
    kind, folder, signatures = export
    columns = export_models.inputs_of(kind, TEXTS)
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    bodies = [{"instances": rows}, {"inputs": columns}]
    if len(columns) == 1:  # then the name may be left out
        (values,) = columns.values()
        bodies += [{"instances": values}, {"inputs": values}]
    answers = []
    for body in bodies:
        body = json.loads(json.dumps(body))
        inputs, is_row_format = serving_rules.parse_body(body, signatures["serving_default"])
        outputs = run(folder, "serving_default", inputs)
        response = json.loads(json.dumps(serving_rules.to_response(outputs, is_row_format)))
        answers.append(as_rows(response, list(outputs)))
    assert len(answers[0]) == len(TEXTS)
    assert all(answer == answers[0] for answer in answers[1:])


def as_rows(response, names):
    """Returns the response of either format as a list with a dict for each row."""
    if "predictions" in response:
        rows = response["predictions"]
        return [row if isinstance(row, dict) else {names[0]: row} for row in rows]
    columns = response["outputs"]
    columns = columns if isinstance(columns, dict) else {names[0]: columns}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def test_the_stored_request_is_answered(export):
    _, folder, signatures = export
    with open(f"{folder}/assets.extra/request.json", encoding="utf-8") as file:
        inputs, _ = serving_rules.parse_body(json.load(file), signatures["serving_default"])
    outputs = run(folder, "serving_default", inputs)
    assert all(len(value) == 1 for value in outputs.values())


def test_ids_over_rest(export):
    _, folder, signatures = export
    rows = [{"input_ids": [2, 5, 6, 3], "segment_ids": [0] * 4, "lengths": n} for n in (4, 3)]
    inputs, is_row_format = serving_rules.parse_body({"instances": rows}, signatures["ids_lengths"])
    outputs = run(folder, "ids_lengths", inputs)
    assert len(serving_rules.to_response(outputs, is_row_format)["predictions"]) == 2


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "instances or inputs"),
        ({"instances": []}, "not empty"),
        ({"inputs": {"other": ["a"]}}, "names"),
        ({"instances": [{"text_a": "a"}]}, "all inputs"),
        ({"instances": ["a"]}, "all inputs"),
    ],
)
def test_the_rules_refuse_wrong_bodies(exported, body, message):
    model = saved_model_pb2.SavedModel()
    with open(f"{exported('pair')}/saved_model.pb", "rb") as file:
        model.ParseFromString(file.read())
    signature = model.meta_graphs[0].signature_def["serving_default"]
    with pytest.raises(serving_rules.RefusedError, match=message):
        serving_rules.parse_body(body, signature)
