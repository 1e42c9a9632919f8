"""Exported classifiers of texts of any length, and plain loops over windows."""

import export_models
import model_file_checks as checks
import numpy as np
import pytest
import tensorflow as tf
from reference import long_texts as reference
from refusals import refused

import bert_tf
from bert_tf.export import api
from bert_tf.export.formats import FORMATS
from bert_tf.export.lite import conversion
from bert_tf.export.served import load_served
from bert_tf.export.serving_settings import ServingSettings
from bert_tf.export.signature_requests import serialized_example

ROOM = 12 - 2
LETTERS = "abcdefgh"
SIZES = (0, 1, ROOM - 1, ROOM, ROOM + 1, 3 * ROOM, 200)
TEXTS = [" ".join(LETTERS[n * n % 7 % 8] for n in range(size)) for size in SIZES]


def write_checkpoint(kind, folder, **facts):
    """Writes a model that reads windows; returns its path and the model."""
    model, stored = export_models.model_of(kind)
    facts = {**stored, "long_texts": "windows", "max_windows": 2, **facts}
    return export_models.save(model, folder / kind, **facts), model


def expected(kind, model, text, stride):
    """Returns the mean probabilities, or score, of the windows of a text."""
    tokens = [export_models.VOCABULARY.index(letter) for letter in text.split()]
    found = reference.windows(tokens, ROOM, stride)
    ids = np.array([[2, *each, 3] + [0] * (ROOM - len(each)) for each in found])
    inputs = {
        "input_ids": ids,
        "input_mask": np.minimum(ids, 1),
        "segment_ids": 0 * ids,
    }
    logits = model(inputs, training=False)["logits"].numpy().tolist()
    return reference.mean_prediction(logits, kind)


@pytest.mark.parametrize(
    ("kind", "stride"),
    [("classification", None), ("multi_label", 3), ("regression", 100)],
)
def test_outputs_are_means_over_all_windows(tmp_path, kind, stride):
    facts = {} if stride is None else {"doc_stride": stride}
    path, model = write_checkpoint(kind, tmp_path, **facts)
    served = load_served(bert_tf.load(path))
    rows = [expected(kind, model, text, stride or ROOM // 2) for text in TEXTS]
    name = "score" if kind == "regression" else "probabilities"
    found = served.from_texts(tf.constant(TEXTS))[name].numpy()
    np.testing.assert_allclose(found.reshape(len(TEXTS), -1), rows, atol=1e-6)
    (one,) = served.from_texts(tf.constant(TEXTS[-1:]))[name].numpy()
    np.testing.assert_allclose(np.atleast_1d(one), rows[-1], atol=1e-6)
    assert len(served.from_texts(tf.constant([], tf.string))[name]) == 0


@pytest.mark.parametrize(
    "format", export_models.slow_except(medium=["saved_model"], kinds=FORMATS)
)
def test_predictor_averages_the_windows_of_each_format(
    tmp_path, without_export_check, format
):
    if format != "saved_model":
        checks.need_packages(format)
    path, model = write_checkpoint("classification", tmp_path)
    settings = ServingSettings(format=format)
    folder = api.export(path, str(tmp_path / "served"), settings)
    rows = [expected("classification", model, text, ROOM // 2) for text in TEXTS]
    file = f"{folder}/{format}/float32.{format}"
    found = bert_tf.Predictor(folder if format == "saved_model" else file)(TEXTS)
    values = [
        [row["probabilities"][name] for name in export_models.LABELS] for row in found
    ]
    np.testing.assert_allclose(values, rows, atol=1e-5)
    assert not list(tmp_path.rglob("onnx_client.py"))  # it would truncate the texts
    if format != "saved_model":
        return
    # A request of TensorFlow Serving's Classify API.
    model_of_folder = tf.saved_model.load(folder)
    serialized = tf.constant([serialized_example({"text": TEXTS[-1].encode()})])
    scores = model_of_folder.signatures["classify"](inputs=serialized)["scores"]
    np.testing.assert_allclose(scores[0], sorted(rows[-1])[::-1], atol=1e-6)


def test_programs_that_would_truncate_texts_get_no_files(tmp_path):
    pytest.importorskip("ai_edge_litert")
    path, _ = write_checkpoint("classification", tmp_path)
    settings = ServingSettings(format="tflite", tflite_text_input=True)
    with refused(r"cannot take texts, .* long_texts=windows\. Leave out"):
        api.export(path, str(tmp_path / "served"), settings)
    served = load_served(bert_tf.load(path))
    assert not conversion._can_run_in_mediapipe(served)
