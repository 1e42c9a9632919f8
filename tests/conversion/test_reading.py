"""Checkpoints of each format: outputs equal those of the program that wrote them."""

import dataclasses
import fnmatch
import inspect
import pathlib
import shutil
import sys
import types

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
    inputs_of,
)
from json_files import write_json
from refusals import refused
from tiny_bert import small_config

from bert_tf import modeling
from bert_tf.conversion import assign, read_weights
from bert_tf.pretrained import save_checkpoint
from bert_tf.storage import weights as our_folder
from bert_tf.training.lifecycle import run_state
from bert_tf.training.training_config import to_json_dict

MODELS = {
    "encoder": (modeling.BertEncoder, {"sequence_output": "last_hidden_state"}),
    "masked_lm": (modeling.BertPretrainer, {"masked_lm_logits": "logits"}),
    "multiple_choice": (modeling.BertMultipleChoice, {"logits": "logits"}),
    "pretraining": (
        modeling.BertPretrainer,
        {
            "masked_lm_logits": "prediction_logits",
            "next_sentence_logits": "seq_relationship_logits",
        },
    ),
    "question_answering": (
        modeling.BertSpanPredictor,
        {"start_logits": "start_logits", "end_logits": "end_logits"},
    ),
    "sequence_classification": (modeling.BertClassifier, {"logits": "logits"}),
    "token_classification": (modeling.BertTagger, {"logits": "logits"}),
}
MODELS["pretraining_gelu_new"] = MODELS["pretraining"]


def model_for(name, weights):
    kind = MODELS[name][0]
    if kind in (modeling.BertClassifier, modeling.BertTagger):
        return kind(weights.config, num_labels=len(weights.facts["labels"]))
    return kind(weights.config)


@pytest.mark.parametrize("name", MODELS)
def test_outputs_equal_those_of_transformers(name):
    folder = HUGGING_FACE / name
    expected = np.load(folder / "expected.npz")
    weights = read_weights(str(folder))
    model = model_for(name, weights)
    report = assign(model, weights)
    assert not report.unused
    assert not report.unknown
    outputs = model(inputs_of(expected))
    for key, hugging_face_key in MODELS[name][1].items():
        np.testing.assert_allclose(
            outputs[key], expected[hugging_face_key], atol=1e-5, err_msg=key
        )
    if "hidden_states" in expected.files:
        encoder = getattr(model, "bert", model)
        encoded = encoder(inputs_of(expected))
        states = [encoded["embedding_output"], *encoded["encoder_outputs"]]
        np.testing.assert_allclose(
            np.stack(states), expected["hidden_states"], atol=1e-5
        )
        if "pooler_output" in expected.files:
            np.testing.assert_allclose(
                encoded["pooled_output"], expected["pooler_output"], atol=1e-5
            )


@pytest.mark.parametrize("dialect", ["legacy", "encoder_v2"])
def test_outputs_equal_those_of_the_model_garden(dialect):
    folder = GOLDEN / "model_garden" / dialect
    expected = np.load(folder / "expected.npz")
    weights = read_weights(str(folder / "bert_model.ckpt"))
    assert not weights.unknown
    model = modeling.BertEncoder(weights.config)
    report = assign(model, weights)
    assert not report.missing
    outputs = model(inputs_of(expected))
    for name in ("sequence_output", "pooled_output"):
        np.testing.assert_allclose(outputs[name], expected[name], atol=1e-5)


@pytest.mark.parametrize(
    "path", ["init/bert_model.ckpt", "init/bert_model.ckpt.index", "init"]
)
def test_weights_equal_the_variables_of_a_google_checkpoint(path):
    prefix = GOOGLE / "init/bert_model.ckpt"
    weights = read_weights(str(GOOGLE / path))
    assert weights.global_step == 0
    assert not weights.unknown
    reader = tf.train.load_checkpoint(str(prefix))
    names = reader.get_variable_to_shape_map().keys() - {"global_step"}
    stored = {name: reader.get_tensor(name) for name in names if "adam_" not in name}
    assert_same_arrays(weights.arrays, stored)


def test_slots_and_step_of_a_google_checkpoint_are_read():
    weights = read_weights(str(GOOGLE / "step10"), slots=True)
    assert weights.global_step == 10
    assert len(weights.slots) == 2 * len(weights.arrays)


def test_old_names_shards_and_half_precision_are_read(tmp_path):
    """Tests gamma/beta, names without `bert.`, position_ids, float16 and shards."""
    source = HUGGING_FACE / "pretraining"
    tensors = safetensors.numpy.load_file(source / "model.safetensors")
    old = {}
    for name, array in tensors.items():
        name = name.replace("LayerNorm.weight", "LayerNorm.gamma")
        name = name.replace("LayerNorm.bias", "LayerNorm.beta").removeprefix("bert.")
        old[name] = array.astype(np.float16)
    old["embeddings.position_ids"] = np.arange(40)[None]
    old["cls.predictions.decoder.weight"] = old["embeddings.word_embeddings.weight"]
    old["cls.predictions.decoder.bias"] = old["cls.predictions.bias"]
    index = {"weight_map": write_shards(tmp_path, source, old)}
    write_json(tmp_path / "model.safetensors.index.json", index)
    weights = read_weights(str(tmp_path))
    reference = read_weights(str(source))
    assert not weights.unknown
    halves = {n: a.astype(np.float16) for n, a in reference.arrays.items()}
    assert_same_arrays(weights.arrays, halves)
    assert {array.dtype for array in weights.arrays.values()} == {np.dtype("f4")}


def write_shards(path, source, tensors) -> dict[str, str]:
    """Writes a config and two shards without an index.

    Returns the shard of each tensor.
    """
    shutil.copy(source / "config.json", path)
    names = sorted(tensors)
    shards = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for shard, shard_names in shards.items():
        safetensors.numpy.save_file({n: tensors[n] for n in shard_names}, path / shard)
    return {
        name: shard for shard, shard_names in shards.items() for name in shard_names
    }


def test_a_folder_of_tensorflow_1_may_be_moved(tmp_path, caplog):
    """The file `checkpoint` of a run has the paths of another machine."""
    run = GOLDEN / "google_classifier/step20"
    for name in ("model.ckpt-20", "model.ckpt-9"):
        for suffix in ("index", "data-00000-of-00001"):
            shutil.copy(run / f"model.ckpt-20.{suffix}", tmp_path / f"{name}.{suffix}")
    (tmp_path / "checkpoint").write_text(
        'model_checkpoint_path: "/home/me/run/model.ckpt-20"\n'
    )
    contents = read_weights(str(tmp_path))
    assert contents.source == f"{tmp_path}/model.ckpt-20"
    assert not caplog.text
    tf.train.latest_checkpoint(str(tmp_path))
    assert "Couldn't match files" in caplog.text  # what the user would see


def test_missing_foreign_and_damaged_checkpoints_are_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    tf.train.Checkpoint(v=tf.Variable(1.0)).write(str(tmp_path / "other"))
    (tmp_path / "cut.index").write_bytes(b"damaged")
    for name, message in {
        "bert_model.ckpt": "There is no checkpoint",
        "empty": "holds no checkpoint",
        "other": "not of a Model Garden BERT",
        "cut": "cannot be read as a TensorFlow checkpoint",
    }.items():
        with refused(message):
            read_weights(str(tmp_path / name))


def test_a_missing_head_is_reported_and_keeps_its_values():
    weights = read_weights(str(GOOGLE / "init"))
    model = modeling.BertClassifier(google_config(), num_labels=2)
    before = model.head.output_weights.numpy()
    report = assign(model, weights)
    assert report.missing == ("output_weights", "output_bias")
    assert "cls/predictions/output_bias" in report.unused
    assert "output_weights, output_bias" in str(report)
    np.testing.assert_array_equal(model.head.output_weights, before)


def test_a_different_shape_is_refused_and_nothing_is_assigned():
    weights = read_weights(str(GOOGLE / "init"))
    model = modeling.BertEncoder(google_config(vocab_size=121))
    before = model.embeddings.position_embeddings.numpy()
    with refused(r"\[120, 48\].*\[121, 48\]"):
        assign(model, weights)
    np.testing.assert_array_equal(model.embeddings.position_embeddings, before)


def test_too_few_layers_are_refused():
    weights = read_weights(str(GOOGLE / "init"))
    with refused("lacks weights of this"):
        assign(modeling.BertEncoder(google_config(num_hidden_layers=4)), weights)


def test_layers_are_selected_bit_for_bit(tmp_path):
    config = small_config(9, num_hidden_layers=3)
    model = modeling.BertClassifier(config, num_labels=2)
    save_checkpoint(model, None, tmp_path / "model", labels=["a", "b"])
    contents = read_weights(str(tmp_path / "model"))
    selected = contents.with_layers([2, 0])
    student = modeling.BertClassifier(selected.config, num_labels=2)
    assert selected.config == dataclasses.replace(config, num_hidden_layers=2)
    assert assign(student, selected).missing == ()
    of_teacher = {"layer_0/": "layer_2/", "layer_1/": "layer_0/"}
    for name, variable in modeling.variables_by_name(student).items():
        for own, old in of_teacher.items():
            if own in name:
                name = name.replace(own, old)
                break
        np.testing.assert_array_equal(
            variable.numpy(), contents.arrays[name], err_msg=name
        )
    with refused(r"has the block 3, but .* has the blocks 0 to 2"):
        contents.with_layers([0, 3])


def test_checkpoints_are_downloaded_from_the_hub(tmp_path, monkeypatch):
    """A fake replaces the module huggingface_hub, so the test needs no network."""
    requested = {}

    def download(name, revision, allow_patterns):
        requested.update(name=name, revision=revision, patterns=allow_patterns)
        return str(HUGGING_FACE / "encoder" if name == "google/bert" else tmp_path)

    client = types.SimpleNamespace(snapshot_download=download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", client)
    weights = read_weights("hf://google/bert@v1")
    assert (requested["name"], requested["revision"]) == ("google/bert", "v1")
    assert not any("bin" in pattern for pattern in requested["patterns"])
    assert weights.source == "hf://google/bert@v1"
    assert weights.config.hidden_size == 48
    with refused(r"hf://a/empty has no weights that can be"):
        read_weights("hf://a/empty")

    def fail(*arguments, **more):
        raise OSError("404: no such repository")

    monkeypatch.setattr(client, "snapshot_download", fail)
    with refused("hf://a/b cannot be downloaded: 404"):
        read_weights("hf://a/b")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with refused(r"pip install 'bert-tf\[hub\]'"):
        read_weights("hf://a/b")


@pytest.mark.parametrize("name", ["pytorch_model.bin", "tf_model.h5"])
def test_other_formats_are_downloaded_if_there_is_no_safetensors_file(
    name, tmp_path, monkeypatch, caplog
):
    requests = []

    def download(repository, revision, allow_patterns):
        requests.append(allow_patterns)
        if any(fnmatch.fnmatch(name, pattern) for pattern in allow_patterns):
            (tmp_path / name).touch()
        return str(tmp_path)

    client = types.SimpleNamespace(snapshot_download=download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", client)
    with refused(f"config.json, which .*{name} needs"):
        read_weights("hf://a/b@v1")
    assert len(requests) == (2 if name == "pytorch_model.bin" else 3)
    assert "hf://a/b@refs/pr/N" in caplog.text


def test_the_client_of_the_hub_has_the_parameters_that_we_use():
    hub = pytest.importorskip("huggingface_hub")
    parameters = inspect.signature(hub.snapshot_download).parameters
    assert {"revision", "allow_patterns"} <= parameters.keys()


def test_slots_of_our_training_checkpoints_are_read(tmp_path):
    google = read_weights(str(GOOGLE / "step10"), slots=True)
    folder = str(tmp_path / "model")
    config = google_config().to_dict()
    our_folder.write_into(folder, google.arrays, config, None, None, {"step": 10})
    assert read_weights(folder, slots=True).slots == {}
    safetensors.numpy.save_file(google.slots, f"{folder}/optimizer.safetensors")
    for name in (run_state.TRAINING_FILE, run_state.RUNTIME_FILE):
        pathlib.Path(folder, name).write_text("{}")
    with refused("is incomplete: a checkpoint of training has the file"):
        read_weights(folder)
    run_state.write_state(folder, to_json_dict(run_state.RunState(10)))
    assert read_weights(folder).slots == {}
    contents = read_weights(folder, slots=True)
    assert contents.global_step == 10
    assert contents.slots.keys() == google.slots.keys()


def test_the_casing_next_to_a_google_checkpoint_is_read(tmp_path):
    encoder = modeling.BertEncoder(google_config())
    path = save_checkpoint(encoder, None, tmp_path / "model", "google")
    file = tmp_path / "model/tokenizer_config.json"
    file.write_text('{"do_lower_case": false}')
    assert read_weights(path).do_lower_case is False
