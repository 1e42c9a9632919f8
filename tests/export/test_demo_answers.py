"""The bars, marks and tables of literal answers, and of those of exported models."""

import itertools
import math

import export_models
import numpy as np
import pytest
from model_file_checks import predictor as predictor_of

from bert_tf.errors import InputError
from bert_tf.export import demo_answers


def show(answer, *texts):
    one = answer[0] if isinstance(answer, list) else answer
    return demo_answers.show(demo_answers.kind_of(one), texts, answer)


def test_labels_become_bars():
    bars = {"<b>good</b>": 0.75, "bad": 0.25}
    answer = {"label": "<b>good</b>", "probability": 0.75, "probabilities": bars}
    found = show({**answer, "truncated": False}, "a")
    assert found.headline == "<b>good</b>  0.7500" and found.bars == bars

    found = show({"labels": ["a", "b"], "probabilities": {"a": 0.9, "b": 0.8}}, "a")
    assert found.headline == "a,b" and found.bars == {"a": 0.9, "b": 0.8}
    found = show({"labels": [], "probabilities": {"a": 0.1}}, "a")
    assert found.headline == "(no label)"

    assert show({"score": 3.14159, "truncated": True}, "a").headline == "3.1416"


def answer_at(context, text, **values):
    """Returns the answer to a question, which is a part of the context."""
    start = len(context[: context.index(text)].encode())
    values = {"probability": 0.5, "no_answer": False, **values}
    end = start + len(text.encode())
    return {"answer": text, "start": start, "end": end, "score": 1.0, **values}


def test_an_answer_is_marked_in_its_context():
    context = "é Ann lived in 猫 Zürich."
    found = show(answer_at(context, "猫 Zürich"), "Where?", context)
    assert found.headline == "猫 Zürich  0.5000"
    assert found.parts == [
        ("é Ann lived in ", None),
        ("猫 Zürich", "0.5000"),
        (".", None),
    ]

    found = show(answer_at(context, "", no_answer=True), "Where?", context)
    assert found.headline == "(no answer)  0.5000"
    assert found.parts == [(context, None)]
    assert show(answer_at("", "", no_answer=True), "", "").parts == []


def test_entities_are_marked_with_their_types():
    text = "Ænn <i>met</i> Bob Li"
    words = {"start": [0, 16, 20], "probabilities": [0.75, 0.5, 0.25]}
    ann = {"text": "Ænn", "type": "PER", "start": 0, "end": 4}
    bob = {"text": "Bob Li", "type": "LOC", "start": 16, "end": 22}
    found = show({"entities": [ann, bob], **words}, text)
    assert found.headline == "Ænn, Bob Li"
    assert found.parts == [
        ("Ænn", "PER 0.75"), (" <i>met</i> ", None), ("Bob Li", "LOC 0.38"),
    ]  # fmt: skip
    found = show({"entities": [ann], **words}, text)
    assert found.parts == [("Ænn", "PER 0.75"), (" <i>met</i> Bob Li", None)]
    assert show({"entities": []}, "").headline == "(no entity)"


class Length:
    """A model whose score is the number of characters of both texts."""

    names, list_names, max_seq_length = ("text_a", "text_b"), (), 9

    def __call__(self, *columns):
        if isinstance(columns[0], str):
            return {"score": len("".join(columns))}
        return [self(*texts) for texts in zip(*columns, strict=True)]


def test_the_words_that_matter_are_marked():
    texts = ("a (bb) <i>", "cccc!")
    shown, facts = demo_answers.ask(Length(), "score", texts, effects=True)
    assert shown.headline == "15.0000"
    assert "without 'cccc', the score changes by -4.0000; red words" in facts
    assert shown.parts == [
        ("", None), ("a", 0.25), (" (", None), ("bb", 0.5), (") <", None), ("i", 0.25),
        (">\n", None), ("", None), ("cccc", 1), ("!\n", None),
    ]  # fmt: skip
    shown, facts = demo_answers.ask(Length(), "score", ("", "-"), effects=True)
    assert shown.parts is None and facts.endswith("there is no word")


@pytest.mark.medium
@pytest.mark.parametrize(
    "format", ["both", pytest.param("onnx", marks=pytest.mark.slow)]
)
def test_the_types_of_an_entity(exported, format):
    path = exported("tagging", format)
    predictor = predictor_of(f"{path}/onnx/float32.onnx" if format == "onnx" else path)
    texts = list(map(" ".join, itertools.permutations("abcdefgh", 4)))[::50]
    answers = zip(texts, predictor(texts), strict=True)
    text, answer = next(pair for pair in answers if pair[1]["entities"])
    tags = predictor.tag_probabilities(answer["words"])
    assert tags.shape == (4, 5)
    np.testing.assert_allclose(tags.max(1), answer["probabilities"], atol=1e-5)
    assert predictor.tag_probabilities(["a"] * 20) is None

    entity = answer["entities"][0]
    begin, end = entity["start"], entity["end"]
    mean = tags[[n for n, s in enumerate(answer["start"]) if begin <= s < end]].mean(0)
    types = {"no entity": mean[0], "ž": mean[1] + mean[2], "x-y": mean[3] + mean[4]}
    best = sorted(types, key=types.get, reverse=True)[:2]
    parts = [(text[:begin], None), (text[begin:end], "mark"), (text[end:], None)]
    found = demo_answers.second_best(predictor, ["another text"], parts, 1)
    expected = ", ".join(f"{name} {types[name]:.2f}" for name in best)
    assert found == f"{entity['text']}: {expected}"


@pytest.mark.medium
def test_the_second_best_answer(exported):
    predictor = predictor_of(exported("span"))
    parts = [("b c ", None), ("d e", "0.5"), (" f g h", None)]
    other = predictor("a", "b c   f g h")
    found = demo_answers.second_best(predictor, ["a", "another context"], parts, 1)
    assert other["answer"]
    assert found.endswith(f"is: {other['answer']}  {other['probability']:.4f}")


def test_choices_keep_their_numbers():
    answer = {
        "choice": "b", "index": 1, "probability": 0.5,
        "probabilities": [0.25, 0.5, 0.25, 0.0], "ranking": [1, 0, 2, 3],
    }  # fmt: skip
    found = show(answer, "context", ["a", "b", "a", ""])
    assert found.headline == "b  0.5000"
    assert list(found.bars.items()) == [("2. b", 0.5), ("1. a", 0.25), ("3. a", 0.25)]
    none = {"choice": "", "index": -1, "probability": 0.0, "probabilities": []}
    assert show({**none, "ranking": []}, "context", []).headline == "(no answer)"


def test_each_mask_has_a_column():
    answer = {"masks": [
        {"probabilities": {"Paris": 0.5, "[MASK]": 0.25}},
        {"probabilities": {"of": 0.75, "in": 0.125}},
    ]}  # fmt: skip
    found = show(answer, "[MASK] is the capital [MASK] France")
    assert found.headline == "Paris 0.5000, of 0.7500"
    assert found.table == [
        ["[MASK] 1", "[MASK] 2"], ["Paris  0.500", "of  0.750"],
        ["[MASK]  0.250", "in  0.125"],
    ]  # fmt: skip
    assert show({"masks": []}, "a").headline.startswith("Write [MASK]")
    assert "after the part" in show({"masks": []}, "a [MASK]").headline


def test_similarities_are_cosines():
    vectors = [[1, 0], [0, 2], [3, 3], [0, 0]]
    answer = [{"embedding": np.array(each, np.float32)} for each in vectors]
    lines = ["a", "b" * 50, "c", ""]
    found = show(answer, lines)
    half = round(math.sqrt(0.5), 3)
    assert found.table == [
        ["", "1", "2", "3", "4"],
        ["1. a", 1, 0, half, 0], [f"2. {'b' * 40}", 0, 1, half, 0],
        ["3. c", half, half, 1, 0], ["4. ", 0, 0, 0, 0],
    ]  # fmt: skip


@export_models.EACH_KIND
def test_all_kinds_of_models_have_an_example_that_is_shown(exported, kind):
    predictor = predictor_of(exported(kind))
    names, lists = predictor.names, predictor.list_names
    found = demo_answers.kind_of(
        predictor(*(["a"] if name in lists else "a" for name in names))
    )
    texts = demo_answers.example_of(found, len(names))
    boxes = [text if isinstance(text, str) else "\n".join(text) for text in texts]
    shown, facts = demo_answers.ask(predictor, found, boxes)
    details = {
        "span": "parts", "tagging": "parts", "fill_mask": "table", "embedding": "table",
        "regression": "headline",
    }  # fmt: skip
    assert getattr(shown, details.get(kind, "bars"))
    if shown.parts:  # the parts are the text
        assert "".join(part for part, _ in shown.parts) == boxes[-1]
    length = predictor.max_seq_length
    assert f" ms; sequences of at most {length} tokens" in facts

    # Texts are limited, and an empty one has an answer.
    empty, _ = demo_answers.ask(predictor, found, [""] * len(names))
    assert empty.headline
    has_lines = bool(lists) or kind == "embedding"
    for text in ("a" * 10_001, *(["a\n" * 51] * has_lines)):
        shown, facts = demo_answers.ask(predictor, found, [text] * len(names))
        assert (facts, shown.bars, shown.parts, shown.table) == ("", None, None, None)
        assert "at most 10,000 characters and 50 lines" in shown.headline


def test_a_long_text_and_an_error_are_reported(exported):
    predictor = predictor_of(exported("classification"))
    _, facts = demo_answers.ask(predictor, "label", ["a " * 100])
    assert facts.endswith("; the text is longer, and its rest was not read")

    class Broken:
        names, list_names = ("text",), ()

        def __call__(self, text):
            raise InputError("The files are damaged.")

    shown, facts = demo_answers.ask(Broken(), "label", ["a"])
    assert (shown.headline, facts) == ("The files are damaged.", "")
