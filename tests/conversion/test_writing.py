"""Writing checkpoints: round trips keep every bit, and other programs can read the files."""

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
from bert_tf.conversion import (
    WRITABLE_DIALECTS,
    convert,
    read_weights,
    write_checkpoint,
    write_weights,
)
from bert_tf.conversion.checkpoint_contents import CheckpointContents
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
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(55))]
MODELS = {
    "pretrainer": BertPretrainer(CONFIG, seed=0),
    "classifier": BertClassifier(CONFIG, num_labels=3, seed=0),
    "span": BertSpanPredictor(CONFIG, seed=0),
    "tagger": BertTagger(CONFIG, num_labels=4, seed=0),
    "choice": BertMultipleChoice(CONFIG, seed=0),
}


def weights_of(model) -> CheckpointContents:
    arrays = {name: np.asarray(v) for name, v in variables_by_name(model).items()}
    # All values are distinct, so that a test fails if two weights are confused.
    generator = np.random.default_rng(0)
    arrays = {n: generator.normal(size=a.shape).astype(np.float32) for n, a in arrays.items()}
    return CheckpointContents("source", "bert-tf", arrays, CONFIG, VOCABULARY, True)


@pytest.mark.parametrize("dialect", ["google", "hugging_face", "bert-tf"])
@pytest.mark.parametrize("kind", MODELS)
def test_round_trips_are_bitwise(tmp_path, kind, dialect):
    weights = weights_of(MODELS[kind])
    read = read_weights(write_weights(weights, str(tmp_path / "out"), dialect))
    assert read.arrays.keys() == weights.arrays.keys()
    for name, array in weights.arrays.items():
        np.testing.assert_array_equal(read.arrays[name], array)
    assert read.config == CONFIG
    assert read.vocabulary == VOCABULARY
    assert read.unknown == ()


@pytest.mark.parametrize("dialect", ["google", "hugging_face", "bert-tf"])
def test_folders_in_object_stores_are_replaced_completely(dialect):
    """Object stores and ram:// cannot rename folders, but no file of the old folder may remain."""
    folder = f"ram://writing/{dialect}"
    write_weights(weights_of(MODELS["span"]), folder, dialect)
    tf.io.gfile.GFile(f"{folder}/vocab.txt", "w").write("old")
    weights = weights_of(MODELS["tagger"])
    read = read_weights(write_weights(weights, folder, dialect))
    assert read.dialect == dialect
    assert read.arrays.keys() == weights.arrays.keys()
    for name, array in weights.arrays.items():
        np.testing.assert_array_equal(read.arrays[name], array)
    assert read.vocabulary == VOCABULARY
    write_weights(weights, fresh := f"ram://writing/fresh-{dialect}", dialect)
    assert sorted(tf.io.gfile.listdir(folder)) == sorted(tf.io.gfile.listdir(fresh))


@pytest.mark.parametrize("place", ["local", "ram"])
@pytest.mark.parametrize("old", ["google", "hugging_face", "bert-tf"])
@pytest.mark.parametrize("dialect", ["google", "hugging_face", "bert-tf"])
def test_only_a_checkpoint_of_the_same_dialect_is_replaced(tmp_path, dialect, old, place):
    folder = str(tmp_path / "out") if place == "local" else f"ram://kinds/{old}-{dialect}"
    write_weights(weights_of(MODELS["span"]), folder, old)
    if dialect == old:
        write_weights(weights_of(MODELS["tagger"]), folder, dialect)
        return
    before = sorted(tf.io.gfile.listdir(folder))
    with pytest.raises(InputError, match=f"which is not a file .* in the dialect {dialect}"):
        write_weights(weights_of(MODELS["tagger"]), folder, dialect)
    assert sorted(tf.io.gfile.listdir(folder)) == before


@pytest.mark.parametrize("place", ["local", "ram"])
def test_a_checkpoint_is_replaced_after_the_new_one_was_read(tmp_path, monkeypatch, place):
    source = str(tmp_path / "source")
    write_weights(weights_of(MODELS["tagger"]), source, "bert-tf")
    folder = str(tmp_path / "out") if place == "local" else "ram://checked/out"
    write_weights(weights_of(MODELS["span"]), folder, "hugging_face")
    real = write_checkpoint.read_weights

    def read_damaged(path, slots=False):
        contents = real(path, slots)
        if path != source:
            contents.arrays["bert/embeddings/word_embeddings"][0] += 1
        return contents

    monkeypatch.setattr(write_checkpoint, "read_weights", read_damaged)
    with pytest.raises(InputError, match="differs from the written weights, first in bert/emb"):
        convert(source, folder, "hugging_face")
    kept = read_weights(folder).arrays
    assert "cls/squad/output_weights" in kept
    assert sorted(os.listdir(tmp_path)) == (["out", "source"] if place == "local" else ["source"])


def test_a_file_that_appears_during_the_conversion_is_kept(tmp_path, monkeypatch):
    source, mine = str(tmp_path / "source"), tmp_path / "out/mine.txt"
    write_weights(weights_of(MODELS["tagger"]), source, "bert-tf")
    real = write_checkpoint.read_weights

    def read_and_write_mine(path, slots=False):
        if path != source:
            mine.parent.mkdir()
            mine.write_text("mine")
        return real(path, slots)

    monkeypatch.setattr(write_checkpoint, "read_weights", read_and_write_mine)
    with pytest.raises(InputError, match=r"contains mine.txt"):
        convert(source, str(mine.parent), "hugging_face")
    assert mine.read_text() == "mine"


def test_nan_weights_are_compared_bit_for_bit():
    contents = weights_of(MODELS["span"])
    contents.arrays["cls/squad/output_bias"][:] = np.nan
    write_checkpoint._check_same(contents, contents)
    other = dataclasses.replace(contents, arrays={n: a.copy() for n, a in contents.arrays.items()})
    write_checkpoint._check_same(contents, other)
    other.arrays["cls/squad/output_bias"][:] = 0
    with pytest.raises(InputError, match="first in cls/squad/output_bias"):
        write_checkpoint._check_same(contents, other)


@pytest.mark.parametrize("place", ["local", "ram"])
@pytest.mark.parametrize("dialect", ["google", "hugging_face", "bert-tf"])
def test_a_full_disk_leaves_no_partial_folder(tmp_path, monkeypatch, dialect, place):
    """Writing the last file raises an error; then no file of the folder remains."""
    folder = str(tmp_path / "out") if place == "local" else f"ram://failing/{dialect}"
    write_bytes = files.write_bytes
    last = {"google": "checkpoint", "hugging_face": "model.safetensors", "bert-tf": "weights.json"}

    def fail_at_last_file(path, content):
        if os.path.basename(path) == last[dialect]:
            raise OSError(28, "No space left on device")
        write_bytes(path, content)

    monkeypatch.setattr(files, "write_bytes", fail_at_last_file)
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
def test_hugging_face_folders_are_written_as_they_were_read(tmp_path, name):
    folder = GOLDEN / "huggingface" / name
    write_weights(read_weights(str(folder)), str(tmp_path / "hf"), "hugging_face")
    original = safetensors.numpy.load_file(folder / "model.safetensors")
    written = safetensors.numpy.load_file(tmp_path / "hf/model.safetensors")
    assert written.keys() == original.keys()
    for key, array in original.items():
        np.testing.assert_array_equal(written[key], array, err_msg=key)
    original = json.loads((folder / "config.json").read_text())
    written = json.loads((tmp_path / "hf/config.json").read_text())
    keys = ("architectures", "hidden_act", "layer_norm_eps", "id2label", "label2id", "model_type")
    for key in (*keys, "hidden_size", "vocab_size", "is_decoder", "type_vocab_size"):
        assert written.get(key) == original.get(key), key


# transformers 4.57 and 5.23 give a head as many outputs as `id2label` has entries, and two outputs
# without `id2label`. Written like this, folders of classifiers and taggers with 1, 2, 3 and 5
# outputs were read by transformers 5.23.
@pytest.mark.parametrize("number", [1, 2, 3, 5])
@pytest.mark.parametrize("kind", [BertClassifier, BertTagger])
def test_each_output_of_a_head_has_a_label(tmp_path, kind, number):
    weights = weights_of(kind(CONFIG, num_labels=number, seed=0))
    names = [f"LABEL_{i}" for i in range(number)]
    for extra, labels in (({}, names), ({"labels": list("vwxyz")[:number]}, list("vwxyz"))):
        write_weights(dataclasses.replace(weights, extra=extra), str(tmp_path), "hugging_face")
        config = json.loads((tmp_path / "config.json").read_text())
        assert config["id2label"] == {str(i): labels[i] for i in range(number)}
        assert config["label2id"] == {labels[i]: i for i in range(number)}
        is_regression = kind is BertClassifier and number == 1
        facts = {"labels": [], "task_type": "regression"} if is_regression else {}
        assert read_weights(str(tmp_path)).extra == {"labels": labels[:number], **facts}


@pytest.mark.parametrize("kind", ["pretrainer", "span", "choice"])
def test_models_without_labels_are_written_without_labels(tmp_path, kind):
    """transformers would give the span head as many outputs as there are labels."""
    weights = dataclasses.replace(weights_of(MODELS[kind]), extra={"labels": ["a", "b", "c"]})
    write_weights(weights, str(tmp_path), "hugging_face")
    config = json.loads((tmp_path / "config.json").read_text())
    assert "id2label" not in config and "label2id" not in config


def test_a_wrong_number_of_labels_is_refused(tmp_path):
    weights = dataclasses.replace(weights_of(MODELS["tagger"]), extra={"labels": ["O", "PER"]})
    message = r"one name for each of the 4 outputs .* Received: 2 labels, O, PER"
    with pytest.raises(InputError, match=message):
        write_weights(weights, str(tmp_path / "out"), "hugging_face")
    assert not (tmp_path / "out").exists()


def test_tanh_gelu_is_written_as_gelu_new(tmp_path):
    write_weights(weights_of(MODELS["pretrainer"]), str(tmp_path), "hugging_face")
    assert json.loads((tmp_path / "config.json").read_text())["hidden_act"] == "gelu_new"


def test_variables_equal_those_of_the_released_checkpoint(tmp_path):
    released = json.loads((GOLDEN / "released_index.json").read_text())["variables"]
    config = BertConfig.named("base", 21128)
    model = BertPretrainer(config, seed=0)
    variables = {n: [list(v.shape), str(v.dtype)] for n, v in variables_by_name(model).items()}
    assert variables == {n: [entry["shape"], entry["dtype"]] for n, entry in released.items()}


def test_google_research_bert_can_resume_from_our_checkpoint(tmp_path):
    """A converted checkpoint keeps all tensors, and tf.train.latest_checkpoint finds it."""
    source = str(GOLDEN / "google_pretraining/step10")
    text = (GOLDEN / "google_pretraining/bert_config.json").read_text()
    report = convert(
        source, str(tmp_path / "out"), "google", slots=True, config=BertConfig.from_json(text)
    )
    assert "Greatest difference of the outputs on a fixed input: 0.0." in report
    latest = tf.train.latest_checkpoint(str(tmp_path / "out"))
    assert os.path.basename(latest) == "model.ckpt-10"
    written = tf.train.load_checkpoint(latest)
    original = tf.train.load_checkpoint(f"{source}/model.ckpt-10")
    assert written.get_variable_to_shape_map() == original.get_variable_to_shape_map()
    assert written.get_variable_to_dtype_map() == original.get_variable_to_dtype_map()
    for name in original.get_variable_to_shape_map():
        np.testing.assert_array_equal(written.get_tensor(name), original.get_tensor(name))


def test_a_tensorflow_1_saver_restores_our_checkpoint(tmp_path):
    weights = weights_of(MODELS["classifier"])
    prefix = write_weights(weights, str(tmp_path), "google")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variable = tf.compat.v1.get_variable("output_weights", [3, 16])
        tf.compat.v1.train.Saver([variable]).restore(session, prefix)
        np.testing.assert_array_equal(session.run(variable), weights.arrays["output_weights"])


def test_weights_whose_outputs_are_not_finite_are_reported(tmp_path):
    contents = weights_of(MODELS["span"])
    contents.arrays["bert/pooler/dense/kernel"][:] = np.finfo(np.float32).max
    contents.arrays["bert/embeddings/LayerNorm/gamma"][:] = np.finfo(np.float32).max
    source = write_weights(contents, str(tmp_path / "source"), "bert-tf")
    report = convert(source, str(tmp_path / "target"), "google")
    assert "warning: the outputs on a fixed input are not finite" in report
    assert "Greatest difference" not in report


def test_a_missing_config_is_refused(tmp_path):
    weights = dataclasses.replace(weights_of(MODELS["span"]), config=None)
    for dialect in WRITABLE_DIALECTS:
        with pytest.raises(InputError, match=r"source has no .*Give its path as bert_config_file"):
            write_weights(weights, str(tmp_path / "x"), dialect)


@pytest.mark.parametrize("dialect", ["keras", "model_garden"])
def test_unknown_and_read_only_dialects_are_refused(tmp_path, dialect):
    message = f"dialect must be one of bert-tf, hugging_face, google. Received: '{dialect}'"
    with pytest.raises(InputError, match=message):
        write_weights(weights_of(MODELS["span"]), str(tmp_path / "x"), dialect)


def test_convert_checkpoint_writes_a_google_checkpoint(tmp_path):
    source = GOLDEN / "huggingface/sequence_classification"
    command = [sys.executable, "-m", "bert_tf.run_scripts.convert_checkpoint"]
    done = subprocess.run(
        [*command, f"--from={source}", f"--to={tmp_path}/g", "--dialect=google"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Greatest difference of the outputs on a fixed input: 0.0." in done.stdout
    names = dict(tf.train.list_variables(f"{tmp_path}/g/bert_model.ckpt"))
    assert names["output_weights"] == [3, 48]
    subprocess.run(
        [*command, f"--from={source}", f"--to={tmp_path}/g", "--dialect=google", "--encoder_only"],
        capture_output=True, check=True,
    )  # fmt: skip
    encoder = [n for n in names if n.startswith("bert/")]
    written = dict(tf.train.list_variables(f"{tmp_path}/g/bert_model.ckpt"))
    assert written.keys() == set(encoder) < names.keys()
    failed = subprocess.run(
        [*command, f"--from={tmp_path}/missing", f"--to={tmp_path}/g2"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert failed.returncode == 2
    assert failed.stderr.strip().splitlines()[-1].startswith("error: There is no checkpoint")
    wrong = subprocess.run(
        [*command, "--from=x", "--to=y", "--dialect=keras"], capture_output=True, text=True
    )
    assert wrong.returncode == 2 and f"<{'|'.join(WRITABLE_DIALECTS)}>" in wrong.stderr
