"""The signatures of all kinds of exported models: names, dtypes, shapes, checks."""

import export_models
import numpy as np
import pytest
import tensorflow as tf
from export_models import call
from model_file_checks import saved_model

from bert_tf.export.served import load_served
from bert_tf.export.served.tensor_operations import checked_ids
from bert_tf.export.signature_requests import serialized_example
from bert_tf.pretrained import load

TEXTS = [b"a b c", b"", b"Abc d\xc3\xa9fg h zzz", b"a " * 150, b"caf\xe9 \xff"]
# The signatures in addition to serving_default, ids and ids_lengths.
FURTHER = {
    "classification": {"classify"}, "pair": {"classify"}, "multi_label": {"classify"},
    "regression": {"regress"}, "fill_mask": {"next_sentence", "score"},
    "tagging": {"words"},
}  # fmt: skip
# The dtype, the rank and the names of the outputs.
OUTPUTS = {
    "classification": ["float32 2 probabilities", "string 1 label"],
    "pair": ["float32 2 probabilities", "string 1 label"],
    "multi_label": ["float32 2 probabilities", "string 1 labels"],
    "regression": ["float32 1 score"],
    "span": [
        "string 1 answer",
        "int32 1 start end",
        "float32 1 score probability null_score_diff",
        "bool 1 no_answer",
    ],
    "tagging": [
        "string 2 words tags entities entity_types",
        "int32 2 start end entity_start entity_end",
        "float32 2 probabilities",
    ],
    "choice": [
        "float32 2 probabilities",
        "int32 2 ranking",
        "string 1 choice",
        "int32 1 index",
    ],
    "fill_mask": ["string 3 tokens", "float32 3 probabilities", "int32 1 num_masks"],
    "embedding": ["float32 2 embedding"],
}
IDS = ["input_ids", "input_mask", "segment_ids"]


@pytest.fixture(scope="module", params=export_models.with_tiers())
def served(request, exported):
    """The kind, the model in memory, and the signatures of the SavedModel."""
    folder = exported(request.param)
    found = load_served(load(f"{folder}/../../{request.param}"))
    return request.param, found, saved_model(folder).signatures


def encoded(found, texts=TEXTS):
    return {
        name: value.numpy() for name, value in found.encode(tf.constant(texts)).items()
    }


def test_names_dtypes_and_ranks(served):
    kind, _, signatures = served
    further = FURTHER.get(kind, set())
    assert set(signatures) == {"serving_default", "ids", "ids_lengths"} | further
    default = signatures["serving_default"]
    assert dtypes_and_ranks(default.structured_outputs) == {
        name: (dtype, int(rank))
        for dtype, rank, *names in map(str.split, OUTPUTS[kind])
        for name in names
    }
    assert dtypes_and_ranks(default.structured_input_signature[1]) == {
        name: ("string", 2 if name == "choices" else 1)
        for name in export_models.text_names(kind)
    }
    ids = signatures["ids"].structured_input_signature[1]
    assert dtypes_and_ranks(ids) == dict.fromkeys(IDS, ("int32", 2))


def dtypes_and_ranks(specs):
    return {name: (spec.dtype.name, spec.shape.rank) for name, spec in specs.items()}


def test_texts_of_any_content_are_accepted(served):
    """Each text, also a long one, has the same outputs alone and in a batch."""
    kind, _, signatures = served
    columns = export_models.inputs_of(kind, TEXTS)
    of_words = {"words": [[b"", b"a", b"zz"], [b""] * 3, [b"c\xe9", b"b", b""]]}
    inputs = {"serving_default": columns}
    for name in {"score", "next_sentence", "words"} & set(signatures):
        names = signatures[name].structured_input_signature[1]
        inputs[name] = of_words if name == "words" else dict.fromkeys(names, TEXTS)

    for name, columns in inputs.items():
        check_rows(signatures[name], columns)
        shapes = {n: [0, *np.shape(column)[1:]] for n, column in columns.items()}
        empty = {n: tf.zeros(shape, tf.string) for n, shape in shapes.items()}
        assert all(value.shape[0] == 0 for value in signatures[name](**empty).values())


def check_rows(signature, columns):
    """Compares the outputs of each row alone with those of all rows."""
    together = call(signature, **columns)
    for row in range(len(next(iter(columns.values())))):
        one = {name: column[row : row + 1] for name, column in columns.items()}
        for name, value in call(signature, **one).items():
            expected = together[name][row : row + 1]
            if value.ndim > 1:  # the outputs of all texts may be padded
                expected = expected[:, : value.shape[1]]
            if value.dtype == np.float32:
                np.testing.assert_allclose(value, expected, atol=1e-5, rtol=1e-5)
            elif value.ndim < 3:
                assert value.tolist() == expected.tolist(), name


def test_ids_give_the_outputs_of_texts(served):
    kind, found, signatures = served
    if kind in ("pair", "span", "tagging", "choice", "fill_mask"):
        pytest.skip(
            "the inputs of ids are those of two texts, or the outputs are logits"
        )
    by_ids = call(signatures["ids"], **encoded(found))
    by_text = call(signatures["serving_default"], text=TEXTS)
    for name, value in by_text.items():
        if value.dtype == np.float32:
            np.testing.assert_allclose(by_ids[name], value, atol=1e-6)
        else:
            assert by_ids[name].tolist() == value.tolist()


def test_padding_with_the_first_element_does_not_change_the_outputs(served):
    """As TensorFlow Serving pads: each row of each input with its own first element."""
    _, found, signatures = served
    inputs = encoded(found)
    lengths = inputs["input_mask"].sum(axis=1, dtype=np.int32)
    is_token = inputs["input_mask"] == 1
    padded = {
        name: np.where(is_token, inputs[name], inputs[name][:, :1])
        for name in ("input_ids", "segment_ids")
    }
    expected = call(signatures["ids"], **inputs)
    actual = call(signatures["ids_lengths"], **padded, lengths=lengths)
    assert set(actual) == set(expected)
    for name, value in expected.items():
        assert (actual[name] == value).all(), name
    for row, length in enumerate(lengths):
        alone = {name: value[row : row + 1, :length] for name, value in inputs.items()}
        for name, value in call(signatures["ids"], **alone).items():
            # The outputs of a token have as many columns as the sequences.
            found = actual[name][row : row + 1][tuple(map(slice, value.shape))]
            if value.dtype == np.float32:
                np.testing.assert_allclose(
                    found, value, atol=1e-5 * max(1, np.abs(value).max())
                )
            else:
                assert found.tolist() == value.tolist(), name


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("input_ids", 16, "input_ids must be from 0 to 15"),
        ("segment_ids", -1, "segment_ids must be from 0 to 1"),
        ("input_mask", 3, "input_mask must be from 0 to 1"),
    ],
)
def test_ids_out_of_range_are_refused(served, name, value, message):
    _, found, signatures = served
    inputs = encoded(found)
    inputs[name][1, 0] = value
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        call(signatures["ids"], **inputs)


def test_wrong_shapes_are_refused(served):
    _, found, signatures = served
    inputs = encoded(found)
    longer = {name: np.pad(value, [[0, 0], [0, 16]]) for name, value in inputs.items()}
    with pytest.raises(tf.errors.InvalidArgumentError, match="1 to 16 tokens"):
        call(signatures["ids"], **longer)
    other = {**inputs, "segment_ids": inputs["segment_ids"][:, :-1]}
    with pytest.raises(tf.errors.InvalidArgumentError, match="the shape of input_ids"):
        call(signatures["ids"], **other)
    lengths = inputs["input_mask"].sum(axis=1, dtype=np.int32)
    ids = {name: inputs[name] for name in ("input_ids", "segment_ids")}
    for wrong in (lengths * 0, lengths + 16, lengths[:-1]):
        with pytest.raises(tf.errors.InvalidArgumentError, match="lengths must"):
            call(signatures["ids_lengths"], **ids, lengths=wrong)


@pytest.mark.parametrize("name", IDS)
def test_a_wrong_rank_is_refused(name):
    """The graph checks the rank, because the C API does not compare it."""
    inputs = {each: tf.zeros([2, 3], tf.int32) for each in IDS}
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"Shape of tensor .*\[3\]"
    ):
        checked_ids({**inputs, name: tf.zeros([3], tf.int32)}, export_models.CONFIG)
    checked_ids(inputs, export_models.CONFIG)


def test_examples_give_the_outputs_of_texts(served):
    kind, _, signatures = served
    name = "regress" if kind == "regression" else "classify"
    if name not in signatures:
        pytest.skip("no signature of examples")
    names = export_models.text_names(kind)
    serialized = [serialized_example(dict.fromkeys(names, text)) for text in TEXTS]
    outputs = call(signatures[name], inputs=serialized)
    default = call(signatures["serving_default"], **dict.fromkeys(names, TEXTS))
    if kind == "regression":
        np.testing.assert_allclose(outputs["outputs"], default["score"], atol=1e-6)
        return

    # The classes are sorted by their probability.
    order = np.argsort(-default["probabilities"], axis=1)
    labels = np.array([label.encode() for label in export_models.LABELS], object)
    assert outputs["classes"].tolist() == labels[order].tolist()
    expected = np.take_along_axis(default["probabilities"], order, axis=1)
    np.testing.assert_allclose(outputs["scores"], expected, atol=1e-6)
