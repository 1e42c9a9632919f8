"""`bert_tf.export_model` writes the files of the program for the same weights."""

import numpy as np
import pytest
from export_models import VOCABULARY, call, inputs_of, model_of, slow_except
from model_file_checks import report_of, saved_model

import bert_tf

_TEXTS = ["ab c", "d e f", "g h a"]


@pytest.mark.parametrize("kind", slow_except(medium=["embedding"]))
def test_each_model_is_exported_as_its_checkpoint_is(tmp_path, exported, kind):
    model, facts = model_of(kind)
    facts = {
        n: v
        for n, v in facts.items()
        if n not in ("task", "num_choices", "document_context")
    }
    if kind != "pair":
        facts.pop("pair", None)
    if kind not in ("multi_label", "regression"):
        facts.pop("task_type", None)
    tokenizer = bert_tf.BertTokenizer(VOCABULARY)
    found = bert_tf.export_model(model, tokenizer, tmp_path / "found", **facts)
    models = [saved_model(folder) for folder in (found, exported(kind))]
    outputs, expected = (
        call(each.signatures["serving_default"], **inputs_of(kind, _TEXTS))
        for each in models
    )
    np.testing.assert_equal(outputs, expected)


@pytest.mark.medium
def test_the_formats_of_the_program_are_settings(tmp_path, without_export_check):
    pytest.importorskip("ai_edge_litert")
    model, facts = model_of("tagging")
    settings = bert_tf.ServingSettings(format="tflite", tflite_precisions=["float32"])
    folder = bert_tf.export_model(
        model,
        bert_tf.BertTokenizer(VOCABULARY),
        tmp_path / "served",
        settings=settings,
        labels=facts["labels"],
        max_seq_length=12,
    )
    assert report_of(folder)["task"] == "tagging"
    predictor = bert_tf.Predictor(f"{folder}/tflite/float32.tflite")
    assert predictor("ab c")["words"] == ["ab", "c"]
