"""Writing checkpoints: round trips keep every bit, and other programs read them."""

import dataclasses
import os

import keras
import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf
from golden_checkpoints import (
    GOLDEN,
    GOOGLE,
    HUGGING_FACE,
    assert_same_arrays,
    google_config,
)
from json_files import read_json
from reference import tokenizer as reference
from refusals import refused
from run_programs import run_main
from tiny_bert import SPECIAL

from bert_tf.config import BertConfig
from bert_tf.conversion import (
    WRITABLE_DIALECTS,
    convert,
    read_weights,
    write_weights,
    writer,
)
from bert_tf.conversion.checkpoint_contents import CheckpointContents
from bert_tf.modeling import (
    BertClassifier,
    BertMultipleChoice,
    BertPretrainer,
    BertSpanPredictor,
    BertTagger,
    variables_by_name,
)
from bert_tf.pretrained import load
from bert_tf.storage import checkpoint_formats, files

CONFIG = BertConfig(60, 16, 2, 2, 24, max_position_embeddings=20, type_vocab_size=2)
VOCABULARY = [
    *SPECIAL,
    *(f"w{i}" for i in range(55)),
]
MODELS = {
    "pretrainer": BertPretrainer(CONFIG, seed=0),
    "classifier": BertClassifier(CONFIG, num_labels=3, seed=0),
    "span": BertSpanPredictor(CONFIG, seed=0),
    "tagger": BertTagger(CONFIG, num_labels=4, seed=0),
    "choice": BertMultipleChoice(CONFIG, seed=0),
}


def weights_of(model, **changes) -> CheckpointContents:
    arrays = {name: np.asarray(v) for name, v in variables_by_name(model).items()}
    # All values are distinct, so that a test fails if two weights are confused.
    generator = np.random.default_rng(0)
    arrays = {
        n: generator.normal(size=a.shape).astype(np.float32) for n, a in arrays.items()
    }
    found = CheckpointContents("source", "bert-tf", arrays, CONFIG, VOCABULARY, True)
    return dataclasses.replace(found, **changes)


@pytest.mark.parametrize("dialect", ["google", "hugging_face", "bert-tf"])
@pytest.mark.parametrize("kind", MODELS)
def test_round_trips_are_bitwise(tmp_path, kind, dialect):
    weights = weights_of(MODELS[kind])
    read = read_weights(write_weights(weights, str(tmp_path / "out"), dialect))
    assert_same_arrays(read.arrays, weights.arrays)
    names = os.listdir(tmp_path / "out")
    assert checkpoint_formats.marks_in(names) and checkpoint_formats.has_weights(names)
    assert all(map(checkpoint_formats.WRITABLE[dialect].is_own_file, names))
    assert all(map(checkpoint_formats.is_file_of_checkpoint, names))
    assert read.config == CONFIG
    assert read.vocabulary == VOCABULARY
    assert read.unknown == ()


def test_every_dialect_keeps_the_lines_of_an_odd_vocabulary(tmp_path):
    """Repeated, empty and white-space entries: the ids are the line numbers."""
    odd = [
        "",
        "w1",
        "a b",
        "a\tb",
        "a\u00a0b",
        "a\u0085b",
        "a\u2028b",
        "\u2028",
        "a\u3000b",
        "w2",
    ]
    lines = [*VOCABULARY[:20], *odd, *VOCABULARY[20:49], "w3"]
    written = "".join(f"{line}\n" for line in lines).encode()
    source = tmp_path / "source"
    write_weights(weights_of(MODELS["tagger"], vocabulary=lines), str(source), "google")
    assert (source / "vocab.txt").read_bytes() == written

    # Each folder is the source of the next one; keras-hub has no taggers.
    released = reference.Tokenizer(lines, True)
    text = "w1 w2 w3 a b a\u00a0b a\u2028b w4"
    for dialect in sorted(WRITABLE_DIALECTS, key="keras_hub".__eq__):
        target = tmp_path / dialect
        convert(str(source), str(target), dialect, encoder_only=dialect == "keras_hub")
        (vocabulary,) = target.rglob("vocab*.txt")
        assert vocabulary.read_bytes() == written
        found = load(target).tokenizer.tokenize(text)
        assert found.numpy().tolist() == released.tokenize(text)
        source = target


@pytest.mark.parametrize("dialect", ["google", "hugging_face", "bert-tf"])
def test_folders_in_object_stores_are_replaced_completely(dialect):
    """Object stores cannot rename folders, but no file of the old one may remain."""
    folder = f"ram://writing/{dialect}"
    write_weights(weights_of(MODELS["span"]), folder, dialect)
    tf.io.gfile.GFile(f"{folder}/vocab.txt", "w").write("old")
    weights = weights_of(MODELS["tagger"])
    read = read_weights(write_weights(weights, folder, dialect))
    assert read.dialect == dialect
    assert_same_arrays(read.arrays, weights.arrays)
    assert read.vocabulary == VOCABULARY
    write_weights(weights, fresh := f"ram://writing/fresh-{dialect}", dialect)
    assert sorted(tf.io.gfile.listdir(folder)) == sorted(tf.io.gfile.listdir(fresh))


@pytest.mark.parametrize("place", ["local", "ram"])
def test_a_checkpoint_is_replaced_after_the_new_one_was_read(
    tmp_path, monkeypatch, place
):
    source = str(tmp_path / "source")
    write_weights(weights_of(MODELS["tagger"]), source, "bert-tf")
    folder = str(tmp_path / "out") if place == "local" else "ram://checked/out"
    write_weights(weights_of(MODELS["span"]), folder, "hugging_face")
    real = writer.read_weights

    def read_damaged(path, slots=False):
        contents = real(path, slots)
        if path != source:
            contents.arrays["bert/embeddings/word_embeddings"][0] += 1
        return contents

    monkeypatch.setattr(writer, "read_weights", read_damaged)
    with refused("differs from the written weights, first in bert/emb"):
        convert(source, folder, "hugging_face")
    kept = read_weights(folder).arrays
    assert "cls/squad/output_weights" in kept
    assert sorted(os.listdir(tmp_path)) == (
        ["out", "source"] if place == "local" else ["source"]
    )


def test_a_file_that_appears_during_the_conversion_is_kept(tmp_path, monkeypatch):
    source, mine = str(tmp_path / "source"), tmp_path / "out/mine.txt"
    write_weights(weights_of(MODELS["tagger"]), source, "bert-tf")
    real = writer.read_weights

    def read_and_write_mine(path, slots=False):
        if path != source:
            mine.parent.mkdir()
            mine.write_text("mine")
        return real(path, slots)

    monkeypatch.setattr(writer, "read_weights", read_and_write_mine)
    with refused(r"contains mine.txt"):
        convert(source, str(mine.parent), "hugging_face")
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("place", ["local", "ram"])
def test_a_full_disk_leaves_no_partial_folder(tmp_path, monkeypatch, place):
    """Writing the last file raises an error; then no file of the folder remains."""
    folder = str(tmp_path / "out") if place == "local" else "ram://failing/out"
    write_bytes = files.write_bytes

    def fail_at_last_file(path, content):
        if path.startswith("ram://" if place == "ram" else "/") and path.endswith(
            "/checkpoint"
        ):
            raise OSError(28, "No space left on device")
        write_bytes(path, content)

    monkeypatch.setattr(files, "write_bytes", fail_at_last_file)
    with refused(r"cannot be written: No space left"):
        write_weights(weights_of(MODELS["span"]), folder, "google")
    assert not tf.io.gfile.exists(folder)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", sorted(os.listdir(HUGGING_FACE)))
def test_hugging_face_folders_are_written_as_they_were_read(tmp_path, name):
    folder = HUGGING_FACE / name
    write_weights(read_weights(str(folder)), str(tmp_path / "hf"), "hugging_face")
    original = safetensors.numpy.load_file(folder / "model.safetensors")
    written = safetensors.numpy.load_file(tmp_path / "hf/model.safetensors")
    assert_same_arrays(written, original)
    original = read_json(folder / "config.json")
    written = read_json(tmp_path / "hf/config.json")
    keys = (
        "architectures",
        "hidden_act",
        "layer_norm_eps",
        "id2label",
        "label2id",
        "model_type",
    )
    for key in (*keys, "hidden_size", "vocab_size", "is_decoder", "type_vocab_size"):
        assert written.get(key) == original.get(key), key


# transformers 4.57 and 5.23 give a head as many outputs as `id2label` has entries, and
# two outputs without `id2label`. Written like this, folders of classifiers and taggers
# with 1, 2, 3 and 5 outputs were read by transformers 5.23.
@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("kind", [BertClassifier, BertTagger])
def test_each_output_of_a_head_has_a_label(tmp_path, kind, number):
    model = kind(CONFIG, num_labels=number, seed=0)
    names = [f"LABEL_{i}" for i in range(number)]
    for extra, labels in (
        ({}, names),
        ({"labels": list("vwxyz")[:number]}, list("vwxyz")),
    ):
        write_weights(weights_of(model, facts=extra), str(tmp_path), "hugging_face")
        config = read_json(tmp_path / "config.json")
        assert config["id2label"] == {str(i): labels[i] for i in range(number)}
        assert config["label2id"] == {labels[i]: i for i in range(number)}
        is_regression = kind is BertClassifier and number == 1
        facts = {"labels": [], "task_type": "regression"} if is_regression else {}
        assert read_weights(str(tmp_path)).facts == {"labels": labels[:number], **facts}


def test_models_without_labels_are_written_without_labels(tmp_path):
    """transformers would give the span head as many outputs as there are labels."""
    weights = weights_of(MODELS["span"], facts={"labels": ["a", "b", "c"]})
    write_weights(weights, str(tmp_path), "hugging_face")
    config = read_json(tmp_path / "config.json")
    assert "id2label" not in config and "label2id" not in config


def test_a_wrong_number_of_labels_is_refused(tmp_path):
    weights = weights_of(MODELS["tagger"], facts={"labels": ["O", "PER"]})
    message = r"one name for each of the 4 outputs .* Received: 2 labels, O, PER"
    with refused(message):
        write_weights(weights, str(tmp_path / "out"), "hugging_face")
    assert not (tmp_path / "out").exists()


def test_variables_equal_those_of_the_released_checkpoint(monkeypatch):
    def zeros(self, shape, dtype=None):
        return keras.ops.zeros(shape, dtype)

    # To draw 100 million random weights takes seconds.
    monkeypatch.setattr(keras.initializers.TruncatedNormal, "__call__", zeros)
    released = read_json(GOLDEN / "released_index.json")["variables"]
    model = BertPretrainer(BertConfig.named("base", 21128))
    variables = {
        n: [list(v.shape), str(v.dtype)] for n, v in variables_by_name(model).items()
    }
    assert variables == {
        n: [entry["shape"], entry["dtype"]] for n, entry in released.items()
    }


def test_google_research_bert_can_resume_from_our_checkpoint(tmp_path):
    """A converted checkpoint has all tensors, and latest_checkpoint finds it."""
    source, target = str(GOOGLE / "step10"), str(tmp_path / "out")
    report = convert(source, target, "google", slots=True, config=google_config())
    assert "Greatest difference of the outputs on a fixed input: 0.0." in report
    latest = tf.train.latest_checkpoint(target)
    assert os.path.basename(latest) == "model.ckpt-10"
    written = tf.train.load_checkpoint(latest)
    original = tf.train.load_checkpoint(f"{source}/model.ckpt-10")
    assert written.get_variable_to_shape_map() == original.get_variable_to_shape_map()
    assert written.get_variable_to_dtype_map() == original.get_variable_to_dtype_map()
    for name in original.get_variable_to_shape_map():
        np.testing.assert_array_equal(
            written.get_tensor(name), original.get_tensor(name)
        )


def test_a_tensorflow_1_saver_restores_our_checkpoint(tmp_path):
    weights = weights_of(MODELS["classifier"])
    prefix = write_weights(weights, str(tmp_path), "google")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variable = tf.compat.v1.get_variable("output_weights", [3, 16])
        tf.compat.v1.train.Saver([variable]).restore(session, prefix)
        np.testing.assert_array_equal(
            session.run(variable), weights.arrays["output_weights"]
        )


def test_a_missing_config_is_refused(tmp_path):
    weights = weights_of(MODELS["span"], config=None)
    with refused(r"source has no .*Give its path as bert_config_file"):
        write_weights(weights, str(tmp_path / "x"), "google")


def test_the_program_writes_a_google_checkpoint(tmp_path):
    source = HUGGING_FACE / "sequence_classification"
    command = [f"--from={source}", "--dialect=google"]
    done, encoder, wrong = run_main(
        "bert_tf.run_scripts.convert_checkpoint",
        [*command, f"--to={tmp_path}/g"],
        [*command, f"--to={tmp_path}/e", "--encoder_only"],
        ["--from=x", "--to=y", "--dialect=keras"],
    )
    assert done.code == encoder.code == 0, done
    assert "Greatest difference of the outputs on a fixed input: 0.0." in done.out
    names = dict(tf.train.list_variables(f"{tmp_path}/g/bert_model.ckpt"))
    assert names["output_weights"] == [3, 48]
    written = dict(tf.train.list_variables(f"{tmp_path}/e/bert_model.ckpt"))
    assert (
        written.keys()
        == {name for name in names if name.startswith("bert/")}
        < names.keys()
    )
    assert wrong.code == 2 and f"<{'|'.join(WRITABLE_DIALECTS)}>" in wrong.err
