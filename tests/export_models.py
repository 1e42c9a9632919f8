"""Tiny checkpoints of all kinds of models that can be exported."""

import contextlib
import functools
import shutil
import tempfile

import numpy as np
import pytest
import tensorflow as tf
from json_files import write_json
from tiny_bert import SPECIAL, small_config

import bert_tf
from bert_tf.conversion import CheckpointContents
from bert_tf.export import api
from bert_tf.export.formats import FORMATS
from bert_tf.export.served import load_served
from bert_tf.export.serving_settings import ServingSettings
from bert_tf.modeling import arrays_by_name
from bert_tf.pretrained import Pretrained

VOCABULARY = [*SPECIAL, *"abcdefgh", "##a", "##b", "##c"]
TOKENIZER = bert_tf.BertTokenizer(VOCABULARY)
CONFIG = small_config(len(VOCABULARY), initializer_range=0.5)
LABELS = ["x", "y, z", "ž"]
TAGS = ["O", "B-ž", "I-ž", "B-x-y", "I-x-y"]
SPAN_FACTS = {
    "task": "squad",
    "task_type": "span",
    "doc_stride": 3,
    "max_query_length": 4,
    "n_best_size": 5,
    "max_answer_length": 4,
    "version_2_with_negative": True,
    "null_score_diff_threshold": 0.5,
    "padding_as_released": False,
    "max_seq_length": 12,
}
KINDS = (
    "classification", "pair", "multi_label", "regression", "span", "tagging", "choice",
    "fill_mask", "embedding",
)  # fmt: skip
# Lists with 1 to 7 texts; "" is no choice.
CHOICES = [
    ["a", "b c"],
    ["d", "e", "f", "g", "h", "a b", "c d"],
    ["a", "", "b " * 20, "c"],
    ["h"],
    ["", "", "g a"],
]
# The kinds that have a client for ONNX files.
KINDS_WITH_CLIENT = (*KINDS[:4], "embedding")
# The kinds with TFLite files that contain the tokenizer.
KINDS_WITH_TEXT_INPUT = ("pair", "embedding")


def lite_precisions(kind):
    """Returns the precisions of the TFLite files of a kind of model.

    The converter quantizes no weights of so small models, so one kind has all files.
    """
    return FORMATS["tflite"].precisions if kind == "classification" else ("float32",)


def text_names(kind):
    """Returns the names of the inputs of `serving_default`."""
    names = {
        "pair": ["text_a", "text_b"], "span": ["question", "context"],
        "choice": ["context", "choices"],
    }  # fmt: skip
    return names.get(kind, ["text"])


def inputs_of(kind, texts):
    """Returns inputs of `serving_default`, a row for each text, in different orders.

    A list of choices has three texts.
    """
    names = enumerate(text_names(kind))
    inputs = {name: [*texts[shift:], *texts[:shift]] for shift, name in names}
    if kind == "choice":
        rows = (texts[-shift:] + texts[:-shift] for shift in (1, 2, 3))
        inputs["choices"] = [list(row) for row in zip(*rows, strict=True)]
    return inputs


def model_of(kind):
    """Returns a model with random weights, and the facts of its checkpoint."""
    facts = {"task": "custom", "pair": kind == "pair", "max_seq_length": 12}
    if kind in ("classification", "pair", "multi_label"):
        task_type = kind if kind == "multi_label" else "classification"
        facts |= {"labels": LABELS, "task_type": task_type}
        if kind == "multi_label":
            facts["threshold"] = 0.4
        model = bert_tf.BertClassifier(CONFIG, num_labels=3, seed=3)
    elif kind == "regression":
        model = bert_tf.BertClassifier(CONFIG, num_labels=1, seed=3)
        facts |= {"labels": [], "task_type": kind}
    elif kind == "span":
        model, facts = bert_tf.BertSpanPredictor(CONFIG, seed=3), SPAN_FACTS
    elif kind == "tagging":
        model = bert_tf.BertTagger(CONFIG, num_labels=len(TAGS), seed=3)
        facts = {"task": "ner", "task_type": kind, "labels": TAGS, "scheme": "iob2",
                 "document_context": False, "max_seq_length": 12}  # fmt: skip
    elif kind == "choice":
        model = bert_tf.BertMultipleChoice(CONFIG, seed=3)
        facts = {"task": "swag", "task_type": kind, "num_choices": 3,
                 "max_seq_length": 12}  # fmt: skip
    elif kind == "fill_mask":
        model, facts = bert_tf.BertPretrainer(CONFIG, seed=3), {}
    else:
        model, facts = bert_tf.BertEncoder(CONFIG, seed=3), {}
    return model, facts


@functools.cache
def _saved_once(kind):
    """Returns a temporary folder with a weights folder, and the model."""
    model, facts = model_of(kind)
    folder = tempfile.TemporaryDirectory()
    save(model, f"{folder.name}/model", **facts)
    return folder, model


def write_checkpoint(kind, folder):
    """Writes a weights folder; returns its path and the model."""
    saved, model = _saved_once(kind)
    path = str(folder / kind)
    return shutil.copytree(f"{saved.name}/model", path, dirs_exist_ok=True), model


def export(kind, folder, name="served", dev_data=None, **settings):
    """Exports a model to a folder of this name; returns the path of the version."""
    path, _ = write_checkpoint(kind, folder)
    given = ServingSettings(**settings)
    return api.export(path, str(folder / name), given, dev_data)


def save(model, folder, dialect="bert-tf", **facts):
    """Writes a model with the small vocabulary; returns its path."""
    return bert_tf.save_checkpoint(model, TOKENIZER, str(folder), dialect, **facts)


def slow_except(*fast, medium=(), kinds=KINDS):
    """Returns kinds of models as parameters: only some run without --slow."""
    marks = dict.fromkeys(fast, ()) | dict.fromkeys(medium, pytest.mark.medium)
    return [
        pytest.param(kind, marks=marks.get(kind, pytest.mark.slow)) for kind in kinds
    ]


def with_tiers(kinds=KINDS):
    """Returns kinds as parameters; the export of a medium kind takes most of its cases."""
    medium = {"pair", "multi_label", "regression", "tagging"} & {*kinds}
    return slow_except(*{*kinds} - medium, medium=medium, kinds=kinds)


EACH_KIND = pytest.mark.parametrize("kind", with_tiers())


@contextlib.contextmanager
def with_bias(served, values):
    """Gives a served classifier another bias for a while."""
    bias = served.model.head.output_bias
    trained = np.array(bias)
    bias.assign(values)
    yield
    bias.assign(trained)


def save_with_bias(monkeypatch, values):
    """Gives the written SavedModels another bias than the model in memory."""
    write = tf.saved_model.save

    def save(served, place, signatures):
        with with_bias(served, values):
            write(served, place, signatures=signatures)

    monkeypatch.setattr(tf.saved_model, "save", save)


def served(model, tokenizer, **facts):
    """Returns the served model of a checkpoint with facts, without files."""
    contents = CheckpointContents(
        "the model", "bert-tf", arrays_by_name(model), model.config, tokenizer.vocabulary,
        tokenizer.do_lower_case, facts,
    )  # fmt: skip
    return load_served(Pretrained(model.config, contents))


def write_sentence_transformer(folder, pooling, normalize, max_seq_length=None):
    """Adds the files of sentence-transformers to a folder of Hugging Face."""
    steps = [("Transformer", ""), ("Pooling", "1_Pooling")]
    steps += [("Normalize", "2_Normalize")] if normalize else []
    modules = [
        {"type": f"sentence_transformers.models.{t}", "path": p} for t, p in steps
    ]
    write_json(folder / "modules.json", modules)
    (folder / "1_Pooling").mkdir(exist_ok=True)
    write_json(folder / "1_Pooling/config.json", pooling)
    if max_seq_length:
        values = {"max_seq_length": max_seq_length, "do_lower_case": False}
        write_json(folder / "sentence_bert_config.json", values)


def call(signature, **inputs):
    """Returns the outputs of a signature for texts or numbers, as arrays."""
    outputs = signature(**{name: tf.constant(value) for name, value in inputs.items()})
    return {name: value.numpy() for name, value in outputs.items()}


def softmax(logits):
    """Returns the softmax over the last axis in float64."""
    shifted = np.exp(
        np.asarray(logits, np.float64) - np.max(logits, axis=-1, keepdims=True)
    )
    return shifted / shifted.sum(axis=-1, keepdims=True)
