"""The transcription in `reference.squad` equals the released program, item by item.

The golden values are in golden/google_squad_postprocess in BERT_TF_TEST_DATA;
golden/README.md says how they were made. The training features there are in the order
of the file, not shuffled. The tests of the tasks compare literal values with both the
transcription and bert-tf.
"""

import json

import numpy as np
import pytest
from json_files import read_json
from reference import squad
from reference.tokenizer import Tokenizer

TOKENS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "a",
    "b",
    "c",
    "##c",
    "(",
    ")",
    "-",
    "who",
]
SIZES = {"n_best_size": 3, "max_answer_length": 2, "do_lower_case": True}


class Golden:
    """The files of one version."""

    def __init__(self, folder, version):
        self.folder, self.version = folder, version
        self.flags = self.json("flags.json")
        self.data = read_json(folder / f"squad_sample_{version}.json")
        path = folder / f"squad_sample_train_{version}.json"
        self.training_data = read_json(path)

    def json(self, name):
        return read_json(self.folder / self.version / name)

    def arrays(self, name):
        with np.load(self.folder / self.version / name) as file:
            return dict(file)

    def examples(self, is_training):
        data = self.training_data if is_training else self.data
        return squad.read_examples(
            data, is_training, self.flags["version_2_with_negative"]
        )

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
    expected = golden.arrays(
        "features_train.npz" if is_training else "features_predict.npz"
    )
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
    rows = zip(
        logits["start_logits"].tolist(), logits["end_logits"].tolist(), strict=True
    )
    results = {
        window.unique_id: row for window, row in zip(features, rows, strict=True)
    }
    lengths = "max_seq_length", "doc_stride", "max_query_length"
    flags = {name: value for name, value in golden.flags.items() if name not in lengths}
    found = squad.predictions(
        golden.examples(is_training=False), features, results, **flags
    )
    expected = [golden.json("predictions.json"), golden.json("nbest_predictions.json")]
    expected.append(golden.json("null_odds.json") if golden.version == "v2.0" else {})
    for found_part, expected_part in zip(found, expected, strict=True):
        # As JSON: also the order of the questions and the types are equal.
        assert json.dumps(found_part, indent=4) == json.dumps(expected_part, indent=4)


def data_of(context, *qas):
    names = "id", "question", "answers", "is_impossible"
    qas = [dict(zip(names, qa, strict=False)) for qa in qas]
    return {"data": [{"paragraphs": [{"context": context, "qas": qas}]}]}


def test_order_for_training():
    examples = list(range(10))
    assert squad.shuffled_for_training(examples) == [8, 7, 3, 5, 1, 2, 9, 4, 0, 6]
    assert examples == list(range(10))


def test_white_space_of_contexts():
    doc_tokens, offsets = squad.split_context(" a\u202fb\t\r\nc\xa0d\u2009e")
    assert doc_tokens == ["a", "b", "c\xa0d\u2009e"]
    assert offsets == [-1, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2]


def test_the_window_with_most_context_counts():
    """Tokens 2 and 3 are in both windows; of equal windows the first one counts."""
    spans = squad.doc_spans(6, 4, 2)
    assert spans == [(0, 4), (2, 4)]
    assert [squad.max_context_span(spans, position) for position in range(6)] == [
        0,
        0,
        0,
        1,
        1,
        1,
    ]


def predict(context, logits, version_2, threshold=0.0):
    examples = squad.read_examples(data_of(context, ("1", "who", [])), False, version_2)
    features = squad.features(examples, Tokenizer(TOKENS, True), 8, 2, 1, False)
    results = {window.unique_id: logits for window in features}
    chosen, nbest, null_odds = squad.predictions(
        examples, features, results, **SIZES, version_2_with_negative=version_2,
        null_score_diff_threshold=threshold,
    )  # fmt: skip
    entries = [
        (entry["text"], entry["start_logit"], entry["end_logit"])
        for entry in nbest["1"]
    ]
    return chosen["1"], entries, null_odds


def test_the_null_answer_is_always_an_entry():
    """It is entry n_best_size + 1, and the prediction only above the threshold."""
    logits = (
        [0.0, 0.0, 0.0, 1.0, 5.0, 2.0, 0.0, 0.0],
        [-1.0, 0.0, 0.0, 2.0, 4.0, 3.0, 0.0, 0.0],
    )
    entries = [("B", 5.0, 4.0), ("B c", 5.0, 3.0), ("c", 2.0, 3.0), ("", 0.0, -1.0)]
    assert predict("A B c", logits, True, -10.0) == ("B", entries, {"1": -10.0})
    assert predict("A B c", logits, True, -10.5) == ("", entries, {"1": -10.0})
    assert predict("A B c", logits, False) == ("B", entries[:3], {})


def test_equal_texts_are_one_entry():
    """Of spans with equal scores, the first start, then the first end, is first."""
    logits = (
        [0.0, 0.0, 0.0, 5.0, 5.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 2.0, 2.0, 0.0, 0.0, 0.0],
    )
    assert predict("a a", logits, False)[1] == [("a", 5.0, 2.0), ("a a", 5.0, 2.0)]
