"""`load` and `save_checkpoint`: the way of a model through the library."""

import inspect
import logging
import os
import re

import numpy as np
import pytest
from golden_checkpoints import assert_close_arrays, assert_same_arrays
from json_files import read_json
from refusals import refused
from run_programs import run_python
from tiny_bert import SPECIAL, small_config

import bert_tf
from bert_tf.conversion import read_weights
from bert_tf.modeling import variables_by_name

VOCABULARY = [*SPECIAL, "Ab", "a", "##b", "c", "."]
CONFIG = small_config(10, intermediate_size=12, initializer_range=0.5)
LABELS = ["no", "yes", "perhaps"]


@pytest.fixture(scope="module")
def tokenizer():
    return bert_tf.BertTokenizer(VOCABULARY, do_lower_case=False)


@pytest.fixture(scope="module")
def classifier(tokenizer):
    """A classifier that `fit` trained for two steps."""
    model = bert_tf.BertClassifier(CONFIG, num_labels=3, seed=1)
    model.compile("sgd", loss={"logits": "mse"})
    inputs = tokenizer.encode(["Ab c", "a .", "c", "b"], seq_length=8)
    model.fit(inputs, {"logits": np.eye(4, 3)}, batch_size=2, verbose=0)
    return model


def outputs(model, tokenizer):
    inputs = tokenizer.encode(["Ab c . a", "", "c c c"], seq_length=8)
    return {name: np.asarray(value) for name, value in model(inputs).items()}


def test_import_of_the_package_imports_nothing_slow():
    code = (
        "import sys, bert_tf\n"
        "slow = {'tensorflow', 'keras', 'numpy', 'absl'} & set(sys.modules)\n"
        "assert not slow, slow\n"
        "assert set(bert_tf.__all__) <= set(dir(bert_tf))\n"
    )
    run_python("-c", code)


def test_every_public_name_is_documented():
    for name in bert_tf.__all__:
        value = getattr(bert_tf, name)
        text = inspect.getdoc(value) or ""
        arguments = inspect.signature(value).parameters if text else {"docstring"}
        missing = [
            each
            for each in arguments
            if each not in ("args", "kwargs") and not re.search(rf"\b{each}\b.*:", text)
        ]
        assert not missing, name
    with pytest.raises(AttributeError, match="has no attribute 'BertForEverything'"):
        _ = bert_tf.BertForEverything


@pytest.mark.parametrize("dialect", ["bert-tf", "hugging_face", "google"])
def test_a_model_from_fit_is_saved_and_loaded_in_each_dialect(
    classifier, tokenizer, dialect, tmp_path, caplog
):
    path = bert_tf.save_checkpoint(
        classifier, tokenizer, str(tmp_path / "model"), dialect, labels=LABELS
    )
    with caplog.at_level(logging.INFO, "bert_tf"):
        loaded = bert_tf.load(path)
        model = loaded.model(bert_tf.BertClassifier)
    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert loaded.config.to_dict() == CONFIG.to_dict()
    assert loaded.facts["dialect"] == dialect
    assert loaded.facts.get("labels") == (None if dialect == "google" else LABELS)
    assert loaded.tokenizer.vocabulary == VOCABULARY
    assert loaded.tokenizer.do_lower_case is False
    assert len(repr(loaded)) < 2000
    assert_same_arrays(loaded.weights, variables_by_name(classifier))
    expected = outputs(classifier, tokenizer)
    assert_close_arrays(outputs(model, loaded.tokenizer), expected, 1e-6)


def test_labels_may_be_numbers_and_stay_with_the_head(classifier, tokenizer, tmp_path):
    path = bert_tf.save_checkpoint(
        classifier, tokenizer, tmp_path / "model", labels=[0, 1, 2]
    )
    loaded = bert_tf.load(path)
    assert loaded.facts["labels"] == ["0", "1", "2"]
    model = loaded.model(bert_tf.BertClassifier)
    inputs = tokenizer.encode(["Ab c", "a ."], seq_length=8)
    model.compile("sgd", loss={"logits": "mse"})
    model.fit(inputs, {"logits": np.eye(2, 3)}, verbose=0)
    saved = bert_tf.save_checkpoint(
        model, tokenizer, tmp_path / "hf", dialect="hugging_face"
    )
    labels = read_json(tmp_path / "hf/config.json")["id2label"]
    assert labels == {"0": "0", "1": "1", "2": "2"}
    # Given values replace those that the model was loaded with.
    facts = {"labels": LABELS, "pair": True, "task_type": "multi_label"}
    facts["max_seq_length"] = 12
    path = bert_tf.save_checkpoint(model, tokenizer, tmp_path / "pair", **facts)
    model = bert_tf.load(path).model(bert_tf.BertClassifier)
    path = bert_tf.save_checkpoint(model, tokenizer, tmp_path / "same")
    stated = bert_tf.load(path).facts
    assert facts.items() <= stated.items()
    other = bert_tf.load(saved).model(bert_tf.BertTagger, num_labels=3)
    path = bert_tf.save_checkpoint(other, None, tmp_path / "n")
    assert "labels" not in bert_tf.load(path).facts


def test_a_name_of_the_hub_is_suggested(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("bert-base-uncased", "owner/model.v1"):
        with refused(f"hub, give hf://{name}"):
            bert_tf.load(name)
    with refused(r"exists\.$"):
        bert_tf.load("/models/a/b")


def test_a_new_head_is_reported(classifier, tokenizer, tmp_path, caplog):
    path = bert_tf.save_checkpoint(classifier, tokenizer, str(tmp_path / "model"))
    loaded = bert_tf.load(path)
    model = loaded.model(bert_tf.BertSpanPredictor, dtype="mixed_bfloat16", seed=3)
    assert model.dtype_policy.name == "mixed_bfloat16"
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert (
        "left as initialized: cls/squad/output_weights, cls/squad/output_bias"
        in record.message
    )
    assert "not in the model: output_bias, output_weights" in record.message


def test_num_labels_is_that_of_the_head(classifier, tokenizer, tmp_path):
    path = bert_tf.save_checkpoint(classifier, tokenizer, tmp_path / "model")
    assert bert_tf.load(path).model(bert_tf.BertClassifier).num_labels == 3
    with refused(r"\[3, 8\] .* but \[2, 8\] in the model.*encoder_on"):
        bert_tf.load(path).model(bert_tf.BertClassifier, num_labels=2)
    with refused("BertTagger needs num_labels"):
        bert_tf.load(path).model(bert_tf.BertTagger)


@pytest.mark.slow
def test_a_trained_model_of_keras_is_loaded_in_a_new_process(
    classifier, tokenizer, tmp_path
):
    schedule = bert_tf.WarmupSchedule(1e-3, num_train_steps=10, num_warmup_steps=2)
    classifier.compile(bert_tf.AdamWeightDecay(schedule), loss={"logits": "mse"})
    inputs = tokenizer.encode(["Ab c", "a ."], seq_length=8)
    classifier.fit(inputs, {"logits": np.eye(2, 3)}, verbose=0)
    classifier.save(tmp_path / "model.keras")
    code = (
        "import bert_tf\n"
        f"model = bert_tf.load({str(tmp_path / 'model.keras')!r})\n"
        "print(type(model.optimizer).__name__, int(model.optimizer.iterations))\n"
    )
    assert run_python("-c", code).stdout == "AdamWeightDecay 1\n"


def test_a_model_file_of_keras_is_not_a_checkpoint(classifier, tmp_path):
    classifier.save(tmp_path / "model.keras")
    with refused(r"Load it with bert_tf\.load"):
        read_weights(str(tmp_path / "model.keras"))
    classifier.save(tmp_path / "tf_model.h5")
    for path in (tmp_path, tmp_path / "tf_model.h5"):
        with refused(r"tf_model\.h5 is a model that Keras saved in its old format"):
            bert_tf.load(path)
    (tmp_path / "tf_model.h5").write_text(
        "version https://git-lfs.github.com/spec/v1\n"
    )
    with refused(r"tf_model\.h5 is a pointer of Git LFS.*git lfs pull"):
        bert_tf.load(tmp_path / "tf_model.h5")
    os.truncate(tmp_path / "model.keras", 1000)
    with refused(r"model\.keras cannot be read as a zip file"):
        bert_tf.load(tmp_path / "model.keras")


@pytest.mark.parametrize("place", ["", "ram://"])
def test_paths_with_the_characters_of_globs(classifier, tokenizer, tmp_path, place):
    """TensorFlow reads the paths of its checkpoints and SavedModels as globs."""
    folder = f"{place}{tmp_path}/lr=[1e-5]\\b"
    for dialect in ("google", "hugging_face", "bert-tf"):
        path = bert_tf.save_checkpoint(
            classifier, tokenizer, f"{folder}/{dialect}[2]", dialect, labels=LABELS
        )
        loaded = bert_tf.load(path)
        assert loaded.facts["source"].startswith(folder)
        np.testing.assert_array_equal(
            loaded.weights["output_weights"],
            variables_by_name(classifier)["output_weights"],
        )


@pytest.mark.slow
def test_models_are_exported_and_loaded_where_paths_have_the_characters_of_globs(
    classifier, tokenizer, tmp_path
):
    settings = bert_tf.ServingSettings(format="both", tflite_precisions=["float32"])
    bert_tf.export_model(
        classifier, tokenizer, tmp_path / "lr=[1e-5]", labels=LABELS, settings=settings
    )
    os.rename(tmp_path / "lr=[1e-5]", tmp_path / "a\\b")
    expected = bert_tf.Predictor(tmp_path / "a\\b")("Ab c")
    os.rename(tmp_path / "a\\b", tmp_path / "plain")
    assert bert_tf.Predictor(tmp_path / "plain")("Ab c") == expected


def test_random_weights_need_a_config_and_a_vocabulary(tmp_path):
    (tmp_path / "bert_config.json").write_text(CONFIG.to_json())
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY))
    with refused("The architecture is unknown"):
        bert_tf.load(None)
    new = bert_tf.load(None, bert_config_file=str(tmp_path / "bert_config.json"))
    assert (new.weights, new.facts, new.has_vocabulary) == ({}, {}, False)
    assert new.model(bert_tf.BertEncoder).config == CONFIG
    with refused("The vocabulary is unknown"):
        _ = new.tokenizer
    with refused("There are no weights to assign"):
        new.assign(bert_tf.BertEncoder(CONFIG))
    known = bert_tf.load(
        None,
        bert_config_file=str(tmp_path / "bert_config.json"),
        vocab_file=str(tmp_path / "vocab.txt"),
    )
    assert known.tokenizer.do_lower_case is True


@pytest.mark.parametrize("dialect", ["bert-tf", "hugging_face", "google"])
def test_a_model_that_cannot_be_read_back_replaces_nothing(
    classifier, tokenizer, tmp_path, dialect
):
    path = bert_tf.save_checkpoint(classifier, tokenizer, tmp_path / "model", dialect)
    folder = tmp_path / "model"
    before = {each.name: each.read_bytes() for each in folder.iterdir()}
    bias = classifier.head.output_bias
    bias.assign([np.nan, 0, 0])
    with refused("the model has NaN or infinite values in output_bias"):
        bert_tf.save_checkpoint(classifier, tokenizer, folder, dialect)
    bias.assign([0, 0, 0])
    if dialect != "bert-tf":  # these strip white space from tokens
        tokens = [*tokenizer.vocabulary[:-1], "x\xa0"]
        other = bert_tf.BertTokenizer(tokens, do_lower_case=False)
        with refused(r"cannot store the vocabulary .* 'x\\xa0'"):
            bert_tf.save_checkpoint(classifier, other, folder, dialect)
    assert {each.name: each.read_bytes() for each in folder.iterdir()} == before
    bert_tf.load(path)


def test_models_and_facts_that_cannot_be_read_back_are_not_saved(
    classifier, tokenizer, tmp_path
):
    other = bert_tf.BertTokenizer(VOCABULARY + [f"t{i}" for i in range(200)])
    cases = [
        (classifier, tokenizer, {"labels": LABELS[:2]}, "labels must be a list of 3"),
        (classifier, tokenizer, {"labels": [0, 1, 1]}, "Received: '1' for 2"),
        (classifier, tokenizer, {"labels": "abc"}, "Received: 'abc'"),
        (classifier, tokenizer, {"labels": ["a\tb", "c", "d"]},
         "one different label in one line for each output"),
        (classifier, tokenizer, {"threshold": 1.5},
         "threshold must be above 0 and below 1. Received: 1.5"),
        (classifier, tokenizer, {"embedding": {"x": 1}},
         "The fact embedding may have the keys pooling, .* Received: x"),
        (classifier, tokenizer, {"dialect": "torch"}, "dialect must be one of"),
        (classifier.bert, tokenizer, {"labels": LABELS}, "has no outputs for labels"),
        (classifier, other, {}, "has 210 entries"),
    ]  # fmt: skip
    for model, given, arguments, message in cases:
        with refused(message):
            bert_tf.save_checkpoint(model, given, tmp_path / "model", **arguments)
        assert not (tmp_path / "model").exists()


def test_a_released_size_takes_its_vocab_size_from_the_vocabulary(
    tmp_path, monkeypatch
):
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    config = bert_tf.load(
        None, bert_config_file="tiny", vocab_file=tmp_path / "vocab.txt"
    ).config
    assert config == bert_tf.BertConfig.named("tiny", vocab_size=10)
    with refused("bert_config_file=tiny needs vocab_file"):
        bert_tf.load(None, bert_config_file="tiny")
    # A file of this name has precedence.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny").write_text(CONFIG.to_json())
    assert bert_tf.load(None, bert_config_file="tiny").config == CONFIG
