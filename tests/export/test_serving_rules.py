"""Signatures as written, and requests over REST, by the rules of TensorFlow Serving."""

import json

import export_models
import pytest
from model_file_checks import extra_file, saved_model
from reference import serving_rules

from bert_tf.export.saved_model_loading import read_graph

APIS = {
    "classify": serving_rules.check_classify,
    "regress": serving_rules.check_regress,
}
INIT = "__saved_model_init_op"  # of TensorFlow, for lookup tables; not for requests
TEXTS = ["a b c", "", "Ž é [MASK] d", "h"]


@pytest.fixture(scope="module", params=export_models.with_tiers())
def export(request, exported):
    """The kind, the folder, the signatures in saved_model.pb, and the loaded model."""
    folder = exported(request.param)
    graph = read_graph(folder)
    assert list(graph.meta_info_def.tags) == ["serve"]
    signatures = {n: s for n, s in graph.signature_def.items() if n != INIT}
    return request.param, folder, signatures, saved_model(folder)


def test_signatures_follow_the_rules_of_the_three_apis(export):
    _, _, signatures, _ = export
    for name, signature in signatures.items():
        serving_rules.check_predict(signature)
        APIS.get(name, serving_rules.check_predict)(signature)
        for key, info in [*signature.inputs.items(), *signature.outputs.items()]:
            assert not info.tensor_shape.unknown_rank, key
            assert info.tensor_shape.dim[0].size == -1, key  # the batch
            assert not key.endswith("_bytes"), key


def test_rows_and_columns_of_rest_bodies_give_the_same_answers(export):
    kind, _, signatures, model = export
    columns = export_models.inputs_of(kind, TEXTS)
    rows = [
        dict(zip(columns, row, strict=True))
        for row in zip(*columns.values(), strict=True)
    ]
    bodies = [{"instances": rows}, {"inputs": columns}]
    if len(columns) == 1:  # then the name may be left out
        (values,) = columns.values()
        bodies += [{"instances": values}, {"inputs": values}]
    answers = []
    for body in bodies:
        body = json.loads(json.dumps(body))
        inputs, is_row_format = serving_rules.parse_body(
            body, signatures["serving_default"]
        )
        outputs = export_models.call(model.signatures["serving_default"], **inputs)
        response = json.loads(
            json.dumps(serving_rules.to_response(outputs, is_row_format))
        )
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
    return [
        dict(zip(columns, row, strict=True))
        for row in zip(*columns.values(), strict=True)
    ]


def test_the_stored_request_is_answered(export):
    _, folder, signatures, model = export
    body = json.loads(extra_file(folder, "request.json"))
    inputs, _ = serving_rules.parse_body(body, signatures["serving_default"])
    outputs = export_models.call(model.signatures["serving_default"], **inputs)
    assert all(len(value) == 1 for value in outputs.values())
