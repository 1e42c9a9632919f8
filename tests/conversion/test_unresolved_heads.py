"""Heads of Hugging Face folders that have other layers, or whose kind is unknown."""

import shutil

import numpy as np
import pytest
import safetensors.numpy
from golden_checkpoints import HUGGING_FACE, assert_same_arrays, inputs_of
from json_files import edit_json
from refusals import refused

from bert_tf import modeling
from bert_tf.conversion import assign, convert, read_weights, write_weights

HEADS = {
    "sequence_classification": (modeling.BertClassifier, {"num_labels": 3}),
    "token_classification": (modeling.BertTagger, {"num_labels": 5}),
    "multiple_choice": (modeling.BertMultipleChoice, {}),
}
# Values of `architectures` that do not name exactly one of the three classes.
AMBIGUOUS = [
    None, ["MyClassifier"], ["BertForSequenceClassification",
    "BertForTokenClassification"],
]  # fmt: skip


def copy(name, path, **changes) -> str:
    """Copies a folder that transformers wrote, and changes `config.json`.

    None removes a key.
    """
    shutil.copytree(HUGGING_FACE / name, path)
    edit_json(path / "config.json", **changes)
    return str(path)


@pytest.mark.parametrize(("name", "architectures"), zip(HEADS, AMBIGUOUS, strict=True))
def test_the_model_decides_which_head_an_ambiguous_folder_has(
    tmp_path, name, architectures
):
    contents = read_weights(
        copy(name, tmp_path / "source", architectures=architectures)
    )
    assert contents.classifier.keys() == {"classifier.weight", "classifier.bias"}
    assert not any(
        head in contents.arrays for head in ("output_weights", "cls/tagger/output_bias")
    )
    model_class, sizes = HEADS[name]
    model = model_class(contents.config, **sizes, seed=0)
    report = assign(model, contents)
    assert not report.unused and not report.unknown
    expected = np.load(HUGGING_FACE / name / "expected.npz")
    logits = model(inputs_of(expected))["logits"]
    np.testing.assert_allclose(logits, expected["logits"], atol=1e-5)


def test_one_of_the_three_classes_among_the_architectures_decides(tmp_path):
    architectures = ["BertForMaskedLM", "BertForTokenClassification"]
    source = copy(
        "token_classification", tmp_path / "source", architectures=architectures
    )
    contents = read_weights(source)
    assert contents.classifier == {}
    assert contents.arrays["cls/tagger/output_weights"].shape == (5, 48)


@pytest.mark.parametrize("dialect", ["google", "hugging_face", "bert-tf"])
def test_an_ambiguous_head_is_not_written(tmp_path, dialect):
    source = copy("token_classification", tmp_path / "source", architectures=None)
    message = (
        r"source/config.json does not tell the kind of the head .*encoder_only=True"
    )
    with refused(message):
        convert(source, str(tmp_path / "out"), dialect)
    assert not (tmp_path / "out").exists()
    convert(source, str(tmp_path / "out"), dialect, encoder_only=True)
    written = read_weights(str(tmp_path / "out"))
    assert {name.split("/")[0] for name in written.arrays} == {"bert"}
    assert (written.classifier, written.facts) == ({}, {})
    assert_same_arrays(written.arrays, read_weights(source).arrays)


def with_decoder(path, end="weight", offset=1, name="pretraining") -> str:
    """Adds the tensor that transformers writes for an untied decoder."""
    source = copy(name, path, tie_word_embeddings=False)
    tensors = safetensors.numpy.load_file(path / "model.safetensors")
    tied = {
        "weight": "bert.embeddings.word_embeddings.weight",
        "bias": "cls.predictions.bias",
    }
    tensors[f"cls.predictions.decoder.{end}"] = tensors[tied[end]] + offset
    safetensors.numpy.save_file(tensors, path / "model.safetensors")
    return source


def test_the_encoder_of_an_untied_masked_lm_is_read(tmp_path):
    contents = read_weights(with_decoder(tmp_path / "source", "bias"))
    assert not contents.unknown
    encoder = modeling.BertEncoder(contents.config, seed=0)
    assert not assign(encoder, contents).missing
    expected = np.load(HUGGING_FACE / "pretraining/expected.npz")
    last = encoder(inputs_of(expected))["encoder_outputs"][-1]
    np.testing.assert_allclose(last, expected["hidden_states"][-1], atol=1e-5)


def test_a_masked_lm_is_not_filled_from_an_untied_one(tmp_path):
    contents = read_weights(with_decoder(tmp_path / "source"))
    model = modeling.BertPretrainer(contents.config, seed=0)
    before = modeling.arrays_by_name(model)
    with refused(r"source has a masked LM .* not tied .* BertPretrainer"):
        assign(model, contents)
    assert_same_arrays(modeling.arrays_by_name(model), before)


def test_an_untied_masked_lm_is_not_written(tmp_path):
    source = with_decoder(tmp_path / "source", name="masked_lm")
    with refused(r"not tied to the word embeddings.*encoder_only=True"):
        write_weights(read_weights(source), str(tmp_path / "out"), "bert-tf")
    report = convert(source, str(tmp_path / "out"), "bert-tf", encoder_only=True)
    assert "Greatest difference of the outputs on a fixed input: 0.0." in report
    written = read_weights(str(tmp_path / "out"))
    assert written.tied_masked_lm
    report = assign(modeling.BertPretrainer(written.config, seed=0), written)
    assert "cls/predictions/output_bias" in report.missing


@pytest.mark.parametrize("end", ["weight", "bias"])
def test_equal_copies_are_tied_whatever_config_json_contains(tmp_path, end):
    contents = read_weights(with_decoder(tmp_path / "source", end, offset=0))
    assert contents.tied_masked_lm
    report = assign(modeling.BertPretrainer(contents.config), contents)
    assert not report.missing and not report.unused and not report.unknown
