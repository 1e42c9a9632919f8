"""Exported models of multiple choice, against NumPy; their predictions in Python."""

import itertools
import json
import pathlib

import export_models
import numpy as np
import pytest
import tensorflow as tf
from reference import multiple_choice as reference
from reference.tokenizer import Tokenizer
from run_programs import assert_refused, run_main

import bert_tf
from bert_tf.export import exporter, gate, requests
from bert_tf.export.served import load_served
from bert_tf.export.settings import ServingSettings
from bert_tf.modeling import arrays_by_name

CONTEXTS = ["a b", "", "c " * 30, "zz é 猫", "e f\tg"]
# Lists with 1 to 7 texts; "" is no choice.
CHOICES = [
    ["a", "b c"],
    ["d", "e", "f", "g", "h", "a b", "c d"],
    ["a", "", "b " * 20, "c"],
    ["h"],
    ["", "", "g a"],
]
LENGTH = 12


def padded(rows, size=None):
    size = size or max(map(len, rows))
    return [[*row, *[""] * (size - len(row))] for row in rows]


@pytest.fixture(scope="module")
def served(exported):
    return load_served(bert_tf.load(pathlib.Path(exported("choice")).parents[1] / "choice"))


@pytest.fixture(scope="module")
def answer(exported):
    """A function from contexts and choices to the outputs of the SavedModel."""
    model = tf.saved_model.load(exported("choice"))

    def call(contexts, choices):
        outputs = model.signatures["serving_default"](
            context=tf.constant(contexts, tf.string),
            choices=tf.convert_to_tensor(choices, tf.string),
        )
        return {name: value.numpy() for name, value in outputs.items()}

    return call


def expected_scores(context, choices):
    """Returns the scores of choices by the transcription, float64."""
    model, _ = export_models.model_of("choice")
    arrays = arrays_by_name(model)
    weights = {name: tf.constant(value, tf.float64) for name, value in arrays.items()}
    tokenize = Tokenizer(export_models.VOCABULARY, True).tokenize
    record = reference.record(context, choices, tokenize, LENGTH, len(choices), (2, 3, 0))
    inputs = zip(("input_ids", "input_mask", "segment_ids"), record[:3], strict=True)
    batch = {name: tf.constant(value) for name, value in inputs}
    return reference.scores(weights, export_models.CONFIG.to_dict(), batch)


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
    outputs = answer(CONTEXTS, padded(CHOICES))
    for row, (context, choices) in enumerate(zip(CONTEXTS, CHOICES, strict=True)):
        check_row(outputs, row, context, choices)


def test_a_row_alone_has_the_outputs_that_it_has_in_a_batch(answer):
    together = answer(CONTEXTS, padded(CHOICES, 9))
    for row, (context, choices) in enumerate(zip(CONTEXTS, CHOICES, strict=True)):
        alone, size = answer([context], [choices]), len(choices)
        np.testing.assert_allclose(
            alone["probabilities"][0], together["probabilities"][row, :size], atol=1e-5
        )
        assert not together["probabilities"][row, size:].any()
        assert alone["ranking"][0].tolist() == together["ranking"][row, :size].tolist()
        assert alone["index"][0] == together["index"][row]
        assert alone["choice"][0] == together["choice"][row]


def test_a_permutation_of_the_choices_permutes_the_outputs(answer):
    choices = CHOICES[1][:4]
    expected = answer(["a b"], [choices])
    for order in itertools.permutations(range(4)):
        found = answer(["a b"], [[choices[index] for index in order]])
        np.testing.assert_allclose(
            found["probabilities"][0], expected["probabilities"][0, list(order)], atol=1e-5
        )
        assert found["choice"][0] == expected["choice"][0]
        ranked = [order[index] for index in found["ranking"][0]]
        assert ranked == expected["ranking"][0].tolist()


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (2, 0), (2, 3)])
def test_rows_without_choices_have_no_best_one(answer, shape):
    outputs = answer(["a"] * shape[0], tf.fill(shape, ""))
    assert outputs["probabilities"].shape == outputs["ranking"].shape == shape
    assert not outputs["probabilities"].any()
    assert outputs["ranking"].tolist() == [list(range(shape[1]))] * shape[0]
    assert outputs["index"].tolist() == [-1] * shape[0]
    assert outputs["choice"].tolist() == [b""] * shape[0]


def test_many_choices_are_computed_in_parts(answer):
    rng = np.random.default_rng(0)
    choices = [[" ".join(rng.choice(list("abcdefgh"), 5)) for _ in range(45)] for _ in range(2)]
    outputs = answer(["a", "b c"], choices)
    for row, context in enumerate(["a", "b c"]):
        probabilities = reference.probabilities(expected_scores(context, choices[row]))
        np.testing.assert_allclose(outputs["probabilities"][row], probabilities, atol=1e-5)


def test_ids_give_the_score_of_each_sequence(served, exported):
    model = tf.saved_model.load(exported("choice"))
    pairs = [("a b", "c d e"), ("", "h"), ("c " * 9, "a")]
    inputs = served.encode(*(tf.constant(column) for column in zip(*pairs, strict=True)))
    found = model.signatures["ids"](**inputs)
    assert found.keys() == {"score"} and found["score"].shape == (3,)
    expected = [expected_scores(context, [choice])[0] for context, choice in pairs]
    np.testing.assert_allclose(found["score"], expected, atol=1e-5)


def test_different_numbers_of_rows_and_wrong_ranks_are_refused(served):
    with pytest.raises(tf.errors.InvalidArgumentError, match="equal numbers of rows"):
        served.from_texts(tf.constant(["a", "b"]), tf.constant([["c", "d"]]))
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
        served.from_texts(tf.constant(["a"]), tf.constant(["c"]))


def test_requests_have_lists_of_equal_length(served, tmp_path):
    names, texts = ["serving_default", "ids"], [b"x", b"", b"z"]
    (with_texts, ids, nothing, _) = requests.example_requests(served, names, texts, ())
    inputs = with_texts.inputs
    assert inputs["context"].tolist() == [b"x", b"", b"z"]
    assert inputs["choices"].tolist() == [[b"", b"", b""], [b"", b"z", b""], [b"", b"z", b"x"]]
    assert {name: value.shape for name, value in nothing.inputs.items()} == {
        "context": (0,), "choices": (0, 1),
    }  # fmt: skip
    assert ids.inputs["input_ids"].shape == (1 + 2 + 3, 5)
    rows = [{"context": "a", "choices": list("abc")[:size], "label": 0} for size in (2, 3)]
    path = tmp_path / "dev.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows * 20))
    found = requests.labelled_requests(served, str(path))
    sizes = [each.inputs["choices"].shape for each in found if each.signature == "serving_default"]
    assert sizes == [(32, 3), (8, 3)]
    assert found[0].inputs["choices"][0].tolist() == [b"a", b"b", b""]
    # One sequence for each of 20 * (2 + 3) choices.
    ids = [each.inputs["input_ids"].shape[0] for each in found if each.signature == "ids"]
    assert ids == [32, 32, 32, 4]


def test_ties_may_be_decided_differently_but_nothing_else(served):
    tie = {
        "probabilities": np.array([[0.4, 0.4, 0.2, 0.0]], np.float32),
        "ranking": np.array([[0, 1, 2, 3]], np.int32),
        "choice": np.array([b"x"], object),
        "index": np.array([0], np.int32),
    }
    swapped = {
        **tie, "ranking": np.array([[1, 0, 2, 3]], np.int32), "index": np.array([1], np.int32),
        "choice": np.array([b"y"], object),
    }  # fmt: skip

    def failures(expected, actual):
        results = gate.compare(
            served, "serving_default", [(expected, actual)], gate.LIMITS["float32"]
        )
        return [each.output for each in results if not each.passed]

    assert failures(tie, swapped) == []
    assert failures(tie, {**tie, "ranking": np.array([[0, 2, 1, 3]], np.int32)}) == ["ranking"]
    clear = {"probabilities": np.array([[0.5, 0.3, 0.2, 0.0]], np.float32)}
    assert failures({**tie, **clear}, {**swapped, **clear}) == ["ranking", "choice", "index"]
    one = {name: value[:, :1] if value.ndim == 2 else value for name, value in tie.items()}
    assert failures(one, one) == []
    assert failures(one, {**one, "index": swapped["index"]}) == ["index"]


def test_the_folder_says_how_lists_are_padded(exported):
    folder = pathlib.Path(exported("choice"))
    assert "pad_variable_length_inputs: false" in (folder / "batching_params.pbtxt").read_text()
    other = pathlib.Path(exported("pair"))
    assert "pad_variable_length_inputs: true" in (other / "batching_params.pbtxt").read_text()
    text = (folder / "assets.extra/README.md").read_text("utf-8")
    assert "`choices` is a string tensor [B, K]" in text
    assert "string tensor" not in (other / "assets.extra/README.md").read_text("utf-8")


def test_a_folder_of_hugging_face_is_exported_with_the_task(tmp_path, without_gate):
    model, _ = export_models.model_of("choice")
    tokenizer = bert_tf.BertTokenizer(export_models.VOCABULARY)
    path = bert_tf.save_checkpoint(model, tokenizer, str(tmp_path / "hf"), "hugging_face")
    folder = exporter.export(path, str(tmp_path / "out"), ServingSettings("choice"))
    predictor = bert_tf.Predictor(folder)
    expected = reference.probabilities(expected_scores("a b", ["c", "d e"]))
    np.testing.assert_allclose(predictor("a b", ["c", "d e"])["probabilities"], expected, atol=1e-5)
    encoder, _ = export_models.write_checkpoint("embedding", tmp_path)
    with pytest.raises(bert_tf.InputError, match=r"it lacks cls/choice/output_weights"):
        exporter.export(encoder, str(tmp_path / "none"), ServingSettings("choice"))


@pytest.mark.parametrize("batch_size", [1, 2, 100])
def test_the_predictor_takes_lists_of_different_lengths(exported, answer, batch_size):
    predictor = bert_tf.Predictor(exported("choice"), batch_size)
    assert predictor.names == ("context", "choices") and predictor.list_names == ("choices",)
    contexts, choices = [*CONTEXTS, "a", "b"], [*CHOICES, [], ["", ""]]
    found = predictor(contexts, choices)
    for prediction, context, texts in zip(found, contexts, choices, strict=True):
        expected = answer([context], tf.reshape(tf.constant(texts, tf.string), [1, -1]))
        np.testing.assert_allclose(
            prediction["probabilities"], expected["probabilities"][0], atol=1e-5
        )
        assert prediction["ranking"] == expected["ranking"][0].tolist()
        assert prediction["index"] == expected["index"][0]
        assert prediction["choice"] == expected["choice"][0].decode()
        assert prediction["probability"] == max(prediction["probabilities"], default=0.0)
    single = predictor(CONTEXTS[1], CHOICES[1])
    np.testing.assert_allclose(single["probabilities"], found[1]["probabilities"], atol=1e-5)
    assert predictor([], []) == []
    assert predictor(("a",), (("b", "c"),))[0]["choice"] in ("b", "c")


def test_wrong_input_is_refused(exported):
    predictor = bert_tf.Predictor(exported("choice"))
    cases = {
        r"for each of context, choices \(a list of lists\). Received: 1 values": (["a"],),
        "types str, str": ("a", "b"),
        "types str, list": ("a", [["b", "c"]]),
        "must be a list of str. Received: 'b'": (["a"], ["b"]),
        "A text must be a str. Received: 5": (["a"], [["b", 5]]),
        "the same number of texts. Received: 1 and 2": (["a"], [["b", "c"], ["d", "e"]]),
    }
    for message, texts in cases.items():
        with pytest.raises(bert_tf.InputError, match=message):
            predictor(*texts)


def test_the_program_reads_lines_with_any_number_of_choices(exported, tmp_path):
    predictor = bert_tf.Predictor(exported("choice"))
    lines = ["a b ||| c ||| d e", "a\tb\tc\td", " ||| a ||| b"]
    (tmp_path / "lines").write_text("\n".join(lines) + "\n", "utf-8")
    module = "bert_tf.run_scripts.predict"
    model = f"--model={exported('choice')}"
    several, question, context, text = run_main(
        module,
        [model, f"--input_file={tmp_path}/lines", "--format=jsonl"],
        [model, "--question=a", "--context=b"],
        [model, "--context=b"],
        [f"--model={exported('classification')}", "--context=b", "--choice=c"],
    )
    expected = predictor(["a b", "a", ""], [["c", "d e"], ["b", "c", "d"], ["a", "b"]])
    records = [json.loads(line) for line in several.out.splitlines()]
    assert [record["text"] for record in records] == lines
    for record, wanted in zip(records, expected, strict=True):
        assert record["choice"] == wanted["choice"] and record["index"] == wanted["index"]
        np.testing.assert_allclose(record["probabilities"], wanted["probabilities"], atol=1e-5)
    assert_refused(question, "--question is for models of two texts", "context and choices")
    assert_refused(context, "--question and --context need each other", "--choice")
    assert_refused(text, "--choice is for models of multiple choice", "takes text. Give --text")
