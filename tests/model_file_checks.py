"""Inputs and expected values for the tests of TFLite and ONNX files."""

import functools

import export_models
import numpy as np
import tensorflow as tf

import bert_tf

TEXTS = ["a b c", "", "c " * 40, "h", "a b [MASK] c [MASK]", "zz é 猫", "e f\tg"]
# The difference of a probability, a logit or an element of a vector.
TOLERANCES = {"float32": 1e-4, "float16": 1e-2, "int8": 0.3}
OUTPUTS = {
    "classification": ("probabilities",), "pair": ("probabilities",),
    "multi_label": ("probabilities",), "regression": ("score",), "embedding": ("embedding",),
    "span": ("start_logits", "end_logits"), "tagging": ("logits",), "choice": ("score",),
    "fill_mask": ("masked_lm_logits", "next_sentence_logits"),
}  # fmt: skip


def random_inputs(length, seed=0):
    """Returns ids of one sequence, of which the last quarter is padding."""
    rng = np.random.default_rng(seed)
    mask = (np.arange(length) < max(1, length - length // 4)).astype(np.int32)[None]
    ids = rng.integers(5, len(export_models.VOCABULARY), [1, length]).astype(np.int32)
    segments = (np.arange(length) > length // 2).astype(np.int32)[None]
    return {"input_ids": ids * mask, "input_mask": mask, "segment_ids": segments * mask}


@functools.cache
def model_of(kind):
    model, _ = export_models.model_of(kind)
    return model


def expected_outputs(kind, inputs):
    """Returns the outputs of the Keras model, as a plain function of its logits."""
    if kind == "choice":
        inputs = {name: value[:, None] for name, value in inputs.items()}
    outputs = model_of(kind)(inputs, training=False)
    outputs = {
        name: np.array(value) for name, value in outputs.items() if tf.is_tensor(value)
    }
    if kind in ("classification", "pair"):
        return {"probabilities": export_models.softmax(outputs["logits"])}
    if kind == "multi_label":
        return {"probabilities": 1 / (1 + np.exp(-outputs["logits"]))}
    if kind in ("regression", "choice"):
        return {"score": outputs["logits"][:, 0]}
    if kind == "embedding":
        weights = inputs["input_mask"][..., None]
        mean = (outputs["sequence_output"] * weights).sum(axis=1) / weights.sum(axis=1)
        return {"embedding": mean / np.linalg.norm(mean, axis=-1, keepdims=True)}
    return outputs


def check_outputs(kind, found, inputs, precision):
    """Compares the outputs of a file for ids with those of the Keras model."""
    assert set(found) == set(OUTPUTS[kind])
    expected = expected_outputs(kind, inputs)
    for name, value in found.items():
        assert value.dtype == np.float32 and value.shape == expected[name].shape
        scale = max(1, np.abs(expected[name]).max())
        assert np.abs(value - expected[name]).max() <= TOLERANCES[precision] * scale, (
            name
        )


def check_predictions(found, expected, tolerance=1e-4):
    """Compares predictions.

    Numbers may differ by rounding, relative to those above 1.
    """
    if isinstance(expected, dict):
        assert set(found) == set(expected)
        found, expected = [found[each] for each in expected], list(expected.values())
    if isinstance(expected, (float, np.ndarray)):
        np.testing.assert_allclose(found, expected, atol=tolerance, rtol=tolerance)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            check_predictions(one, other, tolerance)
    else:
        assert found == expected


def check_predictor(path, saved, kind):
    """Compares the predictions of a file with those of a SavedModel."""
    columns = export_models.inputs_of(kind, TEXTS).values()
    expected = bert_tf.Predictor(saved)(*columns)
    check_predictions(bert_tf.Predictor(path, num_threads=1)(*columns), expected)
    check_predictions(bert_tf.Predictor(path, batch_size=1)(*columns), expected)
    assert bert_tf.Predictor(path)(*([] for _ in columns)) == []


def check_signature(path, saved, signature, columns):
    """Compares the predictions of a signature of a file with those of a SavedModel."""
    expected = bert_tf.Predictor(saved, signature=signature)(*columns)
    check_predictions(bert_tf.Predictor(path, signature=signature)(*columns), expected)
