"""Inputs and expected values for the tests of TFLite and ONNX files."""

import dataclasses
import functools
import json
import pathlib
import zipfile
from collections.abc import Callable

import export_models
import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.export.formats import FORMATS

TEXTS = ["a b c", "", "c " * 40, "h", "a b [MASK] c [MASK]", "zz é 猫", "e f\tg"]
# The difference of a probability, a logit or an element of a vector.
TOLERANCES = {"float32": 1e-4, "float16": 1e-2, "int8": 0.3}
OUTPUTS = {
    "classification": ("probabilities",),
    "pair": ("probabilities",),
    "multi_label": ("probabilities",),
    "regression": ("score",),
    "embedding": ("embedding",),
    "span": ("start_logits", "end_logits"),
    "tagging": ("logits",),
    "choice": ("score",),
    "fill_mask": ("masked_lm_logits", "next_sentence_logits"),
}


@dataclasses.dataclass(frozen=True)
class FileFormat:
    """The functions with which tests run the files of a format.

    Attributes:
        precisions: Returns the precisions of the files of a kind of model.
        shapes: The numbers of tokens and rows of the inputs.
        runner: Returns the function of a file, which takes inputs by name.
        texts: Returns the texts in a file, by name.
        format: The format of the export that contains the files.
    """

    precisions: Callable
    shapes: tuple
    runner: Callable
    texts: Callable
    format: str


def lite_runner(path):
    from ai_edge_litert import interpreter

    run = interpreter.Interpreter(path).get_signature_runner()
    return lambda inputs: run(**inputs)


def lite_texts(path):
    with zipfile.ZipFile(path) as archive:
        stored = [each.compress_type for each in archive.infolist()]
        assert set(stored) == {zipfile.ZIP_STORED}
        return {name: archive.read(name) for name in archive.namelist()}


def session_of(model):
    """Returns an ONNX file, or the bytes of one, in ONNX Runtime."""
    import onnxruntime

    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])


def onnx_runner(path):
    session = session_of(path)
    names = [each.name for each in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(None, inputs), strict=True))


def onnx_texts(path):
    import onnx

    entries = onnx.load(path).metadata_props
    return {each.key: each.value.encode() for each in entries}


# TFLite files take one row.
FILES = {
    "tflite": FileFormat(
        export_models.lite_precisions,
        ((1, 1), (2, 1), (7, 1), (12, 1), (16, 1), (7, 1)),
        lite_runner,
        lite_texts,
        "both",
    ),
    "onnx": FileFormat(
        lambda _: FORMATS["onnx"].precisions,
        ((1, 1), (2, 3), (7, 1), (12, 2), (16, 4)),
        onnx_runner,
        onnx_texts,
        "onnx",
    ),
}


@functools.cache
def saved_model(version):
    """Loads a SavedModel of the fixture `exported`, once in each process."""
    return tf.saved_model.load(version)


@functools.cache
def predictor(path, **options):
    """Returns the predictor of a file or folder of the fixture `exported`."""
    return bert_tf.Predictor(path, **options)


def need_packages(name):
    """Skips a test if the packages of a format are not installed."""
    for package in FORMATS[name].to_write:
        pytest.importorskip(package, exc_type=ImportError)


def path_of(exported, name, kind, precision="float32"):
    """Returns the path of a file of an export; see the fixture `exported`."""
    folder = exported(kind, FILES[name].format)
    return f"{folder}/{name}/{precision}.{name}"


def report_of(version):
    """Returns the report of an export."""
    return json.loads(extra_file(version, "export_report.json"))


def extra_file(version, name):
    """Returns the text of a file in the folder assets.extra of an export."""
    return pathlib.Path(version, "assets.extra", name).read_text("utf-8")


def batch_of(length, size):
    """Returns ids of sequences, each of which ends with padding."""
    rows = [random_inputs(length, length + row) for row in range(size)]
    return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}


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
    expected = predictor(saved)(*columns)
    for options in ({"num_threads": 1}, {"batch_size": 1}):
        check_predictions(predictor(path, **options)(*columns), expected)
    assert predictor(path)(*([] for _ in columns)) == []
