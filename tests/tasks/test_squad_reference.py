"""The transcription in `reference.squad` equals the released program, item by item.

The golden values are in golden/google_squad_postprocess in BERT_TF_TEST_DATA; golden/README.md says
how they were made. The training features there are in the order of the file, not shuffled. The
expected metrics are computed by hand.
"""

import json

import numpy as np
import pytest
from reference import squad
from reference.tokenizer import Tokenizer

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "c", "##c", "(", ")", "-", "who"]
SIZES = {"n_best_size": 3, "max_answer_length": 2, "do_lower_case": True}


class Golden:
    """The files of one version."""

    def __init__(self, folder, version):
        self.folder, self.version = folder, version
        self.flags = self.json("flags.json")
        self.data = json.loads((folder / f"squad_sample_{version}.json").read_text("utf-8"))
        path = folder / f"squad_sample_train_{version}.json"
        self.training_data = json.loads(path.read_text("utf-8"))

    def json(self, name):
        return json.loads((self.folder / self.version / name).read_text("utf-8"))

    def arrays(self, name):
        with np.load(self.folder / self.version / name) as file:
            return dict(file)

    def examples(self, is_training):
        data = self.training_data if is_training else self.data
        return squad.read_examples(data, is_training, self.flags["version_2_with_negative"])

    def features(self, tokenizer, is_training):
        names = "max_seq_length", "doc_stride", "max_query_length"
        flags = {name: self.flags[name] for name in names}
        examples = self.examples(is_training)
        return squad.features(examples, tokenizer, is_training=is_training, **flags)


@pytest.fixture(scope="module")
def tokenizer(test_data):
    path = test_data / "data/vocab/bert-base-uncased-vocab.txt"
    return Tokenizer(path.read_text("utf-8").split("\n")[:-1], True)


@pytest.fixture(scope="module", params=["v1.1", "v2.0"])
def golden(request, test_data):
    folder = test_data / "golden/google_squad_postprocess"
    if not folder.is_dir():
        pytest.skip("requires golden/google_squad_postprocess in BERT_TF_TEST_DATA")
    return Golden(folder, request.param)


@pytest.mark.parametrize("is_training", [False, True])
def test_features(golden, tokenizer, is_training):
    expected = golden.arrays("features_train.npz" if is_training else "features_predict.npz")
    fields = {name: name for name in expected}
    fields |= {"unique_ids": "unique_id"}
    if is_training:
        fields |= {"start_positions": "start_position", "end_positions": "end_position"}
    found = golden.features(tokenizer, is_training)
    assert {window.is_impossible for window in found} == (
        {False, True} if is_training and golden.version == "v2.0" else {False}
    )
    for name, field in fields.items():
        values = [getattr(window, field) for window in found]
        np.testing.assert_array_equal(values, expected[name], err_msg=name)


def test_predictions(golden, tokenizer):
    logits = golden.arrays("logits.npz")
    features = golden.features(tokenizer, is_training=False)
    rows = zip(logits["start_logits"].tolist(), logits["end_logits"].tolist(), strict=True)
    results = {window.unique_id: row for window, row in zip(features, rows, strict=True)}
    lengths = "max_seq_length", "doc_stride", "max_query_length"
    flags = {name: value for name, value in golden.flags.items() if name not in lengths}
    found = squad.predictions(golden.examples(is_training=False), features, results, **flags)
    expected = [golden.json("predictions.json"), golden.json("nbest_predictions.json")]
    expected.append(golden.json("null_odds.json") if golden.version == "v2.0" else {})
    for found_part, expected_part in zip(found, expected, strict=True):
        # As JSON: also the order of the questions and the types are equal.
        assert json.dumps(found_part, indent=4) == json.dumps(expected_part, indent=4)


def data_of(context, *qas):
    names = "id", "question", "answers", "is_impossible"
    qas = [dict(zip(names, qa, strict=False)) for qa in qas]
    return {"data": [{"paragraphs": [{"context": context, "qas": qas}]}]}


def texts(*values, start=0):
    return [{"text": value, "answer_start": start} for value in values]


def test_order_for_training():
    examples = list(range(10))
    assert squad.shuffled_for_training(examples) == [8, 7, 3, 5, 1, 2, 9, 4, 0, 6]
    assert examples == list(range(10))


def test_white_space_of_contexts():
    doc_tokens, offsets = squad.split_context(" a\u202fb\t\r\nc\xa0d\u2009e")
    assert doc_tokens == ["a", "b", "c\xa0d\u2009e"]
    assert offsets == [-1, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2]


def test_reading_for_training():
    data = data_of(
        "a b\xa0c",
        ("found", "who", texts("b", start=2), False),
        ("not found", "who", texts("b", start=0), False),
        ("split at another white space", "who", texts("b\xa0c", start=2), False),
        ("impossible", "who", texts("a", "b"), True),
    )
    found, impossible = squad.read_examples(data, True, True)
    assert found == ("found", "who", ["a", "b\xa0c"], "b", 1, 1, False)
    assert impossible == ("impossible", "who", ["a", "b\xa0c"], "", -1, -1, True)
    with pytest.raises(ValueError, match="2 answers"):
        squad.read_examples(data, True, False)
    examples = squad.read_examples(data, False, True)
    assert [example.is_impossible for example in examples] == [False] * 4
    assert examples[0] == ("found", "who", ["a", "b\xa0c"], None, None, None, False)


def test_windows_by_hand():
    """Three windows of two tokens; the answer is narrowed to "c", inside of the word "(b-c)"."""
    data = data_of("(b-c) a", ("1", "who a", texts("c", start=3)))
    examples = squad.read_examples(data, True, False)
    found = squad.features(examples, Tokenizer(TOKENS, True), 6, 2, 1, True)
    assert [window.tokens[3:-1] for window in found] == [["(", "b"], ["-", "c"], [")", "a"]]
    assert [window.start_position for window in found] == [0, 4, 0]
    assert [window.end_position for window in found] == [0, 4, 0]
    assert found[2].token_to_orig_map == {3: 0, 4: 1}
    assert found[2].token_is_max_context == {3: True, 4: True}
    assert found[2].input_ids == [2, 11, 3, 9, 4, 3]
    assert found[2].segment_ids == [0, 0, 0, 1, 1, 1]


def test_the_window_with_most_context_counts():
    """Tokens 2 and 3 are in both windows; of equal windows the first one counts."""
    spans = squad.doc_spans(6, 4, 2)
    assert spans == [(0, 4), (2, 4)]
    assert [squad.max_context_span(spans, position) for position in range(6)] == [0, 0, 0, 1, 1, 1]


def predict(context, logits, version_2, threshold=0.0):
    examples = squad.read_examples(data_of(context, ("1", "who", [])), False, version_2)
    features = squad.features(examples, Tokenizer(TOKENS, True), 8, 2, 1, False)
    results = {window.unique_id: logits for window in features}
    chosen, nbest, null_odds = squad.predictions(
        examples, features, results, **SIZES, version_2_with_negative=version_2,
        null_score_diff_threshold=threshold,
    )  # fmt: skip
    entries = [(entry["text"], entry["start_logit"], entry["end_logit"]) for entry in nbest["1"]]
    return chosen["1"], entries, null_odds


@pytest.mark.parametrize(
    ("version_2", "expected"),
    [
        (False, ("empty", [("empty", 0.0, 0.0)], {})),
        (True, ("", [("", 0.0, 0.0)], {"1": 0.0})),
    ],
)
def test_a_context_without_words(version_2, expected):
    assert predict(" \n", None, version_2) == expected


@pytest.mark.parametrize(
    ("version_2", "expected"),
    [
        (False, ("empty", [("empty", 0.0, 0.0)], {})),
        (True, ("", [("", 5.0, 4.0)], {"1": 0.0})),
    ],
)
def test_no_valid_span(version_2, expected):
    """The best positions are those of [CLS], the question and [SEP]."""
    logits = [5.0, 5.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0], [4.0, 4.0, 4.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert predict("A b", logits, version_2) == expected


def test_the_null_answer_is_always_an_entry():
    """It is entry n_best_size + 1 here, and the prediction only if above the threshold."""
    logits = [0.0, 0.0, 0.0, 1.0, 5.0, 2.0, 0.0, 0.0], [-1.0, 0.0, 0.0, 2.0, 4.0, 3.0, 0.0, 0.0]
    entries = [("B", 5.0, 4.0), ("B c", 5.0, 3.0), ("c", 2.0, 3.0), ("", 0.0, -1.0)]
    assert predict("A B c", logits, True, -10.0) == ("B", entries, {"1": -10.0})
    assert predict("A B c", logits, True, -10.5) == ("", entries, {"1": -10.0})
    assert predict("A B c", logits, False) == ("B", entries[:3], {})


def test_equal_texts_are_one_entry():
    """Of spans with equal scores, the one with the first start, then the first end, is first."""
    logits = [0.0, 0.0, 0.0, 5.0, 5.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 2.0, 2.0, 0.0, 0.0, 0.0]
    assert predict("a a", logits, False)[1] == [("a", 5.0, 2.0), ("a a", 5.0, 2.0)]


@pytest.mark.parametrize(
    ("pred_text", "orig_text", "expected"),
    [
        ("steve smith", "Steve  Smith's", "Steve  Smith"),
        ("cafe", "(Café),", "Café"),
        ("steve jones", "Steve Smith", "Steve Smith"),  # not found
        ("i", "İ i.", "İ"),  # NFD of İ in lower case has an accent, which is removed
        ("한", "한 글.", "한 글."),  # not found: NFD separates the letters of 한
        ("a", "a\u200b b.", "a\u200b b."),  # the control character changes the length
    ],
)
def test_final_text(pred_text, orig_text, expected):
    assert squad.get_final_text(pred_text, orig_text, True) == expected


def test_metrics_of_v1():
    data = data_of(
        "",
        ("1", "", texts("The cat's hat", "a dog")),
        ("2", "", texts("red green blue", "red")),
        ("3", "", texts("the")),
        ("4", "", texts("not predicted")),
    )
    found = squad.metrics_v1(data, {"1": "cats  HAT.", "2": "red green", "3": "a"})
    # F1 of 2: precision 1, recall 2/3; of 3: no tokens, so 0, but an exact match.
    assert found == {"exact_match": 50.0, "f1": pytest.approx(100 * (1 + 0.8 + 0) / 4)}


def test_metrics_of_v2():
    data = data_of(
        "",
        ("1", "", texts("red", "red green blue")),
        ("2", "", texts("the")),  # counts as having an answer, but "" is correct
        ("3", "", []),
        ("4", "", []),
    )
    predictions = {"1": "red green", "2": "", "3": "", "4": "blue"}
    expected = {
        "exact": 50.0, "f1": pytest.approx(70.0), "total": 4,
        "HasAns_exact": 50.0, "HasAns_f1": pytest.approx(90.0), "HasAns_total": 2,
        "NoAns_exact": 50.0, "NoAns_f1": 50.0, "NoAns_total": 2,
    }  # fmt: skip
    found = squad.metrics_v2(data, predictions)
    assert found == expected and list(found) == list(expected)
    na_probs = {"4": 0.5, "3": -0.5, "2": -1.0, "1": -2.0}
    expected |= {
        "best_exact": 75.0, "best_exact_thresh": -1.0,
        "best_f1": pytest.approx(95.0), "best_f1_thresh": -1.0,
    }  # fmt: skip
    found = squad.metrics_v2(data, predictions, na_probs)
    assert found == expected and list(found) == list(expected)
    found = squad.metrics_v2(data, predictions, na_probs, 0.0)
    assert (found["exact"], found["best_exact"]) == (75.0, 75.0)


def test_equal_probabilities_are_not_taken_together():
    found = squad.find_best_thresh(
        {"1": "x", "2": "y"}, {"1": 1, "2": 0}, {"1": 3.0, "2": 3.0}, {"1": True, "2": False}
    )
    assert found == (100.0, 3.0)
    found = squad.find_best_thresh(
        {"1": "x", "2": "y"}, {"1": 1, "2": 0}, {"2": 3.0, "1": 3.0}, {"1": True, "2": False}
    )
    assert found == (50.0, 0.0)
