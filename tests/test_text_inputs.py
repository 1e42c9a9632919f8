"""`TextInputs`: strings in functional models, `fit`, `.keras` files and SavedModels."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from golden_checkpoints import assert_same_arrays
from run_programs import run_mains
from tiny_bert import SPECIAL, small_config

import bert_tf

TEXTS = ["a film", "The film was good", "bad", "not bad"]
OTHERS = ["film", "was", "a good film", ""]
LABELS = np.array([0, 1, 0, 1])
VOCABULARY = [*SPECIAL, "a", "film", "the", "was", "good", "bad", "not", "##s"]
NAMES = {
    "input_ids": "input_word_ids",
    "input_mask": "input_mask",
    "segment_ids": "input_type_ids",
}


@pytest.mark.parametrize(("kind", "seq_length"), [("texts", 16), ("pairs", 10)])
def test_ids_equal_those_of_the_preprocessing_model_of_tensorflow_hub(
    test_data, kind, seq_length
):
    folder = test_data / "golden/foreign_checkpoints/tfhub/preprocess"
    expected = np.load(folder / "expected.npz")
    tokenizer = bert_tf.BertTokenizer(folder / "assets/vocab.txt", do_lower_case=True)
    texts = expected[kind]
    columns = texts if kind == "texts" else (texts[:, 0].tolist(), texts[:, 1].tolist())
    ids = bert_tf.TextInputs(tokenizer, seq_length)(columns)
    for name, other in NAMES.items():
        np.testing.assert_array_equal(ids[name], expected[f"{kind}_{other}"])


def text_classifier(number=1):
    """Returns a functional model of one text, or of pairs of texts."""
    texts = [keras.Input(shape=(), dtype="string") for _ in range(number)]
    tokenizer = bert_tf.BertTokenizer(VOCABULARY, do_lower_case=True)
    inputs = bert_tf.TextInputs(tokenizer, 12)(texts[0] if number == 1 else texts)
    without_dropout = {
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    config = small_config(len(VOCABULARY), num_hidden_layers=1, **without_dropout)
    classifier = bert_tf.BertClassifier(config, num_labels=2, seed=1)
    model = keras.Model(texts, classifier(inputs)["logits"])
    model.compile(
        keras.optimizers.Adam(0.01),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return model, classifier, tokenizer


@pytest.mark.parametrize(
    "form",
    [
        pytest.param(tf.constant, marks=pytest.mark.slow),
        pytest.param(lambda texts: np.array(texts, object), marks=pytest.mark.slow),
        lambda texts: tf.data.Dataset.from_tensor_slices((texts, LABELS)).batch(2),
    ],
    ids=["tensor", "numpy", "dataset"],
)
def test_fit_takes_texts(form):
    keras.utils.set_random_seed(1)  # `fit` shuffles
    model, classifier, tokenizer = text_classifier()
    data = form(TEXTS)
    targets = None if isinstance(data, tf.data.Dataset) else LABELS
    losses = model.fit(data, targets, epochs=8, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    outputs = classifier(tokenizer.encode(TEXTS, seq_length=12))["logits"]
    np.testing.assert_allclose(model.predict(tf.constant(TEXTS)), outputs, atol=1e-6)


def test_two_texts_in_a_list_are_a_batch():
    tokenizer = bert_tf.BertTokenizer(VOCABULARY)
    layer = bert_tf.TextInputs(tokenizer, 8)
    batch, pair = layer(TEXTS[:2]), layer((TEXTS, OTHERS))
    expected = tokenizer.encode(TEXTS[:2], seq_length=8)
    np.testing.assert_array_equal(batch["input_ids"], expected["input_ids"])
    expected = tokenizer.encode(TEXTS, OTHERS, seq_length=8)
    np.testing.assert_array_equal(pair["segment_ids"], expected["segment_ids"])


PREDICT = f"""
import sys, numpy, bert_tf, tensorflow

def run():
    assert "bert_tf.text_inputs" not in sys.modules
    model = bert_tf.load("model.keras")
    logits = model([tensorflow.constant({TEXTS}), tensorflow.constant({OTHERS})])
    numpy.save("logits.npy", logits)
"""


@pytest.mark.medium
def test_files_contain_the_tokenizer(tmp_path):
    """A new process calls nothing but `bert_tf.load`."""
    model, *_ = text_classifier(number=2)
    texts = [tf.constant(TEXTS), tf.constant(OTHERS)]
    expected = model(texts).numpy()

    model.save(tmp_path / "model.keras")
    (tmp_path / "load_and_predict.py").write_text(PREDICT)
    (result,) = run_mains([("load_and_predict", [])], cwd=tmp_path)
    assert not result.code, result
    np.testing.assert_array_equal(np.load(tmp_path / "logits.npy"), expected)

    model.export(str(tmp_path / "served"), verbose=False)
    served = tf.saved_model.load(str(tmp_path / "served"))
    np.testing.assert_allclose(served.serve(texts), expected, atol=1e-6)


@pytest.mark.parametrize(
    "settings", [(None, False), (False, False), (True, True)], ids=str
)
def test_the_config_restores_the_tokenizer(settings):
    layer = bert_tf.TextInputs(
        bert_tf.BertTokenizer(VOCABULARY, *settings), np.int64(9)
    )
    config = json.loads(json.dumps(layer.get_config()))
    restored = bert_tf.TextInputs.from_config(config)
    texts = ["The [MASK] FILM was good"]
    assert_same_arrays(restored(texts), layer(texts))


def test_a_length_without_place_for_the_special_tokens_is_refused():
    layer = bert_tf.TextInputs(bert_tf.BertTokenizer(VOCABULARY), 1)
    with pytest.raises(bert_tf.InputError, match="seq_length"):
        layer(TEXTS)
