"""The models compared with google-research/bert: outputs, losses and all gradients."""

import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.modeling import (
    BertClassifier,
    BertPretrainer,
    BertSpanPredictor,
    variables_by_name,
)

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
INPUTS = ("input_ids", "input_mask", "segment_ids")


def load(model: keras.Model, prefix) -> None:
    reader = tf.train.load_checkpoint(str(prefix))
    for name, variable in variables_by_name(model).items():
        variable.assign(reader.get_tensor(name))


def batch(trajectory, step: int, names) -> dict:
    return {name: tf.constant(trajectory[name][step]) for name in names}


@pytest.fixture(scope="module")
def config():
    return BertConfig.from_json(
        (GOLDEN / "google_pretraining/bert_config.json").read_text()
    )


@pytest.fixture(scope="module")
def pretrainer(config):
    model = BertPretrainer(config)
    load(model, GOLDEN / "google_pretraining/init/bert_model.ckpt")
    return model


@pytest.fixture(scope="module")
def pretraining_batch():
    trajectory = np.load(GOLDEN / "google_pretraining/trajectory.npz")
    names = (
        "masked_lm_positions",
        "masked_lm_ids",
        "masked_lm_weights",
        "next_sentence_labels",
    )
    return batch(trajectory, 0, INPUTS + names)


def pretraining_losses(model, inputs):
    outputs = model(inputs, training=True)
    log_probs = tf.nn.log_softmax(outputs["masked_lm_logits"])
    weights = inputs["masked_lm_weights"]
    picked = -tf.gather(log_probs, inputs["masked_lm_ids"], batch_dims=2)
    masked_lm = tf.reduce_sum(picked * weights) / (tf.reduce_sum(weights) + 1e-5)
    next_sentence = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(
            inputs["next_sentence_labels"][:, 0], outputs["next_sentence_logits"]
        )
    )
    return masked_lm, next_sentence


def test_outputs_of_the_pretraining_model(pretrainer, pretraining_batch):
    expected = np.load(GOLDEN / "google_pretraining/forward.npz")
    encoded = pretrainer.bert(pretraining_batch)
    for name in ("embedding_output", "sequence_output", "pooled_output"):
        np.testing.assert_allclose(encoded[name], expected[name], atol=1e-5)
    np.testing.assert_allclose(
        np.stack(encoded["encoder_outputs"]), expected["encoder_layers"], atol=1e-5
    )
    outputs = pretrainer(pretraining_batch)
    log_probs = tf.nn.log_softmax(outputs["masked_lm_logits"])
    np.testing.assert_allclose(
        tf.reshape(log_probs, [-1, log_probs.shape[-1]]),
        expected["mlm_log_probs"],
        atol=1e-5,
    )
    log_probs = tf.nn.log_softmax(outputs["next_sentence_logits"])
    np.testing.assert_allclose(log_probs, expected["nsp_log_probs"], atol=1e-5)
    masked_lm, next_sentence = pretraining_losses(pretrainer, pretraining_batch)
    np.testing.assert_allclose(masked_lm, expected["mlm_loss"], atol=1e-5)
    np.testing.assert_allclose(next_sentence, expected["nsp_loss"], atol=1e-5)


@pytest.mark.parametrize(
    "compiled", ["eager", "graph", pytest.param("xla", marks=pytest.mark.medium)]
)
def test_gradients_of_the_pretraining_model(pretrainer, pretraining_batch, compiled):
    expected = np.load(GOLDEN / "google_pretraining/forward.npz")
    variables = variables_by_name(pretrainer)

    def gradients(inputs):
        with tf.GradientTape() as tape:
            loss = tf.add(*pretraining_losses(pretrainer, inputs))
        found = tape.gradient(loss, [variable.value for variable in variables.values()])
        return [tf.convert_to_tensor(gradient) for gradient in found]

    if compiled != "eager":
        gradients = tf.function(gradients, jit_compile=compiled == "xla")
    names = [
        key.removeprefix("grad:") for key in expected.files if key.startswith("grad:")
    ]
    assert list(variables) == names
    for name, gradient in zip(names, gradients(pretraining_batch), strict=True):
        expected_gradient = expected[f"grad:{name}"]
        # The exact gradient of a key bias is 0, so both values are rounding errors.
        tolerance = 1e-4 * np.abs(expected_gradient).max() + 1e-6
        np.testing.assert_allclose(
            gradient, expected_gradient, atol=tolerance, rtol=0, err_msg=name
        )


def test_outputs_and_loss_of_the_classifier(config):
    trajectory = np.load(GOLDEN / "google_classifier/trajectory.npz")
    model = BertClassifier(config, num_labels=3, classifier_dropout=0.0)
    load(model, GOLDEN / "google_classifier/init/model.ckpt")
    inputs = batch(trajectory, 0, (*INPUTS, "label_ids"))
    logits = model(inputs, training=True)["logits"]
    np.testing.assert_allclose(logits, trajectory["first_batch_logits"], atol=1e-5)
    np.testing.assert_allclose(
        tf.nn.softmax(logits), trajectory["first_batch_probabilities"], atol=1e-5
    )
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(inputs["label_ids"], logits)
    np.testing.assert_allclose(
        tf.reduce_mean(losses), trajectory["losses"][0], atol=1e-5
    )


def test_outputs_of_the_span_predictor(config):
    trajectory = np.load(GOLDEN / "google_squad/trajectory.npz")
    model = BertSpanPredictor(config)
    load(model, GOLDEN / "google_squad/init/model.ckpt")
    outputs = model(batch(trajectory, 0, INPUTS), training=True)
    for name in ("start_logits", "end_logits"):
        np.testing.assert_allclose(
            outputs[name], trajectory[f"first_batch_{name}"], atol=1e-5
        )
