"""`bert_tf.export_model` writes the files of the program for the same weights."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from export_models import KINDS, VOCABULARY, inputs_of, model_of

import bert_tf

_QUICK = ("span", "embedding")
_TEXTS = ["ab c", "d e f", "g h a"]


@pytest.mark.parametrize(
    "kind",
    [
        kind if kind in _QUICK else pytest.param(kind, marks=pytest.mark.slow)
        for kind in KINDS
    ],
)
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
    inputs = {
        name: tf.constant(texts) for name, texts in inputs_of(kind, _TEXTS).items()
    }
    outputs = [
        tf.saved_model.load(folder).signatures["serving_default"](**inputs)
        for folder in (found, exported(kind))
    ]
    assert outputs[0].keys() == outputs[1].keys()
    for name, values in outputs[0].items():
        np.testing.assert_array_equal(values.numpy(), outputs[1][name].numpy())


def test_the_formats_of_the_program_are_settings(tmp_path):
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
    report = json.loads(
        (pathlib.Path(folder) / "assets.extra/export_report.json").read_text()
    )
    assert report["task"] == "tagging"
    predictor = bert_tf.Predictor(f"{folder}/tflite/float32.tflite")
    assert predictor("ab c")["words"] == ["ab", "c"]
