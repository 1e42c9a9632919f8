"""Runs the program of docs/python.md in the present folder, and checks its results.

`documents/test_python_guide.py` starts this file with the Python of another
environment.
"""

import json
import logging
import runpy

import numpy as np

import bert_tf
from bert_tf import data_prep, run_scripts


def softmax(logits):
    exponentials = np.exp(logits - np.max(logits, -1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def main():
    messages = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: messages.append(record.getMessage())
    logging.getLogger("bert_tf").addHandler(handler)
    result = runpy.run_path("guide.py")
    assert "left as initialized: output_weights, output_bias" in messages[0]
    check_embeddings(result)
    check_training(result)
    check_saved_models(result)
    check_adapted_models(result)
    assert bert_tf.load("tuned").facts["dialect"] == "hugging_face"
    assert bert_tf.load("tuned_model").facts["labels"] == ["negative", "positive"]
    print(*(module.__file__ for module in (bert_tf, data_prep, run_scripts)))


def check_embeddings(result):
    inputs = result["tokenizer"].encode(["A good film.", "Too long."], seq_length=128)
    outputs = result["encoder"](inputs)
    np.testing.assert_allclose(result["pooled"], outputs["pooled_output"], atol=1e-5)
    for row, length in enumerate(
        (6, 5)
    ):  # [CLS] a good film . [SEP], and [CLS] too long . [SEP]
        expected = np.mean(outputs["sequence_output"][row, :length], axis=0)
        np.testing.assert_allclose(result["mean"][row], expected, atol=1e-5)


def check_training(result):
    assert len(result["history"].history["loss"]) == 20
    assert result["accuracy"] == 1  # 40 steps are enough to learn the eight sentences
    best = np.argmax(result["probabilities"], axis=-1)
    assert best.tolist() == result["labels"]
    likelihoods = np.array(result["probabilities"])[range(8), result["labels"]]
    np.testing.assert_allclose(
        result["loss_value"], -np.log(likelihoods).mean(), rtol=1e-3
    )


def check_saved_models(result):
    assert result["restored"].optimizer.iterations == 40
    tokenizer, classifier = result["tokenizer"], result["classifier"]
    inputs = tokenizer.encode(["A wonder.", "No sense."], seq_length=32)
    logits = classifier(inputs)["logits"]
    assert np.abs(logits).max() > 1
    for model in (result["restored"], result["copy"]):
        np.testing.assert_allclose(model(inputs)["logits"], logits, atol=1e-5)
    found = result["answers"]["probabilities"]
    np.testing.assert_allclose(found, softmax(np.array(logits)), atol=1e-5)
    best = [result["names"][i].encode() for i in np.argmax(logits, axis=-1)]
    assert result["answers"]["label"].numpy().tolist() == best
    assert result["folder"] == "served/1"
    pooled = result["encoder"](tokenizer.encode(["A wonder."], seq_length=32))[
        "pooled_output"
    ]
    np.testing.assert_allclose(result["vectors"], pooled, atol=1e-5)
    with open("for_transformers/config.json") as file:
        assert json.load(file)["id2label"] == {"0": "negative", "1": "positive"}
    for name in ("weights", "for_transformers", "for_google_bert"):
        saved = bert_tf.load(name)
        assert saved.tokenizer.vocabulary == tokenizer.vocabulary
        np.testing.assert_array_equal(
            saved.weights["output_bias"], classifier.head.output_bias
        )


def check_adapted_models(result):
    adapted, original = result["adapted"], result["checkpoint"].weights
    blocks = adapted.bert.blocks
    path = bert_tf.save_checkpoint(adapted, result["tokenizer"], "adapted")
    saved = bert_tf.load(path).weights
    assert len(adapted.trainable_variables) == len(blocks) * 2 * 2 + 2
    for i, block in enumerate(blocks):
        layer = block.attention.query
        name = f"bert/encoder/layer_{i}/attention/self/query/kernel"
        np.testing.assert_array_equal(layer.kernel, original[name])
        update = np.matmul(layer.lora_kernel_a, layer.lora_kernel_b)
        assert np.abs(update).max() > 1e-5
        np.testing.assert_allclose(saved[name], original[name] + update, atol=1e-6)
    assert not result["classifier"].bert.embeddings.trainable_variables
    assert result["ratings"].shape == (8, 1)
    assert 0 < np.min(result["ratings"]) < np.max(result["ratings"]) < 1


if __name__ == "__main__":
    main()
