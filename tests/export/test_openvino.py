"""ONNX files in OpenVINO, which computes in bfloat16 where the processor can."""

import importlib.util
import pathlib
import sys

import export_models
import model_file_checks as checks
import numpy as np
import pytest
from model_file_checks import TEXTS
from refusals import refused
from run_programs import assert_refused, run_main

import bert_tf
from bert_tf.export import check
from bert_tf.export.model_file import open_file
from bert_tf.export.onnx import conversion

checks.need_packages("onnx")
onnx = pytest.importorskip("onnx")
KINDS = pytest.mark.parametrize(
    "kind", export_models.slow_except("classification", medium=("pair", "fill_mask"))
)
with_openvino = pytest.mark.skipif(
    not importlib.util.find_spec("openvino"),
    reason="openvino is not installed (extra [openvino])",
)
# Of differences in bfloat16, 99 % are smaller than the limit of exports. Single values
# of a few tokens may be larger.
LIMIT, LARGEST = check.LIMITS["bfloat16"].difference, 0.1


@with_openvino
@KINDS
def test_outputs_are_those_of_onnx_runtime(exported, kind):
    path = checks.path_of(exported, "onnx", kind)
    forwards = [
        open_file(path, 2, each).forward() for each in ("openvino", "onnxruntime")
    ]
    differences = []
    for length in (1, 2, 7, 12, 16):
        for size in (1, 8):
            inputs = checks.batch_of(length, size)
            if kind == "fill_mask":
                positions = np.arange(length, dtype=np.int32)
                inputs["masked_lm_positions"] = np.tile(positions, (size, 1))
            for value, expected in zip(
                *(each.run(inputs) for each in forwards), strict=True
            ):
                assert value.dtype == np.float32 and value.shape == expected.shape
                scale = max(1, np.abs(expected).max())
                differences.append(np.abs(value - expected).ravel() / scale)

    differences = np.concatenate(differences)
    assert np.percentile(differences, 99) <= LIMIT and differences.max() <= LARGEST


@with_openvino
@KINDS
def test_answers_are_those_of_onnx_runtime(exported, kind):
    """Among the texts is an empty one."""
    path = checks.path_of(exported, "onnx", kind)
    columns = export_models.inputs_of(kind, TEXTS).values()
    expected = checks.predictor(path)(*columns)
    for batch_size in (1, 8):
        found = bert_tf.Predictor(path, batch_size, runtime="openvino")
        assert found(*([] for _ in columns)) == []
        for one, other in zip(found(*columns), expected, strict=True):
            assert set(one) == set(other)
            for name, value in other.items():
                if isinstance(value, str):
                    assert one[name] == value
                elif isinstance(value, (float, np.ndarray)):
                    np.testing.assert_allclose(
                        one[name], value, atol=LARGEST, rtol=0.05
                    )


@with_openvino
def test_an_export_is_checked_with_openvino_too(exported):
    version = pathlib.Path(exported("classification", "onnx"))
    (row,) = (each for each in checks.report_of(version)["onnx"] if "runtime" in each)
    assert row["file"] == "float32.onnx"
    assert row["runtime"] in ("OpenVINO in f32", "OpenVINO in bf16")
    limits = {each["limit"] for each in row["outputs"]}
    assert limits == {0.0, LIMIT}
    card = checks.extra_file(version, "model_card.md")
    assert f"| float32.onnx, {row['runtime']} | " in card


@pytest.mark.medium
def test_an_export_keeps_a_file_that_openvino_cannot_run(
    tmp_path, monkeypatch, without_export_check
):
    def fails(*_):
        raise RuntimeError(  # as without a home folder
            "It has another\n output. Nothing was exported."
        )

    monkeypatch.setattr(conversion, "_in_openvino", fails)
    version = export_models.export(
        "embedding", tmp_path, format="onnx", onnx_precisions=("float32",)
    )
    report = checks.report_of(version)
    assert [each["file"] for each in report["onnx"]] == ["float32.onnx"]
    assert report["onnx_left_out"] == [
        "With OpenVINO, It has another output. Use ONNX Runtime."
    ]


def test_the_package_is_named_if_it_is_missing(exported, monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino", None)
    path = checks.path_of(exported, "onnx", "classification", "int8")
    message = r"package openvino, .* pip install 'bert-tf\[openvino\]'\."
    with refused(message):
        bert_tf.Predictor(path, runtime="openvino")
    expected = checks.predictor(path)(TEXTS)
    assert bert_tf.Predictor(path, runtime="onnxruntime")(TEXTS) == expected


@pytest.mark.parametrize("name", ["model.tflite", "served", "served/1"])
def test_other_models_and_runtimes_are_refused(tmp_path, name):
    message = r"runtime=openvino is for \.onnx files\. Received: .* --format=onnx\."
    with refused(message):
        bert_tf.Predictor(tmp_path / name, runtime="openvino")
    with refused("runtime must be one of auto"):
        bert_tf.Predictor(tmp_path / name, runtime="OpenVINO")


@with_openvino
def test_an_operator_that_openvino_lacks_is_named(exported, tmp_path):
    content = pathlib.Path(checks.path_of(exported, "onnx", "classification"))
    model = onnx.ModelProto.FromString(content.read_bytes())
    model.graph.node[3].op_type = "StringNormalizer"
    path = tmp_path / "changed.onnx"
    path.write_bytes(model.SerializeToString())
    message = r"not a file that OpenVINO .* can run: .*StringNormalizer"
    with refused(message):
        bert_tf.Predictor(path, runtime="openvino")


@pytest.mark.medium
def test_the_program_predicts_or_says_in_one_line_what_is_wrong(exported, tmp_path):
    path = checks.path_of(exported, "onnx", "classification")
    (tmp_path / "model.tflite").touch()
    command = ["--runtime=openvino", "--text=a b"]
    other, found = run_main(
        "bert_tf.run_scripts.predict",
        [*command, f"--model={tmp_path}/model.tflite"],
        [*command, f"--model={path}"],
    )
    assert_refused(other, r"runtime=openvino is for .onnx files.")
    if importlib.util.find_spec("openvino"):
        assert found.code == 0 and found.out.endswith("\ta b\n"), found.err
    else:
        assert_refused(found, "needs the package openvino")
