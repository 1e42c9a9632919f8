"""TFLite and ONNX files: one table of tests for all formats.

The files run in the interpreter of their format, and in `Predictor`.
"""

import os
import pathlib
import sys

import export_models
import model_file_checks as checks
import numpy as np
import pytest
from model_file_checks import FILES, TEXTS
from refusals import refused
from run_programs import assert_refused, run_main

import bert_tf
from bert_tf.export.formats import FORMATS
from bert_tf.export.lite import conversion, mediapipe_metadata

# An export of ONNX files takes seconds, and one of TFLite files is that of the
# SavedModel.
ROWS = [
    *(("tflite", kind) for kind in export_models.KINDS),
    *(
        pytest.param("onnx", *row.values, marks=row.marks)
        for row in export_models.slow_except("classification", medium=["pair"])
    ),
]


@pytest.fixture(autouse=True)
def packages(request):
    """Skips a format whose packages are not installed."""
    callspec = getattr(request.node, "callspec", None)
    checks.need_packages(callspec.params["name"] if callspec else "tflite")


def as_truncated(inputs):
    """Returns ids as files for MediaPipe truncate them: to 12, with [SEP] last."""
    used = {name: value[:, :12].copy() for name, value in inputs.items()}
    used["input_ids"][:, -1] = export_models.VOCABULARY.index("[SEP]")
    return used


@pytest.mark.parametrize(("name", "kind"), ROWS)
def test_outputs_are_those_of_the_keras_model(exported, name, kind):
    of_mediapipe = ("classification", "multi_label")
    truncates = (
        name == "tflite" and kind in of_mediapipe and mediapipe_metadata.is_installed()
    )
    for precision in FILES[name].precisions(kind):
        run = FILES[name].runner(checks.path_of(exported, name, kind, precision))
        for length, size in FILES[name].shapes:  # 16 is the number of positions
            inputs = used = checks.batch_of(length, size)
            if length == 16 and truncates:
                used = as_truncated(inputs)
            for count in (1, 2, length) if kind == "fill_mask" else (0,):
                if count:
                    positions = np.arange(count, dtype=np.int32) % length
                    inputs["masked_lm_positions"] = np.tile(positions, (size, 1))
                checks.check_outputs(kind, run(inputs), used, precision)


@pytest.mark.parametrize(("name", "kind"), ROWS)
def test_predictions_are_those_of_the_saved_model(exported, name, kind):
    path = checks.path_of(exported, name, kind)
    checks.check_predictor(path, exported(kind), kind)


# The signatures of further texts, with an argument for each input.
SIGNATURES = {
    ("fill_mask", "score"): [TEXTS],
    ("fill_mask", "next_sentence"): [TEXTS, TEXTS[::-1]],
    ("tagging", "words"): [[["a", "zz", "b"], [], ["c"] * 30]],
}


@pytest.mark.parametrize(
    ("name", "kind", "signature"),
    [
        pytest.param(name, *each, marks=[pytest.mark.slow] if name == "onnx" else [])
        for name in FILES
        for each in SIGNATURES
    ],
)
def test_other_signatures_are_those_of_the_saved_model(exported, name, kind, signature):
    columns = SIGNATURES[kind, signature]
    saved = checks.predictor(exported(kind), signature=signature)
    path = checks.path_of(exported, name, kind)
    found = checks.predictor(path, signature=signature)(*columns)
    checks.check_predictions(found, saved(*columns))


@pytest.mark.parametrize(
    ("name", "kind"),
    [("tflite", "classification"), ("tflite", "fill_mask"), ("onnx", "classification")],
)
def test_a_file_has_a_row_in_the_report_and_its_texts(exported, name, kind):
    path = checks.path_of(exported, name, kind)
    version = os.path.dirname(os.path.dirname(path))
    rows = checks.report_of(version)[name]
    assert {each["file"] for each in rows} == set(os.listdir(os.path.dirname(path)))
    card = checks.extra_file(version, "model_card.md")
    assert f"## {FORMATS[name].title}\n" in card

    for each in rows:
        assert f"| {each['file']} | " in card
        file = f"{version}/{name}/{each['file']}"
        assert each["size_bytes"] == os.path.getsize(file)
        times = list(each["latency_ms"].values())
        assert each["load_ms"] > 0 and min(times) > 0
        assert sorted(each["latency_ms"])[0].endswith(", 1 thread")

        stored = FILES[name].texts(file)
        labels = ["labels.txt"] if kind == "classification" else []
        assert stored.keys() >= {"bert_tf.json", "vocab.txt", *labels}
        for text in ["vocab.txt", *labels]:
            assert stored[text].decode() == checks.extra_file(version, text)


@pytest.mark.medium
@pytest.mark.parametrize("name", ["tflite", "onnx"])
def test_the_programs_write_and_read_files(tmp_path, name):
    path, _ = export_models.write_checkpoint("classification", tmp_path)
    folder, precisions = str(tmp_path / "served"), f"--{name}_precisions="
    command = [f"--checkpoint={path}", f"--export_dir={folder}", f"--format={name}"]
    written, no_precision = run_main(
        "bert_tf.run_scripts.export_model",
        [*command, f"{precisions}int8"],
        [*command, precisions],
    )
    assert written.code == 0, written.err
    assert written.out.strip() == f"{folder}/1"
    assert os.listdir(f"{folder}/1/{name}") == [f"int8.{name}"]
    assert_refused(no_precision, f"{precisions[:-1]} must name at least one of float32")
    assert os.listdir(folder) == ["1"]

    message = rf"no SavedModel.*/1/{name}/int8\.{name}\."
    for other in (folder, f"{folder}/1"):
        with refused(message):
            bert_tf.Predictor(other)

    file = f"--model={folder}/1/{name}/int8.{name}"
    (predicted,) = run_main("bert_tf.run_scripts.predict", [file, "--text=a b"])
    assert predicted.code == 0, predicted.err
    assert predicted.out.endswith("\ta b\n")


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [
        ("tflite", "ai_edge_litert.interpreter", "lite"),
        ("onnx", "tf2onnx", "onnx"),
        ("onnx", "onnxruntime", "onnx"),
        ("onnx", "onnx", "onnx"),
    ],
)
def test_missing_packages_are_named(
    exported, tmp_path, monkeypatch, name, package, extra
):
    path = checks.path_of(exported, name, "classification", "int8")
    monkeypatch.setitem(sys.modules, package, None)
    shown = package.partition(".")[0]
    message = rf"needs the package {shown}, .* pip install 'bert-tf\[{extra}\]'"
    for format in (name, "both") if name == "tflite" else (name,):
        with refused(message):
            export_models.export("regression", tmp_path, format=format)
    if package != "tf2onnx":
        with refused(message):
            bert_tf.Predictor(path)
    assert not (tmp_path / "served").exists()


def damaged(content):
    return content[: len(content) // 2]


def of_others(_):
    return b"TFL3" * 10


def newer(_):
    return conversion.with_files(
        b"TFL3" * 10, {"bert_tf.json": b'{"new": 1}', "vocab.txt": b""}
    )


def changed_model(content):
    place = content.index(b"TFL3") + 100
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def of_graph(change):
    """Returns a function that changes the content of an ONNX file."""

    def changed(content):
        import onnx

        model = onnx.ModelProto.FromString(content)
        change(model)
        return model.SerializeToString()

    return changed


@of_graph
def in_another_file(model):
    import onnx

    tensor = next(each for each in model.graph.initializer if len(each.raw_data) > 100)
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="weights.bin")


@of_graph
def with_an_operator_of_others(model):
    model.graph.node[0].domain = "com.example"
    model.opset_import.add(domain="com.example", version=1)


@of_graph
def with_a_newer_opset(model):
    model.opset_import[0].version = 99


@of_graph
def without_facts(model):
    del model.metadata_props[:]


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("tflite", damaged, r"no bert_tf\.json: it is not a TFLite file of"),
        ("tflite", of_others, r"no bert_tf\.json: it is not a TFLite file of"),
        ("tflite", newer, "written by another version of bert-tf"),
        ("tflite", changed_model, "its model has another SHA-256"),
        ("onnx", damaged, r"changed\.onnx is not a file that ONNX Runtime"),
        ("onnx", in_another_file, "weights in other files"),
        ("onnx", with_an_operator_of_others, "operators of its own or of others"),
        (
            "onnx",
            with_a_newer_opset,
            r"not a file that ONNX Runtime .* can run: .* opset [0-9]+\. Install a",
        ),
        ("onnx", without_facts, r"no bert_tf\.json: it is not an ONNX file of bert-tf"),
    ],
)
def test_damaged_files_are_refused(exported, tmp_path, name, change, message):
    path = checks.path_of(exported, name, "classification", "int8")
    changed = tmp_path / f"changed.{name}"
    changed.write_bytes(change(pathlib.Path(path).read_bytes()))
    with refused(message):
        bert_tf.Predictor(changed)


@pytest.mark.parametrize("name", FILES)
def test_missing_files_and_signatures_are_refused(exported, tmp_path, name):
    with refused("There is no file"):
        bert_tf.Predictor(tmp_path / f"missing.{name}")
    path = checks.path_of(exported, name, "classification", "int8")
    message = r"signature 'ids' .* It has: serving_default\."
    with refused(message):
        bert_tf.Predictor(path, signature="ids")


@pytest.mark.parametrize(
    ("name", "kind", "settings", "message"),
    [
        ("tflite", "span", {"tflite_text_input": True}, "task span cannot take texts"),
        ("tflite", "embedding", {"tflite_length": 17}, "from 3 to 16"),
        (
            "tflite",
            "embedding",
            {"tflite_precisions": []},
            "one of float32, float16, int8",
        ),
        (
            "tflite",
            "embedding",
            {"tflite_precisions": ["int4"]},
            "one of float32, .*'int4'",
        ),
        ("tflite", "embedding", {"format": "pb"}, "format must be one of"),
        ("tflite", "embedding", {"onnx_precisions": ["int8"]}, "needs format onnx\\. "),
        ("tflite", "embedding", {"precision": "bfloat16"}, "give tflite_precisions"),
        (
            "tflite",
            "span",
            {"format": "saved_model", "tflite_precisions": ["int8"]},
            "needs format tflite or both\\. ",
        ),
        ("onnx", "span", {"tflite_length": 8}, "needs format tflite or both\\. "),
        ("onnx", "span", {"onnx_precisions": ["float16"]}, "one of float32, int8"),
    ],
)
def test_settings_that_are_not_possible_are_refused(
    tmp_path, name, kind, settings, message
):
    folder = tmp_path / "served"
    with refused(message):
        export_models.export(kind, tmp_path, **{"format": name, **settings})
    assert not folder.exists() or not os.listdir(folder)


@pytest.mark.medium
def test_formats_in_one_folder(tmp_path, without_export_check):
    folder, lite = str(tmp_path / "served"), ["int8"]
    both = {"format": "both", "tflite_length": 5, "tflite_precisions": lite}
    first = export_models.export("regression", tmp_path, **both)
    report = checks.report_of(first)
    assert report["max_seq_length"] == 12 and report["tflite"][0]["max_seq_length"] == 5
    for name in FILES:
        with refused("contains SavedModels"):
            export_models.export("regression", tmp_path, format=name)
    assert os.listdir(folder) == ["1"]
    os.makedirs(f"{folder}/2/tflite")  # an unfinished or foreign version
    assert bert_tf.Predictor(folder)(TEXTS) == bert_tf.Predictor(first)(TEXTS)
