"""The output of a text does not depend on other texts of its batch, in any format."""

import importlib.util
import os

import export_models
import pytest
from model_file_checks import TEXTS, check_predictions, path_of, predictor
from processors import needs_bfloat16

from bert_tf.export import check
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
    alone = predictor(path, batch_size=1)(*columns)
    for batched in (predictor(path, batch_size=3), predictor(path)):
        check_predictions(batched(*columns), alone, tolerance)


@pytest.mark.parametrize("kind", export_models.slow_except(medium=["pair"]))
def test_a_text_has_the_same_output_in_any_batch(exported, kind):
    pytest.importorskip("ai_edge_litert")
    for path in files_of(exported, kind):
        check_rows(path, kind, 1e-5)


@needs_bfloat16
@pytest.mark.medium
def test_a_text_has_the_same_output_in_bfloat16(exported):
    check_rows(
        exported("pair", "bfloat16"), "pair", check.LIMITS["bfloat16"].difference
    )


@pytest.mark.medium
@pytest.mark.parametrize("precision", FORMATS["onnx"].precisions)
def test_a_text_has_the_same_output_in_onnx_runtime_alone(exported, precision):
    for name in ("onnxruntime", "tf2onnx", "tokenizers"):
        pytest.importorskip(name)
    from bert_tf.export.onnx import client

    model = client.Model(path_of(exported, "onnx", "classification", precision))
    alone = [model([text])[0] for text in TEXTS]
    check_predictions(model(TEXTS), alone, 1e-5)
