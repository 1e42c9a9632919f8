"""TFLite files, run by LiteRT's own interpreter and by `Predictor`."""

import concurrent.futures
import dataclasses
import os
import shutil

import export_models
import model_file_checks as checks
import numpy as np
import pytest
from model_file_checks import OUTPUTS, TEXTS, path_of
from refusals import refused

import bert_tf
from bert_tf.export import api, check, file_checks
from bert_tf.export.formats import FORMATS
from bert_tf.export.lite import conversion
from bert_tf.export.serving_settings import ServingSettings

interpreter = pytest.importorskip("ai_edge_litert.interpreter", exc_type=ImportError)


def operations_of(path, **options):
    details = interpreter.Interpreter(path, **options)._get_ops_details()
    return {each["op_name"] for each in details}


@pytest.mark.parametrize("kind", export_models.KINDS)
def test_operations_are_built_in(exported, kind):
    """LiteRT 2.3 can return wrong values if it computes a shape in a run."""
    for precision in export_models.lite_precisions(kind):
        path = path_of(exported, "tflite", kind, precision)
        names = operations_of(path)
        assert {"FULLY_CONNECTED", "GELU"} <= names
        assert not [each for each in names if "Flex" in each or "VAR" in each]
        assert "CUSTOM" not in names

    resolver = interpreter.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    names = operations_of(
        path_of(exported, "tflite", kind), experimental_op_resolver_type=resolver
    )
    assert "RESHAPE" in names and "PACK" not in names


def test_threads_do_not_share_an_interpreter(exported, tmp_path):
    path = tmp_path / "copy.tflite"
    shutil.copy(path_of(exported, "tflite", "embedding"), path)
    predictor = bert_tf.Predictor(path)
    path.unlink()  # a server may replace the file
    expected = predictor(TEXTS)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: predictor(TEXTS), range(20)):
            checks.check_predictions(found, expected)


@pytest.mark.parametrize("kind", export_models.KINDS_WITH_TEXT_INPUT)
def test_files_that_take_texts(exported, kind):
    tft = pytest.importorskip("tensorflow_text")
    folder = exported(kind)
    signature = checks.saved_model(folder).signatures["serving_default"]
    run = interpreter.InterpreterWithCustomOps(
        model_path=(path := path_of(exported, "tflite", kind, "float32_text")),
        custom_op_registerers=tft.tflite_registrar.SELECT_TFTEXT_OPS,
    ).get_signature_runner()
    names = export_models.text_names(kind)
    texts = [*TEXTS, "a " * 5, "a " * 6, "b " * 9, "c " * 10, "[SEP]"]
    rows = (
        [[one, other] for one in texts for other in texts]
        if kind == "pair"
        else zip(texts)
    )
    (output,) = OUTPUTS[kind]
    for row in rows:
        inputs = {
            name: np.array([text.encode()])
            for name, text in zip(names, row, strict=True)
        }
        expected = export_models.call(signature, **inputs)
        np.testing.assert_allclose(run(**inputs)[output], expected[output], atol=1e-4)
    columns = export_models.inputs_of(kind, TEXTS).values()
    found = checks.predictor(path)(*columns)
    checks.check_predictions(found, checks.predictor(folder)(*columns))
    assert "four kinds of text" in checks.extra_file(folder, "model_card.md")


@pytest.mark.parametrize(
    "kind, length",
    [
        pytest.param("classification", 6, marks=pytest.mark.medium),
        pytest.param("classification", 16, marks=pytest.mark.slow),
        *(
            pytest.param(kind, length, marks=pytest.mark.slow)
            for kind in ("span", "tagging", "fill_mask")
            for length in (6, 16)
        ),
    ],
)
def test_a_fixed_length_gives_the_predictions_of_that_length(
    tmp_path, without_export_check, kind, length
):
    settings = {"tflite_length": length, "tflite_precisions": ["float32"]}
    settings |= {"format": "tflite", "max_seq_length": 9}
    if kind == "span" and length == 6:  # [CLS] question [SEP] window [SEP]
        with refused("max_query_length"):
            export_models.export(kind, tmp_path, **settings)
        return
    folder = export_models.export(kind, tmp_path, **settings)
    assert not os.path.exists(f"{folder}/saved_model.pb")
    file = f"{folder}/tflite/float32.tflite"
    details = interpreter.Interpreter(file).get_input_details()
    shapes = {tuple(each["shape_signature"]) for each in details}
    assert shapes == ({(1, length), (1, 1)} if kind == "fill_mask" else {(1, length)})
    other = export_models.export(kind, tmp_path, "saved", max_seq_length=length)
    columns = export_models.inputs_of(kind, TEXTS).values()
    checks.check_predictions(
        bert_tf.Predictor(file)(*columns), bert_tf.Predictor(other)(*columns)
    )


@pytest.fixture
def wrong_files(tmp_path, monkeypatch):
    """A function that exports a classifier whose files of one precision are wrong."""
    original = conversion.convert

    def export(wrong, format, *precisions):
        def convert(served, file, length):
            if file.precision != wrong:
                return original(served, file, length)
            with export_models.with_bias(served, [9, 0, 0]):
                return original(served, file, length)

        monkeypatch.setattr(conversion, "convert", convert)
        settings = {"format": format, "tflite_precisions": precisions}
        return export_models.export("classification", tmp_path, **settings)

    return export


def test_a_file_with_other_outputs_is_refused(tmp_path, wrong_files):
    message = r"float32\.tflite differs .* Nothing was exported"
    with pytest.raises(check.ExportCheckError, match=message):
        wrong_files("float32", "tflite", "float32")
    assert not os.listdir(tmp_path / "served")


@pytest.mark.slow
def test_a_wrong_int8_file_does_not_lose_the_other_formats(wrong_files, caplog):
    folder = wrong_files("int8", "both", "float16", "int8")
    assert os.listdir(f"{folder}/tflite") == ["float16.tflite"]
    assert bert_tf.Predictor(folder)(TEXTS)
    report = checks.report_of(folder)
    assert [row["file"] for row in report["tflite"]] == ["float16.tflite"]
    (reason,) = report["tflite_left_out"]
    start = "int8.tflite differs from the model in memory: label of serving_def"
    assert reason.startswith(start)
    (line,) = [each.message for each in caplog.records if each.levelname == "WARNING"]
    assert line == f"warning: {reason} --tflite_precisions chooses the files."

    # Without a TFLite file that passed, the SavedModel remains.
    assert "tflite" not in os.listdir(wrong_files("int8", "both", "int8"))


@pytest.mark.parametrize(
    ("examples", "judges_values", "share"),
    [(0, False, 0.1), (99, False, 0.1), (100, False, None)],
)
def test_int8_is_judged_by_a_metric_of_many_examples_or_by_answers(
    examples, judges_values, share
):
    outputs = [
        {
            "probabilities": np.zeros([1, 2], np.float32),
            "label": np.array([b"a"], object),
        }
    ]
    found = file_checks._limits_of("int8", examples, outputs)
    assert (found.judges_values, found.different_answers) == (judges_values, share)
    del outputs[0]["label"]
    assert file_checks._limits_of("int8", 0, outputs).judges_values


@pytest.mark.medium
def test_int8_files_are_quantized_and_wrong_vectors_are_refused(tmp_path, monkeypatch):
    """The converter leaves weights with less than 1,024 elements as they are."""
    config = dataclasses.replace(
        export_models.CONFIG, hidden_size=64, intermediate_size=128
    )
    model = bert_tf.BertEncoder(config, seed=3)
    path = export_models.save(model, tmp_path / "model")
    folder = api.export(path, str(tmp_path / "lite"), ServingSettings(format="tflite"))
    sizes = [
        os.path.getsize(f"{folder}/tflite/{each}.tflite")
        for each in FORMATS["tflite"].precisions
    ]
    assert sizes[2] < 0.75 * sizes[1] < 0.75 * sizes[0]
    rows = checks.report_of(folder)["tflite"]
    single, half, quantized = (
        max(
            each["difference"]
            for each in row["outputs"]
            if each["output"] == "embedding"
        )
        for row in rows
    )
    assert single < 1e-5 < half < 1e-2 and 1e-3 < quantized < 0.1

    original = conversion.convert

    def convert_zeros(served, *settings):
        forward = served.outputs
        monkeypatch.setattr(
            served, "outputs", lambda each: {n: 0 * v for n, v in forward(each).items()}
        )
        model = original(served, *settings)
        monkeypatch.setattr(served, "outputs", forward)
        return model

    monkeypatch.setattr(conversion, "convert", convert_zeros)
    settings = ServingSettings(format="tflite", tflite_precisions=["int8"])
    with pytest.raises(check.ExportCheckError, match=r"int8\.tflite differs"):
        api.export(path, str(tmp_path / "zeros"), settings)
    assert not os.listdir(tmp_path / "zeros")


def test_the_number_of_tokens_ends_at_the_last_one():
    for mask, expected in (([1, 1, 0, 0], 2), ([0, 0], 1), ([1, 0, 1, 0], 3), ([1], 1)):
        assert conversion._num_tokens({"input_mask": np.array([mask])}, 4) == expected
