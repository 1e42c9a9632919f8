"""TFLite files in MediaPipe's tasks for texts."""

import logging
import pathlib

import export_models
import numpy as np
import pytest

import bert_tf
from bert_tf.export.lite import conversion, mediapipe_metadata

tasks = pytest.importorskip("mediapipe.tasks.python.text", exc_type=ImportError)
schema = pytest.importorskip("ai_edge_litert.schema_py_generated")

TEXTS = ["a b c", "c " * 40, "h", "A b C.", "zz", ""]


@pytest.mark.parametrize(
    ("kind", "precision"),
    [
        *(("classification", each) for each in ("float32", "float16", "int8")),
        ("multi_label", "float32"),
    ],
)
def test_the_classifier_gives_our_probabilities(exported, kind, precision):
    check_classifier(f"{exported(kind)}/tflite/{precision}.tflite")


def check_classifier(path):
    expected = bert_tf.Predictor(path)(TEXTS)
    with tasks.TextClassifier.create_from_model_path(path) as classifier:
        for text, each in zip(TEXTS, expected, strict=True):
            found = classifier.classify(text).classifications[0].categories
            assert {each.category_name for each in found} == set(export_models.LABELS)
            for category in found:
                probability = each["probabilities"][category.category_name]
                assert category.score == pytest.approx(probability, abs=1e-3)


def test_the_embedder_gives_our_vectors(exported):
    path = f"{exported('embedding')}/tflite/float32.tflite"
    with tasks.TextEmbedder.create_from_model_path(path) as embedder:
        for text in TEXTS:
            found = embedder.embed(text).embeddings[0].embedding
            expected = bert_tf.Predictor(path)(text)["embedding"]
            np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.medium
def test_a_fixed_length_truncates_long_texts(tmp_path, without_export_check):
    settings = {"tflite_length": 8, "tflite_precisions": ["float32"]}
    folder = export_models.export(
        "classification", tmp_path, format="tflite", **settings
    )
    check_classifier(f"{folder}/tflite/float32.tflite")


def content_of(version, precision):
    return pathlib.Path(version, f"tflite/{precision}.tflite").read_bytes()


def test_models_without_a_task_have_no_metadata(exported):
    for kind in ("pair", "regression", "span", "tagging", "choice", "fill_mask"):
        content = content_of(exported(kind), "float32")
        assert b"TFLITE_METADATA" not in content


@pytest.mark.parametrize(
    ("do_lower_case", "is_installed", "prompt", "message"),
    [
        (False, True, "", "the model is cased"),
        (True, True, "b ", "MediaPipe puts no prompt before texts"),
        (True, False, "", r"pip install 'bert-tf[mediapipe]'"),
    ],
)
def test_reasons_for_files_without_metadata_are_logged(
    caplog, monkeypatch, do_lower_case, is_installed, prompt, message
):
    monkeypatch.setattr(mediapipe_metadata, "is_installed", lambda: is_installed)
    model, _ = export_models.model_of("embedding")
    tokenizer = bert_tf.BertTokenizer(export_models.VOCABULARY, do_lower_case)
    embedding = {"prompts": {"q": prompt}, "default_prompt_name": "q"}
    served = export_models.served(model, tokenizer, embedding=embedding)
    with caplog.at_level(logging.INFO):
        assert not conversion._can_run_in_mediapipe(served)
    assert message in caplog.text


def test_metadata_changes_nothing_else_and_keeps_the_alignment(exported):
    model = content_of(exported("pair"), "float32")
    found = mediapipe_metadata.with_metadata(model, has_labels=True)
    before, after = (schema.Model.GetRootAs(each, 0) for each in (model, found))
    assert after.BuffersLength() == before.BuffersLength() + 1
    start = np.frombuffer(found, np.uint8).ctypes.data
    num_weights = 0
    for index in range(before.BuffersLength()):
        one, other = before.Buffers(index), after.Buffers(index)
        assert one.DataLength() == other.DataLength()
        if one.DataLength():
            num_weights += 1
            array = other.DataAsNumpy()
            np.testing.assert_array_equal(array, one.DataAsNumpy())
            assert (array.ctypes.data - start) % 16 == 0
    assert num_weights > 30
