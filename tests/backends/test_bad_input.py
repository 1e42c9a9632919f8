"""Messages about backends, in one line, and what other backends must not need."""

import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from golden_checkpoints import read_zip, write_zip
from refusals import refused_exactly, refused_with
from tiny_bert import SPECIAL, small_config

import bert_tf

NEEDS_TENSORFLOW = "needs the backend tensorflow of Keras. Received: jax."
NEEDS_JAX = "needs the backend tensorflow or jax of Keras. Received: torch."
SET = "set KERAS_BACKEND=tensorflow in the environment"
TRAIN = f"{NEEDS_JAX} Set KERAS_BACKEND to jax, or {SET} before keras is imported."
# A name, the backend of Keras, and the message.
MESSAGES = [
    (
        "export_model",
        "jax",
        f"bert_tf.export_model {NEEDS_TENSORFLOW} Save the model with "
        "bert_tf.save_checkpoint, and then run export_model.py, which uses TensorFlow; "
        f"or {SET} before keras is imported.",
    ),
    ("Trainer", "torch", f"bert_tf.Trainer {TRAIN}"),
    ("NerTask", "torch", f"bert_tf.NerTask {TRAIN}"),
    (
        "load",
        "tensorflow",
        "KERAS_BACKEND is jax, but Keras was imported with tensorflow before. Start "
        "Python again, and set KERAS_BACKEND before keras is imported.",
    ),
]


def set_backend(monkeypatch, keras_has, environment_has):
    monkeypatch.setattr(keras.config, "backend", lambda: keras_has)
    monkeypatch.setenv("KERAS_BACKEND", environment_has)


@pytest.mark.parametrize(("name", "backend", "message"), MESSAGES)
def test_names_that_do_not_work_with_the_backend(monkeypatch, name, backend, message):
    set_backend(monkeypatch, backend, backend if name != "load" else "jax")
    monkeypatch.delitem(vars(bert_tf), name, raising=False)  # as before its first use
    with refused_exactly(message):
        getattr(bert_tf, name)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "KERAS_BACKEND",
            "jax",
            "Keras cannot use its backend, because jax is not installed. Install it "
            f"(docs/backends.md), or {SET}.",
        ),
        (
            "PYTHONOPTIMIZE",
            "2",
            "bert-tf needs docstrings, which Python removes with -OO or "
            "PYTHONOPTIMIZE=2. Leave out -OO, and unset PYTHONOPTIMIZE.",
        ),
        (
            "TF_USE_LEGACY_KERAS",
            "1",
            "TensorFlow Text cannot be imported with TF_USE_LEGACY_KERAS=1, because "
            "tf_keras is not installed. Unset TF_USE_LEGACY_KERAS: bert-tf uses Keras "
            "3.",
        ),
    ],
)
def test_variables_that_prevent_the_import(name, value, message):
    program = (
        "import sys, bert_tf; sys.modules.update(jax=None, tf_keras=None); bert_tf.load"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, name: value},
        capture_output=True,
        text=True,
    )
    assert done.stderr.splitlines()[-1] == f"bert_tf.errors.InputError: {message}"


def test_dynamic_shapes(monkeypatch):
    set_backend(monkeypatch, "jax", "jax")
    encoder = bert_tf.BertEncoder(bert_tf.BertConfig(9, 8, 1, 2, 8))
    encoder.skip_padding = False
    with refused_exactly(
        "skip_padding needs shapes that depend on the values of a batch, and JAX has "
        "fixed shapes only. Leave it False, or set KERAS_BACKEND to tensorflow or torch "
        "in the environment before keras is imported."
    ):
        encoder.skip_padding = True
    assert not encoder.skip_padding


@pytest.mark.parametrize("name", ["tensorflow", "jax", "torch"])
def test_tensorflow_leaves_the_gpus_to_another_backend(name, monkeypatch):
    calls = []
    set_backend(monkeypatch, name, name)
    monkeypatch.setattr(
        tf.config, "set_visible_devices", lambda *arguments: calls.append(arguments)
    )
    monkeypatch.delitem(vars(bert_tf), "BertTokenizer", raising=False)
    assert bert_tf.BertTokenizer  # used for the first time
    assert calls == ([] if name == "tensorflow" else [([], "GPU")])


def test_text_inputs_on_texts_and_in_datasets():
    tokens = [*SPECIAL, "good", "film"]
    layer = bert_tf.TextInputs(bert_tf.BertTokenizer(tokens), 6)
    texts = ["good film", "film"]
    expected = [[2, 5, 6, 3, 0, 0], [2, 6, 3, 0, 0, 0]]
    assert np.array_equal(layer(texts)["input_ids"], expected)

    dataset = tf.data.Dataset.from_tensor_slices(texts).batch(2).map(layer)
    (batch,) = list(dataset)
    assert np.array_equal(batch["input_ids"], expected)
    config = small_config(vocab_size=len(tokens))
    encoder = bert_tf.BertEncoder(config)
    outputs = keras.ops.convert_to_numpy(encoder(layer(texts))["pooled_output"])
    assert np.allclose(outputs, encoder.predict(dataset)["pooled_output"], atol=1e-6)


def test_models_and_optimizer_do_not_import_tensorflow():
    if keras.backend.backend() == "tensorflow":
        pytest.skip("set KERAS_BACKEND=jax or KERAS_BACKEND=torch")
    program = (
        "import sys; import bert_tf.modeling; from bert_tf import AdamWeightDecay, "
        "BertPretrainer, WarmupSchedule, layout_map; "
        "assert 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_keras_file_of_a_newer_keras(tmp_path):
    path = tmp_path / "model.keras"
    inputs = keras.Input((2,))
    keras.Model(inputs, keras.layers.Dense(1)(inputs)).save(path)
    contents = read_zip(path)

    metadata = json.loads(contents["metadata.json"])
    contents["metadata.json"] = json.dumps({**metadata, "keras_version": "9.1.0"})
    write_zip(path, contents)
    model = bert_tf.load(path)  # only what cannot be read is refused
    assert model(np.ones((1, 2))).shape == (1, 1)

    config = json.loads(contents["config.json"])
    config["config"]["layers"][1]["class_name"] = "LayerOfTheFuture"
    contents["config.json"] = json.dumps(config)
    write_zip(path, contents)
    with refused_with(
        f"{path} was saved by Keras 9.1.0 and cannot be read by Keras "
        f"{keras.__version__}: "
    ):
        bert_tf.load(path)
