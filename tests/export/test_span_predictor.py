"""The answers of the graph, against a transcription of the released rules."""

import dataclasses
import json

import export_models
import numpy as np
import pytest
import squad_data
import tensorflow as tf
from reference.tokenizer import Tokenizer, words
from squad_data import (
    Encoded,
    make_task,
    oracle_predictions,
    paragraph_of,
    random_data,
    random_logits,
    tokenizers,
)
from tiny_bert import SPECIAL, small_config

import bert_tf

CONFIG = small_config(60, num_hidden_layers=1, max_position_embeddings=64)
DEFAULTS = {
    "n_best_size": 20, "max_answer_length": 30, "version_2_with_negative": False,
    "null_score_diff_threshold": 0.0, "padding_as_released": False,
}  # fmt: skip
SIMPLE = ["the", "cat", "steve", "smith", "a", "b", "c", "who", "un", "1895"]
CASES = {
    "defaults": ({}, {}),
    "version 2": ({}, {"version_2_with_negative": True}),
    "short stride": ({"doc_stride": 1}, {"version_2_with_negative": True}),
    "stride above the window": ({"doc_stride": 100}, {}),
    "one answer": ({}, {"n_best_size": 1}),
    "one answer, version 2": ({}, {"n_best_size": 1, "version_2_with_negative": True}),
    "two answers, version 2": ({}, {"n_best_size": 2, "version_2_with_negative": True}),
    "short answers": ({}, {"max_answer_length": 1, "version_2_with_negative": True}),
    "threshold": (
        {},
        {"version_2_with_negative": True, "null_score_diff_threshold": -4.0},
    ),
    "padding": ({}, {"padding_as_released": True, "version_2_with_negative": True}),
}


def served_model(model, tokenizer, length, **facts):
    windows = {"doc_stride": 4, "max_query_length": 5, "max_seq_length": length}
    return export_models.served(model, tokenizer, **{**windows, **DEFAULTS, **facts})


def with_logits(served, found, logits):
    """Makes a served model take the logits from an array instead of its model."""

    def outputs_in_parts(inputs, *names):
        """Checks the inputs of the model; returns the given logits."""
        longest = inputs["input_ids"].shape[1]
        for name, value in inputs.items():
            np.testing.assert_array_equal(
                value, found.encoded.columns[name][:, :longest]
            )
        return tuple(tf.constant(each[:, :longest]) for each in logits)

    served.outputs_in_parts = outputs_in_parts
    return served


def run(
    tmp_path,
    data,
    windows,
    settings,
    *,
    rounded=False,
    pair=None,
    length=16,
    logits=None,
):
    """Returns the outputs of the graph, the examples, and those of the oracle.

    `pair` is a tokenizer, and that of the oracle.
    """
    path = squad_data.write(tmp_path / "data.json", data)
    tokenizer, reference = pair or tokenizers(True)
    do_lower_case = tokenizer.do_lower_case
    windows = {"doc_stride": 4, "max_query_length": 5, **windows}
    task = make_task(tokenizer, windows, settings)
    found = Encoded(path, task, reference, length)
    if logits is None:
        logits = random_logits(found, seed=5, rounded=rounded)
    used = None
    if not settings.get("padding_as_released"):
        used = found.encoded.columns["input_mask"].sum(axis=1).tolist()
    expected = oracle_predictions(found, logits, do_lower_case, settings, used)
    config = dataclasses.replace(CONFIG, vocab_size=tokenizer.vocab_size)
    model = bert_tf.BertSpanPredictor(config)
    served = served_model(model, tokenizer, length, **windows, **settings)
    served = with_logits(served, found, logits)
    paragraphs = [each for article in data["data"] for each in article["paragraphs"]]
    rows = [
        (qa["question"], each["context"]) for each in paragraphs for qa in each["qas"]
    ]
    questions, contexts = (
        [text.encode() for text in c] for c in zip(*rows, strict=True)
    )
    outputs = {n: v.numpy() for n, v in served.from_texts(questions, contexts).items()}
    return outputs, contexts, found, expected


def best_scores(found, nbest):
    """Returns the score of the best answer other than "" in each list, or None."""
    lists = [nbest[example.id] for example in found.examples]
    return [
        next(
            (
                a["start_logit"] + a["end_logit"]
                for a in each
                if a["text"] not in ("", "empty")
            ),
            None,
        )
        for each in lists
    ]


@pytest.mark.parametrize("case", list(CASES))
@pytest.mark.parametrize("rounded", [False, True], ids=["", "ties"])
def test_scores_and_decisions_follow_the_released_rules(tmp_path, case, rounded):
    windows, settings = CASES[case]
    data = random_data(
        seed=len(case), count=40, version_2=True, contexts=["", " \t ", "zebra"]
    )
    # JSON can contain lone surrogates, and bytes cannot.
    data = json.loads(json.dumps(data).replace("\\ud800", "x"))
    outputs, contexts, found, (chosen, nbest, odds) = run(
        tmp_path, data, windows, settings, rounded=rounded
    )
    version_2 = settings.get("version_2_with_negative", False)
    threshold = settings.get("null_score_diff_threshold", 0.0)
    for row, (example, score) in enumerate(
        zip(found.examples, best_scores(found, nbest), strict=True)
    ):
        is_null = score is None or (version_2 and odds[example.id] > threshold)
        assert outputs["no_answer"][row] == is_null, example
        begin, end = outputs["start"][row], outputs["end"][row]
        assert outputs["answer"][row] == contexts[row][begin:end]
        assert bool(outputs["answer"][row]) == (not is_null)
        if not is_null:
            assert outputs["score"][row] == pytest.approx(score, rel=1e-6)
            # The released program takes the first equal text of a word, also with
            # another case. It takes a shifted text if added characters, as of Hangul,
            # make up for removed ones.
            texts = outputs["answer"][row].decode(), chosen[example.id]
            assert "한" in texts[0] or words(texts[0], True) == words(texts[1], True)
        if version_2:
            assert outputs["null_score_diff"][row] == pytest.approx(
                odds[example.id], abs=1e-5
            )
        assert 0 <= outputs["probability"][row] <= 1
    assert set(outputs) == {
        "answer", "start", "end", "score", "probability", "no_answer",
        *(["null_score_diff"] if version_2 else []),
    }  # fmt: skip
    if case != "threshold" and version_2 and case != "one answer, version 2":
        assert 0 < outputs["no_answer"].sum() < len(contexts)


@pytest.mark.parametrize("case", list(CASES))
def test_answers_and_probabilities_of_simple_texts_equal_the_released_ones(
    tmp_path, case
):
    """With single blanks and lower case, the answers are parts of the context."""
    windows, settings = CASES[case]
    rng = np.random.default_rng(3)
    texts = [" ".join(rng.choice(SIMPLE, rng.integers(1, 40))) for _ in range(60)]
    data = squad_data.data_of(
        *(paragraph_of(text, (f"q{n}", "who cat")) for n, text in enumerate(texts))
    )
    outputs, _, found, (chosen, nbest, _) = run(tmp_path, data, windows, settings)
    for row, example in enumerate(found.examples):
        expected = chosen[example.id]
        assert outputs["answer"][row].decode() == (
            "" if expected == "empty" else expected
        )
        if expected != "empty":
            (probability,) = (
                a["probability"] for a in nbest[example.id] if a["text"] == expected
            )
            assert outputs["probability"][row] == pytest.approx(probability, rel=1e-5)


# Texts in which normalization removes or adds characters (accents, vowel signs, Hangul,
# a zero width space), and texts with unknown words, of which the released program
# returns whole words. The span is the first and last token of the context.
FALLBACKS = [
    ("ab e\u0301cole, x", (2, 2), "e\u0301cole,"),
    ("ab \u00e9cole, x", (2, 2), "\u00e9"),  # one character stays one character
    ("\u0e1b\u0e35\u0e17\u0e35\u0e48 ab", (0, 0), "\u0e1b\u0e35\u0e17\u0e35\u0e48"),
    ("\u0e1b\u0e35\u0e17\u0e35\u0e48 ab", (1, 2), "\u0e1b\u0e35\u0e17\u0e35\u0e48 ab"),
    ("\u0e1b\u0e17 a", (0, 0), "\u0e1b"),  # without vowel signs
    ("\u0939\u093f\u0902\u0926\u0940 ab (ab", (0, 0), "\u0939\u093f\u0902\u0926\u0940"),
    ("\u0939\u093f\u0902\u0926\u0940 ab (ab", (7, 8), "ab"),
    ("(\u0643\u064e\u0628) ab", (1, 2), "(\u0643\u064e\u0628)"),
    ("\ud55c, ab", (0, 1), "\ud55c,"),
    ("a\u200bb ab", (0, 0), "a\u200bb"),
    ("ab \u200b a", (0, 2), "ab \u200b a"),
    ("zz, ab", (0, 0), "zz,"),
    ("zz, ab", (1, 3), ", ab"),
    ("a\u202fa\tb\r\na", (1, 2), "a\tb"),
    ("a\u00a0b a", (1, 1), "a\u00a0b"),
    ("  \u0e35 ab", (0, 1), "ab"),
]
MARKED = [
    *"abelox(),",
    *(f"##{piece}" for piece in "abcelo\u0e17"),
    "\u0e1b",
    "\u0939",
    "##\u0926",
    "##\u093f",
    "##\u0940",
    "\u0643",
    "##\u0628",
    "\u1112",
    "##\u1161",
    "##\u11ab",
]


@pytest.mark.parametrize("do_lower_case", [True, False], ids=["uncased", "cased"])
def test_combining_marks_give_the_answers_of_the_released_program(
    tmp_path, do_lower_case
):
    """The bytes between the first and last word, where characters do not match."""
    vocab = [*SPECIAL, *MARKED]
    tokenizer = bert_tf.BertTokenizer(vocab, do_lower_case)
    reference = Tokenizer(vocab, do_lower_case)
    data = squad_data.data_of(
        *(paragraph_of(text, (f"q{n}", "o")) for n, (text, *_) in enumerate(FALLBACKS))
    )
    logits = np.zeros([2, len(FALLBACKS), 32], np.float32)
    for row, (_, (first, last), _) in enumerate(FALLBACKS):
        logits[0, row, 3 + first], logits[1, row, 3 + last] = 9, 9
    outputs, contexts, _, (expected, nbest, _) = run(
        tmp_path,
        data,
        {"doc_stride": 128},
        {"n_best_size": 3},
        pair=(tokenizer, reference),
        length=32,
        logits=logits,
    )
    for row, (context, _, by_hand) in enumerate(FALLBACKS):
        answer, begin, end = (outputs[name][row] for name in ("answer", "start", "end"))
        assert answer == contexts[row][begin:end]
        if do_lower_case:
            assert answer.decode() == by_hand
        elif expected[f"q{row}"] == "empty":  # the cased tokens have no such span
            continue
        assert answer.decode().split() == expected[f"q{row}"].split(), context
        assert outputs["probability"][row] == pytest.approx(
            nbest[f"q{row}"][0]["probability"]
        )


def test_the_metric_of_an_export_counts_the_units_of_the_run():
    tokenizer, _ = tokenizers(True)
    model = bert_tf.BertSpanPredictor(
        dataclasses.replace(CONFIG, vocab_size=tokenizer.vocab_size)
    )
    outputs = {"answer": np.array(["東京都".encode()], object)}
    for facts, expected in (({}, 0.0), ({"f1_by": "characters"}, 80.0)):
        served = served_model(model, tokenizer, 16, **facts)
        assert served.metric(outputs, [("京都",)]) == ("f1", pytest.approx(expected))


def test_bytes_that_are_not_utf8_stay_in_the_answer():
    tokenizer, _ = tokenizers(True)
    config = dataclasses.replace(
        CONFIG, vocab_size=tokenizer.vocab_size, initializer_range=0.5
    )
    model = bert_tf.BertSpanPredictor(config, seed=2)
    served = served_model(model, tokenizer, 32, max_answer_length=100)
    context = b"the c\xe9at\xff  Caf\xc3\xa9 \xe7\x8c\xab who"
    outputs = served.from_texts(tf.constant(["who"]), tf.constant([context]))
    begin, end = int(outputs["start"][0]), int(outputs["end"][0])
    assert outputs["answer"].numpy()[0] == context[begin:end] != b""
