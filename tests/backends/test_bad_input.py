"""Messages about backends, in one line; each in a new process."""

import json
import os
import subprocess
import sys
import zipfile

import keras
import numpy as np
import pytest

import bert_tf

OF_EXPORT = (
    "bert_tf.export_model needs the backend tensorflow of Keras. Received: numpy. Save "
    "the model with bert_tf.save_checkpoint, and then run export_model.py, which uses "
    "TensorFlow; or set KERAS_BACKEND=tensorflow in the environment before keras is "
    "imported."
)
OF_TRAINER = (
    "bert_tf.Trainer needs the backend tensorflow of Keras. Received: numpy. Train with "
    "compile and fit (docs/backends.md), or set KERAS_BACKEND=tensorflow in the "
    "environment before keras is imported."
)
MISSING = (
    "Keras cannot use its backend, because jax is not installed. Install it "
    "(docs/backends.md), or set KERAS_BACKEND=tensorflow in the environment."
)
CHANGED = (
    "KERAS_BACKEND is jax, but Keras was imported with numpy before. Start Python "
    "again, and set KERAS_BACKEND before keras is imported."
)
# For each message: the value of KERAS_BACKEND, and a program.
PROGRAMS = {
    OF_EXPORT: ("numpy", "bert_tf.export_model"),
    OF_TRAINER: ("numpy", "bert_tf.Trainer"),
    MISSING: ("jax", "sys.modules['jax'] = None; bert_tf.BertClassifier"),
    CHANGED: (
        "numpy",
        "import keras, os; os.environ['KERAS_BACKEND'] = 'jax'; bert_tf.load",
    ),
}


@pytest.mark.parametrize("message", PROGRAMS)
def test_names_that_do_not_work_with_the_backend(message):
    backend, program = PROGRAMS[message]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, bert_tf; {program}"],
        env={**os.environ, "KERAS_BACKEND": backend}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stderr.splitlines()[-1] == f"bert_tf.errors.InputError: {message}"


def test_models_and_optimizer_do_not_import_tensorflow():
    program = (
        "import sys; import bert_tf.modeling; from bert_tf import AdamWeightDecay, "
        "BertPretrainer, WarmupSchedule; assert 'tensorflow' not in sys.modules"
    )
    environment = {**os.environ, "KERAS_BACKEND": "numpy"}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


def test_a_keras_file_of_a_newer_keras(tmp_path):
    path = tmp_path / "model.keras"
    inputs = keras.Input((2,))
    keras.Model(inputs, keras.layers.Dense(1)(inputs)).save(path)
    with zipfile.ZipFile(path) as file:
        contents = {name: file.read(name) for name in file.namelist()}

    metadata = json.loads(contents["metadata.json"])
    contents["metadata.json"] = json.dumps({**metadata, "keras_version": "9.1.0"})
    with zipfile.ZipFile(path, "w") as file:
        for name, content in contents.items():
            file.writestr(name, content)
    model = bert_tf.load(path)  # only what cannot be read is refused
    assert model(np.ones((1, 2))).shape == (1, 1)

    config = json.loads(contents["config.json"])
    config["config"]["layers"][1]["class_name"] = "LayerOfTheFuture"
    contents["config.json"] = json.dumps(config)
    with zipfile.ZipFile(path, "w") as file:
        for name, content in contents.items():
            file.writestr(name, content)
    with pytest.raises(bert_tf.InputError) as error:
        bert_tf.load(path)
    assert str(error.value).startswith(
        f"{path} was saved by Keras 9.1.0 and cannot be read by Keras "
        f"{keras.__version__}: "
    )
    assert len(str(error.value).splitlines()) == 1
