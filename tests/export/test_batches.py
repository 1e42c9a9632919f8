"""The output of a text does not depend on other texts of its batch, in any format."""

import importlib.util
import os

import export_models
import numpy as np
import pytest
from model_file_checks import TEXTS, check_predictions
from processors import needs_bfloat16

import bert_tf
from bert_tf.export import export_check
from bert_tf.export.formats import FORMATS


def files_of(exported, kind):
    """Returns the SavedModel, and the files whose packages are installed."""
    folder = exported(kind)
    lite = f"{folder}/tflite"
    paths = [folder, *(f"{lite}/{name}" for name in sorted(os.listdir(lite)))]
    if importlib.util.find_spec("onnxruntime") and importlib.util.find_spec("tf2onnx"):
        paths += [
            f"{exported(kind, 'onnx')}/onnx/{each}.onnx"
            for each in FORMATS["onnx"].precisions
        ]
    return paths


def check_rows(path, kind, tolerance):
    """Compares predictions of texts alone with those in batches of three and of all."""
    columns = export_models.inputs_of(kind, TEXTS).values()
    alone = bert_tf.Predictor(path, batch_size=1)(*columns)
    for size in (3, len(TEXTS)):
        batched = bert_tf.Predictor(path, batch_size=size)(*columns)
        check_predictions(batched, alone, tolerance)


@pytest.mark.parametrize("kind", export_models.slow_except("pair"))
def test_a_text_has_the_same_output_in_any_batch(exported, kind):
    pytest.importorskip("ai_edge_litert")
    for path in files_of(exported, kind):
        check_rows(path, kind, 1e-5)


@needs_bfloat16
def test_a_text_has_the_same_output_in_bfloat16(tmp_path):
    folder = export_models.export("pair", tmp_path, precision="bfloat16")
    check_rows(folder, "pair", export_check.LIMITS["bfloat16"].difference)


@pytest.mark.parametrize("precision", FORMATS["onnx"].precisions)
def test_a_text_has_the_same_output_in_onnx_runtime_alone(exported, precision):
    for name in ("onnxruntime", "tf2onnx", "tokenizers"):
        pytest.importorskip(name)
    from bert_tf.export.onnx import onnx_client

    model = onnx_client.Model(f"{exported('embedding', 'onnx')}/onnx/{precision}.onnx")
    rows = np.array([row["embedding"] for row in model(TEXTS)])
    alone = np.array([model([text])[0]["embedding"] for text in TEXTS])
    np.testing.assert_allclose(rows, alone, atol=1e-5, rtol=0)
