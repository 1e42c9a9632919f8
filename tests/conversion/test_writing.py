"""What is written: read by others, the same bits after a round trip, the released names."""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from bert_tf import files
from bert_tf.config import BertConfig
from bert_tf.conversion import convert, read_weights, write_weights
from bert_tf.conversion.weights import Weights
from bert_tf.errors import InputError
from bert_tf.modeling import (
    BertClassifier,
    BertMultipleChoice,
    BertPretrainer,
    BertSpanPredictor,
    BertTagger,
    variables_by_name,
)

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
CONFIG = BertConfig(
    vocab_size=60,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=24,
    max_position_embeddings=20,
    type_vocab_size=2,
)
VOCABULARY = ["[PAD]", *(f"w{i}" for i in range(59))]
MODELS = {
    "pretrainer": BertPretrainer(CONFIG, seed=0),
    "classifier": BertClassifier(CONFIG, num_labels=3, seed=0),
    "span": BertSpanPredictor(CONFIG, seed=0),
    "tagger": BertTagger(CONFIG, num_labels=4, seed=0),
    "choice": BertMultipleChoice(CONFIG, seed=0),
}


def weights_of(model) -> Weights:
    arrays = {name: np.asarray(v) for name, v in variables_by_name(model).items()}
    # Distinct values everywhere, so that no two weights can be taken for each other.
    generator = np.random.default_rng(0)
    arrays = {n: generator.normal(size=a.shape).astype(np.float32) for n, a in arrays.items()}
    return Weights("here", "bert-tf", arrays, CONFIG, VOCABULARY, True)


@pytest.mark.parametrize("dialect", ["google", "hugging_face", "bert-tf"])
@pytest.mark.parametrize("kind", MODELS)
def test_round_trips_are_bitwise(tmp_path, kind, dialect):
    weights = weights_of(MODELS[kind])
    back = read_weights(write_weights(weights, str(tmp_path / "out"), dialect))
    assert back.arrays.keys() == weights.arrays.keys()
    for name, array in weights.arrays.items():
        np.testing.assert_array_equal(back.arrays[name], array)
    assert back.config == CONFIG
    assert back.vocabulary == VOCABULARY
    assert back.unknown == ()


@pytest.mark.parametrize("old", ["google", "hugging_face", "bert-tf"])
@pytest.mark.parametrize("dialect", ["google", "hugging_face", "bert-tf"])
def test_where_no_folder_can_be_renamed(dialect, old):
    """As in an object store; and nothing of the folder that was there before stays."""
    folder = f"ram://writing/{old}-{dialect}"
    write_weights(weights_of(MODELS["span"]), folder, old)
    weights = weights_of(MODELS["tagger"])
    back = read_weights(write_weights(weights, folder, dialect))
    assert back.dialect == dialect
    assert back.arrays.keys() == weights.arrays.keys()
    for name, array in weights.arrays.items():
        np.testing.assert_array_equal(back.arrays[name], array)
    assert back.vocabulary == VOCABULARY
    write_weights(weights, fresh := f"ram://writing/fresh-{old}-{dialect}", dialect)
    assert sorted(tf.io.gfile.listdir(folder)) == sorted(tf.io.gfile.listdir(fresh))


@pytest.mark.parametrize("place", ["local", "ram"])
@pytest.mark.parametrize("dialect", ["google", "hugging_face", "bert-tf"])
def test_a_failure_leaves_nothing_half_written(tmp_path, monkeypatch, dialect, place):
    """The disk is full at the last file."""
    folder = str(tmp_path / "out") if place == "local" else f"ram://failing/{dialect}"
    before = files.write_bytes
    last = {"google": "checkpoint", "hugging_face": "model.safetensors", "bert-tf": "weights.json"}

    def full(path, content):
        if os.path.basename(path) == last[dialect]:
            raise OSError(28, "No space left on device")
        before(path, content)

    monkeypatch.setattr(files, "write_bytes", full)
    with pytest.raises(InputError, match=r"cannot be written: No space left"):
        write_weights(weights_of(MODELS["span"]), folder, dialect)
    assert not tf.io.gfile.exists(folder)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name",
    [
        "encoder",
        "masked_lm",
        "multiple_choice",
        "pretraining",
        "pretraining_gelu_new",
        "question_answering",
        "sequence_classification",
        "token_classification",
    ],
)
def test_hugging_face_gets_back_its_own(tmp_path, name):
    folder = GOLDEN / "huggingface" / name
    write_weights(read_weights(str(folder)), str(tmp_path / "hf"), "hugging_face")
    theirs = safetensors.numpy.load_file(folder / "model.safetensors")
    ours = safetensors.numpy.load_file(tmp_path / "hf/model.safetensors")
    assert ours.keys() == theirs.keys()
    for key, array in theirs.items():
        np.testing.assert_array_equal(ours[key], array, err_msg=key)
    theirs = json.loads((folder / "config.json").read_text())
    ours = json.loads((tmp_path / "hf/config.json").read_text())
    told = ("architectures", "hidden_act", "layer_norm_eps", "id2label", "label2id", "model_type")
    for key in (*told, "hidden_size", "vocab_size", "is_decoder", "type_vocab_size"):
        assert ours.get(key) == theirs.get(key), key


def test_our_gelu_is_gelu_new_there(tmp_path):
    write_weights(weights_of(MODELS["pretrainer"]), str(tmp_path), "hugging_face")
    assert json.loads((tmp_path / "config.json").read_text())["hidden_act"] == "gelu_new"


def test_the_released_variable_list(tmp_path):
    released = json.loads((GOLDEN / "released_index.json").read_text())["variables"]
    config = BertConfig.named("base", 21128)
    model = BertPretrainer(config, seed=0)
    ours = {n: [list(v.shape), str(v.dtype)] for n, v in variables_by_name(model).items()}
    assert ours == {n: [entry["shape"], entry["dtype"]] for n, entry in released.items()}


def test_the_original_can_go_on_from_ours(tmp_path):
    """The original's step-10 checkpoint through our hands: the same tensors, where it looks."""
    source = str(GOLDEN / "google_pretraining/step10")
    text = (GOLDEN / "google_pretraining/bert_config.json").read_text()
    report = convert(
        source, str(tmp_path / "out"), "google", slots=True, config=BertConfig.from_json(text)
    )
    assert "Greatest difference of the outputs on a fixed input: 0.0." in report
    latest = tf.train.latest_checkpoint(str(tmp_path / "out"))
    assert os.path.basename(latest) == "model.ckpt-10"
    ours, theirs = (
        tf.train.load_checkpoint(latest),
        tf.train.load_checkpoint(f"{source}/model.ckpt-10"),
    )
    assert ours.get_variable_to_shape_map() == theirs.get_variable_to_shape_map()
    assert ours.get_variable_to_dtype_map() == theirs.get_variable_to_dtype_map()
    for name in theirs.get_variable_to_shape_map():
        np.testing.assert_array_equal(ours.get_tensor(name), theirs.get_tensor(name))


def test_tensorflow_1_graphs_restore_it(tmp_path):
    weights = weights_of(MODELS["classifier"])
    prefix = write_weights(weights, str(tmp_path), "google")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variable = tf.compat.v1.get_variable("output_weights", [3, 16])
        tf.compat.v1.train.Saver([variable]).restore(session, prefix)
        np.testing.assert_array_equal(session.run(variable), weights.arrays["output_weights"])


def test_a_missing_config_is_said(tmp_path):
    weights = dataclasses.replace(weights_of(MODELS["span"]), config=None)
    with pytest.raises(InputError, match="--bert_config_file"):
        write_weights(weights, str(tmp_path / "x"), "hugging_face")
    with pytest.raises(InputError, match="no dialect 'keras'"):
        write_weights(weights, str(tmp_path / "x"), "keras")


def test_the_program(tmp_path):
    source = GOLDEN / "huggingface/sequence_classification"
    command = [sys.executable, "-m", "run_scripts.convert_checkpoint"]
    done = subprocess.run(
        [*command, f"--from={source}", f"--to={tmp_path}/g", "--dialect=google"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Greatest difference of the outputs on a fixed input: 0.0." in done.stdout
    names = dict(tf.train.list_variables(f"{tmp_path}/g/bert_model.ckpt"))
    assert names["output_weights"] == [3, 48]
    failed = subprocess.run(
        [*command, f"--from={tmp_path}/nothing", f"--to={tmp_path}/g2"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert failed.returncode == 2
    assert failed.stderr.strip().splitlines()[-1].startswith("error: There is no checkpoint")
