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
SET = "set KERAS_BACKEND=tensorflow in the environment"
ON_JAX = (
    "import keras; keras.config.backend = lambda: 'jax'; "
    "os.environ['KERAS_BACKEND'] = 'jax'; "
)
# The end of a program, and the message.
MESSAGES = {
    ON_JAX + "bert_tf.export_model": (
        f"bert_tf.export_model {NEEDS_TENSORFLOW} Save the model with "
        "bert_tf.save_checkpoint, and then run export_model.py, which uses TensorFlow; "
        f"or {SET} before keras is imported."
    ),
    ON_JAX + "bert_tf.Trainer": (
        f"bert_tf.Trainer {NEEDS_TENSORFLOW} Train with compile and fit "
        f"(docs/backends.md), or {SET} before keras is imported."
    ),
    ON_JAX + "bert_tf.NerTask": (
        f"bert_tf.NerTask {NEEDS_TENSORFLOW} Train with compile and fit "
        f"(docs/backends.md), or {SET} before keras is imported."
    ),
    "import keras; os.environ['KERAS_BACKEND'] = 'jax'; bert_tf.load": (
        "KERAS_BACKEND is jax, but Keras was imported with tensorflow before. Start "
        "Python again, and set KERAS_BACKEND before keras is imported."
    ),
    "os.environ['KERAS_BACKEND'] = 'jax'; sys.modules['jax'] = None; bert_tf.load": (
        "Keras cannot use its backend, because jax is not installed. Install it "
        f"(docs/backends.md), or {SET}."
    ),
}


@pytest.mark.parametrize("program", MESSAGES)
def test_names_that_do_not_work_with_the_backend(program):
    done = subprocess.run(
        [sys.executable, "-c", f"import os, sys, bert_tf; {program}"],
        env={**os.environ, "KERAS_BACKEND": "tensorflow"},
        capture_output=True,
        text=True,
    )
    expected = f"bert_tf.errors.InputError: {MESSAGES[program]}"
    assert done.stderr.splitlines()[-1] == expected


def test_dynamic_shapes(monkeypatch):
    monkeypatch.setattr(keras.config, "backend", lambda: "jax")
    monkeypatch.setenv("KERAS_BACKEND", "jax")
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
    monkeypatch.setattr(keras.config, "backend", lambda: name)
    monkeypatch.setenv("KERAS_BACKEND", name)
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
