"""Exported models of multiple choice, against NumPy; their predictions in Python."""

import functools
import json
import pathlib

import export_models
import numpy as np
import pytest
import tensorflow as tf
from export_models import CHOICES
from model_file_checks import check_predictions, extra_file, saved_model
from model_file_checks import predictor as predictor_of
from reference import multiple_choice as reference
from reference.tokenizer import Tokenizer
from run_programs import assert_refused, run_main

import bert_tf
from bert_tf.export import signature_requests
from bert_tf.export.served import load_served
from bert_tf.modeling import arrays_by_name

CONTEXTS = ["a b", "", "c " * 30, "zz é 猫", "e f\tg"]
LENGTH = 12


@pytest.fixture(scope="module")
def served(exported):
    return load_served(
        bert_tf.load(pathlib.Path(exported("choice")).parents[1] / "choice")
    )


@pytest.fixture(scope="module")
def answer(exported):
    """A function from contexts and choices to the outputs of the SavedModel."""
    model = saved_model(exported("choice"))

    return lambda contexts, choices: export_models.call(
        model.signatures["serving_default"],
        context=tf.constant(contexts, tf.string),
        choices=tf.convert_to_tensor(choices, tf.string),
    )


@functools.cache
def weights_of_model():
    model, _ = export_models.model_of("choice")
    arrays = arrays_by_name(model)
    return {name: tf.constant(value, tf.float64) for name, value in arrays.items()}


def expected_scores(context, choices):
    """Returns the scores of choices by the transcription, float64."""
    tokenize = Tokenizer(export_models.VOCABULARY, True).tokenize
    record = reference.record(
        context, choices, tokenize, LENGTH, len(choices), (2, 3, 0)
    )
    inputs = zip(("input_ids", "input_mask", "segment_ids"), record[:3], strict=True)
    batch = {name: tf.constant(value) for name, value in inputs}
    return reference.scores(weights_of_model(), export_models.CONFIG.to_dict(), batch)


def check_row(outputs, row, context, choices):
    """Compares the outputs of a row with the transcription."""
    exists = [index for index, text in enumerate(choices) if text]
    scores = expected_scores(context, [choices[index] for index in exists])
    probabilities = np.zeros(outputs["probabilities"].shape[1])
    probabilities[exists] = reference.probabilities(scores)
    np.testing.assert_allclose(outputs["probabilities"][row], probabilities, atol=1e-5)
    best_first = [exists[index] for index in np.argsort(-scores, kind="stable")]
    rest = [index for index in range(len(probabilities)) if index not in exists]
    assert outputs["ranking"][row].tolist() == best_first + rest
    assert outputs["index"][row] == best_first[0]
    assert outputs["choice"][row].decode() == choices[best_first[0]]


def test_rows_with_1_to_7_choices_have_the_values_of_the_transcription(answer):
    outputs = answer(CONTEXTS, tf.ragged.constant(CHOICES).to_tensor())
    for row, (context, choices) in enumerate(zip(CONTEXTS, CHOICES, strict=True)):
        check_row(outputs, row, context, choices)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (2, 0), (2, 3)])
def test_rows_without_choices_have_no_best_one(answer, shape):
    outputs = answer(["a"] * shape[0], tf.fill(shape, ""))
    assert outputs["probabilities"].shape == outputs["ranking"].shape == shape
    assert not outputs["probabilities"].any()
    assert outputs["ranking"].tolist() == [list(range(shape[1]))] * shape[0]
    assert outputs["index"].tolist() == [-1] * shape[0]
    assert outputs["choice"].tolist() == [b""] * shape[0]


def test_ids_give_the_score_of_each_sequence(served, exported):
    model = saved_model(exported("choice"))
    pairs = [("a b", "c d e"), ("", "h"), ("c " * 9, "a")]
    inputs = served.encode(
        *(tf.constant(column) for column in zip(*pairs, strict=True))
    )
    found = model.signatures["ids"](**inputs)
    assert found.keys() == {"score"} and found["score"].shape == (3,)
    expected = [expected_scores(context, [choice])[0] for context, choice in pairs]
    np.testing.assert_allclose(found["score"], expected, atol=1e-5)


def test_different_numbers_of_rows_and_wrong_ranks_are_refused(served):
    with pytest.raises(tf.errors.InvalidArgumentError, match="equal numbers of rows"):
        served.from_texts(tf.constant(["a", "b"]), tf.constant([["c", "d"]]))
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
        served.from_texts(tf.constant(["a"]), tf.constant(["c"]))


def test_requests_have_lists_of_equal_length(served):
    names, texts = ["serving_default", "ids"], [b"x", b"", b"z"]
    (with_texts, ids, nothing, _) = signature_requests.example_requests(
        served, names, texts, ()
    )
    inputs = with_texts.inputs
    assert inputs["context"].tolist() == [b"x", b"", b"z"]
    assert inputs["choices"].tolist() == [
        [b"", b"", b""],
        [b"", b"z", b""],
        [b"", b"z", b"x"],
    ]
    assert {name: value.shape for name, value in nothing.inputs.items()} == {
        "context": (0,), "choices": (0, 1),
    }  # fmt: skip
    assert ids.inputs["input_ids"].shape == (1 + 2 + 3, 5)


@pytest.mark.medium
def test_the_folder_says_how_lists_are_padded(exported):
    for kind, pads in (("choice", "false"), ("pair", "true")):
        folder = pathlib.Path(exported(kind))
        batching = (folder / "batching_params.pbtxt").read_text()
        assert f"pad_variable_length_inputs: {pads}" in batching
        text = extra_file(folder, "README.md")
        has_lists = "`choices` is a string tensor [B, K]" in text
        assert has_lists == ("string tensor" in text) == (kind == "choice")


def test_the_program_reads_lines_with_any_number_of_choices(exported, tmp_path):
    predictor = predictor_of(exported("choice"))
    lines = ["a b ||| c ||| d e", "a\tb\tc\td", " ||| a ||| b"]
    (tmp_path / "lines").write_text("\n".join(lines) + "\n", "utf-8")
    module = "bert_tf.run_scripts.predict"
    model = f"--model={exported('choice')}"
    several, question = run_main(
        module,
        [model, f"--input_file={tmp_path}/lines", "--format=jsonl"],
        [model, "--question=a", "--context=b"],
    )
    expected = predictor(["a b", "a", ""], [["c", "d e"], ["b", "c", "d"], ["a", "b"]])
    records = [json.loads(line) for line in several.out.splitlines()]
    assert [record["text"] for record in records] == lines
    found = [{name: record[name] for name in expected[0]} for record in records]
    check_predictions(found, expected, 1e-5)
    assert_refused(question, "The texts of a row must be a list of str. Received: 'b'")
