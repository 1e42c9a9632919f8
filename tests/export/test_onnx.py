"""ONNX files: their operators, int8 products, and the client without TensorFlow."""

import json
import os
import runpy
import subprocess
import sys

import export_models
import model_file_checks as checks
import numpy as np
import pytest
from model_file_checks import OUTPUTS, TEXTS, path_of, session_of
from reference import tokenizer as reference
from refusals import refused
from tables_of_rows import write_rows
from tiny_bert import small_config

import bert_tf
from bert_tf.export import api, check
from bert_tf.export.formats import FORMATS
from bert_tf.export.onnx import conversion
from bert_tf.export.served import load_served
from bert_tf.export.serving_settings import ServingSettings

pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")
pytest.importorskip("tf2onnx")


@pytest.mark.parametrize(
    "kind", ["classification", pytest.param("fill_mask", marks=pytest.mark.medium)]
)
def test_a_file_has_standard_operators(exported, kind):
    for precision in FORMATS["onnx"].precisions:
        model = onnx.load(path_of(exported, "onnx", kind, precision))
        onnx.checker.check_model(model)
        assert {node.domain for node in model.graph.node} <= {"", "ai.onnx"}
        versions = {each.domain: each.version for each in model.opset_import}
        assert versions[""] == conversion.OPSET
        types = {each.name: each.type.tensor_type for each in model.graph.input}
        assert {each.elem_type for each in types.values()} == {onnx.TensorProto.INT32}
        sizes = [dim.dim_value for each in types.values() for dim in each.shape.dim]
        assert set(sizes) == {0}  # all are dynamic
        assert {each.name for each in model.graph.output} == set(OUTPUTS[kind])
        products = [n for n in model.graph.node if n.op_type == "MatMulInteger"]
        assert len(products) >= (12 if precision == "int8" else 0)


@pytest.mark.parametrize(
    "kind",
    export_models.slow_except(
        "classification", medium=["pair"], kinds=export_models.KINDS_WITH_CLIENT
    ),
)
def test_the_client_without_tensorflow_gives_the_predictions_of_predictor(
    exported, kind
):
    pytest.importorskip("tokenizers")
    folder = exported(kind, "onnx")
    texts = [*TEXTS, *(f"{letter} " * count for letter in "ab" for count in (5, 6, 20))]
    columns = export_models.inputs_of(kind, texts).values()
    expected = bert_tf.Predictor(f"{folder}/onnx/float32.onnx")(*columns)
    names = ("tensorflow", "keras", "bert_tf")
    blocked = f"import sys\nfor name in {names}: sys.modules[name] = None\n"
    program = blocked + "import runpy; runpy.run_path(sys.argv[0], run_name='__main__')"
    program = f"import sys; sys.argv.pop(0)\n{program}"
    client = f"{folder}/assets.extra/onnx_client.py"
    texts = [text for row in zip(*columns, strict=True) for text in row]
    command = [
        sys.executable,
        "-c",
        program,
        client,
        f"{folder}/onnx/float32.onnx",
        *texts,
    ]
    output = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    found = [json.loads(line) for line in output.splitlines()]
    for each in expected:
        each.pop("truncated", None)  # which the client does not state
    if kind == "embedding":
        expected = [{"embedding": each["embedding"].tolist()} for each in expected]
    checks.check_predictions(found, expected)


@pytest.mark.slow
def test_ids_are_line_numbers_with_an_odd_vocabulary(tmp_path):
    """With repeated, empty and spaced entries, all clients give equal outputs."""
    pytest.importorskip("tokenizers")
    lines = export_models.VOCABULARY[:]
    lines[5:5] = ["", "a", "a b", "c\td", "\u2028", "##b", "e\u00a0f", ""]
    config = small_config(len(lines), initializer_range=0.5)
    model = bert_tf.BertClassifier(config, num_labels=2, seed=3)
    checkpoint = str(tmp_path / "model")
    facts = {"task": "custom", "task_type": "classification", "labels": ["x", "y"]}
    bert_tf.save_checkpoint(
        model, bert_tf.BertTokenizer(lines), checkpoint, **facts, pair=False
    )
    folder = f"{tmp_path}/served/1"
    settings = ServingSettings(format="onnx", onnx_precisions=("float32",))
    api.export(checkpoint, f"{tmp_path}/served", settings)
    api.export(checkpoint, f"{tmp_path}/saved", ServingSettings())
    for version in (folder, f"{tmp_path}/saved/1"):
        with open(
            f"{version}/assets.extra/vocab.txt", encoding="utf-8", newline=""
        ) as file:
            assert file.read() == "".join(f"{line}\n" for line in lines)

    released = reference.Tokenizer(lines, True)
    texts = ["a ab abc", "a b c d e\u00a0f", "c\td\u2028 h"]
    expected = []
    for text in texts:
        row = [released.ids["[CLS]"], *released.tokenize(text), released.ids["[SEP]"]]
        ids = np.array([row], np.int32)
        inputs = {"input_ids": ids, "input_mask": ids * 0 + 1, "segment_ids": ids * 0}
        expected.append(export_models.softmax(np.array(model(inputs)["logits"]))[0])
    client = runpy.run_path(f"{folder}/assets.extra/onnx_client.py")["Model"]
    predictors = [bert_tf.Predictor(f"{folder}/onnx/float32.onnx")]
    predictors += [
        bert_tf.Predictor(f"{tmp_path}/saved/1"),
        client(f"{folder}/onnx/float32.onnx"),
    ]
    for predict in predictors:
        rows = [list(each["probabilities"].items()) for each in predict(texts)]
        found = [[dict(row)[label] for label in ("x", "y")] for row in rows]
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_tasks_with_other_outputs_have_no_client(tmp_path):
    for kind, number in ("classification", 1), ("fill_mask", 0):
        path, _ = export_models.write_checkpoint(kind, tmp_path)
        job = api._job(path, ServingSettings(format="onnx"), None, "1", {})
        assert len(conversion.prepare(job).extra) == number


def test_all_files_of_a_folder_are_listed(exported):
    message = r"no SavedModel.*/onnx/float32\.onnx, .*/onnx/int8\.onnx\."
    with refused(message):
        bert_tf.Predictor(exported("classification", "onnx"))


def one_product(weights):
    """Returns an ONNX model that multiplies `x` by weights."""
    helper = onnx.helper
    shapes = {
        name: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["B", size])
        for name, size in zip("xy", weights.shape, strict=True)
    }
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "weights"], ["y"], name="product")],
        "model",
        [shapes["x"]],
        [shapes["y"]],
        [onnx.numpy_helper.from_array(weights, "weights")],
    )
    versions = [helper.make_opsetid("", conversion.OPSET)]
    model = helper.make_model(graph, opset_imports=versions, ir_version=8)
    return model.SerializeToString()


def test_large_rows_do_not_coarsen_other_rows():
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((64, 32)).astype(np.float32)
    quantized = conversion.quantize(one_product(weights))
    x = rng.standard_normal((4, 64)).astype(np.float32)
    x *= np.array([[1], [1000], [0], [1e-3]], np.float32)

    (y,) = session_of(quantized).run(None, {"x": x})
    errors, largest = (
        np.abs(y - x @ weights).max(axis=1),
        np.abs(x @ weights).max(axis=1),
    )
    assert (errors <= 0.02 * largest).all()

    nodes = onnx.ModelProto.FromString(quantized).graph.node
    assert any(node.op_type == "MatMulInteger" for node in nodes)


@pytest.mark.parametrize("inputs", [1, 2, 7, 64])
def test_products_do_not_saturate_in_16_bits(inputs):
    """Processors without VNNI add the products of two neighboring inputs in 16 bits."""
    rng = np.random.default_rng(inputs)
    weights = rng.standard_normal((inputs, 16)).astype(np.float32)
    weights[:, 0] = 3.0  # the largest sums
    weights[:, 1] = -3.0
    weights[:, 2] = 0.0
    quantized = conversion.quantize(one_product(weights))

    x = np.array([[1], [-1]], np.float32) * np.ones(inputs, np.float32)
    (y,) = session_of(quantized).run(None, {"x": x})
    np.testing.assert_allclose(y, x @ weights, atol=0.01 * 3 * inputs)

    tensors = onnx.ModelProto.FromString(quantized).graph.initializer
    (integers,) = (each for each in tensors if each.data_type == onnx.TensorProto.INT8)
    integers = onnx.numpy_helper.to_array(integers).astype(int)
    assert integers.shape == weights.shape
    pairs = np.pad(integers, [(0, inputs % 2), (0, 0)]).reshape(-1, 2, 16)
    largest_activation = 255
    assert (largest_activation * np.maximum(pairs, 0).sum(axis=1)).max() <= 2**15 - 1
    assert (largest_activation * np.minimum(pairs, 0).sum(axis=1)).min() >= -(2**15)


@pytest.mark.medium
def test_int8_files_are_refused_for_their_metric(tmp_path, monkeypatch):
    path, _ = export_models.write_checkpoint("classification", tmp_path)
    labels = load_served(bert_tf.load(path)).from_texts(TEXTS)["label"].numpy().tolist()
    data = tmp_path / "dev.jsonl"
    pairs = zip(TEXTS, labels, strict=True)
    rows = [{"text": text, "label": label.decode()} for text, label in pairs]
    write_rows(data, rows)

    quantize = conversion.quantize

    def quantize_other_weights(model):
        found = onnx.ModelProto.FromString(quantize(model))
        for tensor in found.graph.initializer:
            if tensor.data_type == onnx.TensorProto.INT8 and len(tensor.dims) == 2:
                tensor.raw_data = bytes(reversed(tensor.raw_data))
        return found.SerializeToString()

    monkeypatch.setattr(conversion, "quantize", quantize_other_weights)
    settings = ServingSettings(format="onnx", onnx_precisions=["int8"])
    with pytest.raises(
        check.ExportCheckError,
        match=r"int8\.onnx has the accuracy .* Nothing was",
    ):
        api.export(path, str(tmp_path / "int8"), settings, str(data))
    assert not os.listdir(tmp_path / "int8")
