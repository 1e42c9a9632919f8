"""Literal values of the transcription in `reference.squad`.

The tests of encoding and of answers compare it with the golden values of the released
program in golden/google_squad_postprocess in BERT_TF_TEST_DATA; golden/README.md says
how they were made.
"""

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
