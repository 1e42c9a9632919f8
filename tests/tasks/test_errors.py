"""The lists of errors of all tasks, from literal predictions, and the picture of them."""

import json

import numpy as np
import pytest

from bert_tf.tasks.choice.choice_examples import ChoiceExample
from bert_tf.tasks.choice.choice_task import ChoiceResults
from bert_tf.tasks.classification.classification_results import (
    ClassificationResults,
    MultiLabelResults,
    RegressionResults,
)
from bert_tf.tasks.classification.text_examples import TextExample
from bert_tf.tasks.ner.ner_examples import NerExample
from bert_tf.tasks.ner.ner_results import NerResults
from bert_tf.tasks.squad.best_answers import Answer, AnswerSettings, BestAnswers
from bert_tf.tasks.squad.squad_examples import SquadExample
from bert_tf.tasks.squad.squad_results import SquadResults


def errors_of(results, pairs):
    for example, prediction in pairs:
        results.add(example, prediction)
    return [json.loads(line) for line in results.errors()]


def probabilities(*values):
    found = np.array(values, np.float32)
    return {"probabilities": found, "logits": np.log(found + 1e-9)}


def wrong_pairs(shares):
    """Returns numbered texts of the label no, with these probabilities of yes."""
    return [
        (TextExample(str(number), None, "no"), probabilities(1 - share, share))
        for number, share in enumerate(shares)
    ]


def test_the_most_confident_mistakes_of_a_classifier_are_first():
    pairs = [
        (TextExample("right", "b", "no"), probabilities(0.75, 0.25)),
        (TextExample("unsure", "b", "no"), probabilities(0.375, 0.625)),
        (TextExample("no label", "b"), probabilities(0.0625, 0.9375)),
        (
            TextExample("sure", "b", "yes", ("q", "s", "label")),
            probabilities(0.75, 0.25),
        ),
        (TextExample("as sure", "b", "no"), probabilities(0.25, 0.75)),
    ]
    assert errors_of(ClassificationResults(("no", "yes")), pairs) == [
        {"q": "sure", "s": "b", "label": "yes", "predicted": "no", "probability": 0.75},
        {"text_a": "as sure", "text_b": "b", "label": "no", "predicted": "yes",
         "probability": 0.75},
        {"text_a": "unsure", "text_b": "b", "label": "no", "predicted": "yes",
         "probability": 0.625},
    ]  # fmt: skip


def test_the_largest_wrong_label_of_several_decides():
    names, rows = ("a", "b", "c"), [
        (("a",), (0.75, 0.25, 0.125)),  # right
        (("a",), (0.75, 0.625, 0.125)),  # b is wrong by 0.625
        ((), (0.25, 0.25, 0.75)),  # c is wrong by 0.75
        (("a", "b"), (0.0625, 0.75, 0.625)),  # a is wrong by 0.9375
    ]  # fmt: skip
    pairs = [
        (TextExample(str(number), None, label), probabilities(*values))
        for number, (label, values) in enumerate(rows)
    ]
    found = errors_of(MultiLabelResults(names), pairs)
    assert [row["text_a"] for row in found] == ["3", "2", "1"]
    assert found[0]["label"] == ["a", "b"] and found[0]["predicted"] == ["b", "c"]


def test_scores_are_ordered_by_their_distance():
    values = [(1.0, 1.0), (2.0, 1.5), (-3.0, 4.0)]  # label and score
    pairs = [
        (
            TextExample(str(number), None, label),
            {"score": np.float32(score), "logits": np.array([score], np.float32)},
        )
        for number, (label, score) in enumerate(values)
    ]
    assert errors_of(RegressionResults(), pairs) == [
        {"text_a": "2", "label": -3.0, "score": 4.0},
        {"text_a": "1", "label": 2.0, "score": 1.5},
    ]


def test_choices_are_ordered_by_probability():
    padded = [(0.75, 0.25, 0.0), (0.125, 0.625, 0.25), (0.25, 0.75, 0.0)]
    examples = [
        ChoiceExample("two", ("a", "b"), 1),
        ChoiceExample("three", ("a", "b", "c"), 2),
        ChoiceExample("right", ("a", "b"), 1),
    ]
    pairs = [
        (example, {**probabilities(*row), "logits": np.zeros(3, np.float32)})
        for example, row in zip(examples, padded, strict=True)
    ]
    found = errors_of(ChoiceResults(), pairs)
    assert [(row["context"], row["label"], row["choice"]) for row in found] == [
        ("two", 1, "a"),
        ("three", 2, "b"),
    ]


def test_sentences_are_ordered_by_their_wrong_entities():
    words = ("Ann", "Smith", "left")
    sentences = [
        (("B-PER", "I-PER", "O"), ["B-PER", "I-PER", "O"]),  # right
        (("O", "O", "O"), ["B-PER", "O", "O"]),  # one entity too many
        (("B-PER", "I-PER", "O"), ["B-PER", "B-LOC", "B-LOC"]),  # 1 lost, 3 wrong
        (None, ["B-PER", "O", "O"]),  # not known
    ]
    results = NerResults(["O", "B-PER", "I-PER", "B-LOC"], "iob2", "file", None)
    pairs = [(NerExample(words, tags, None, 0), found) for tags, found in sentences]
    assert errors_of(results, pairs) == [
        {"tokens": [*words], "tags": [*sentences[n][0]], "predicted": sentences[n][1]}
        for n in (2, 1)
    ]


def test_questions_are_ordered_by_f1_and_then_by_probability():
    def example(name, *answers):
        return SquadExample(name, f"{name}?", ("a", "b"), "a b", answers)

    def prediction(text, probability):
        answers = (Answer(text, 1.0, 1.0), Answer("other", 0.0, 0.0))
        return BestAnswers(answers, (probability, 1 - probability))

    pairs = [
        (example("half", "b c"), prediction("b", 0.9)),
        (example("unsure", "b"), prediction("a d", 0.25)),
        (example("right", "x", "B"), prediction("b", 0.9)),
        (example("sure", "b", "b"), prediction("c d", 0.75)),
    ]
    found = errors_of(SquadResults(AnswerSettings()), pairs)
    assert [row["id"] for row in found] == ["sure", "unsure", "half"]
    assert found[0] == {
        "id": "sure", "question": "sure?", "context": "a b", "answers": ["b"],
        "predicted": "c d", "probability": 0.75, "f1": 0.0,
    }  # fmt: skip
    assert found[2]["f1"] == pytest.approx(2 / 3)


@pytest.mark.parametrize("count", [199, 200, 1000])
def test_the_worst_200_are_kept(count):
    shares = np.random.default_rng(0).permutation(count) / (3 * count) + 0.6
    rows = errors_of(ClassificationResults(("no", "yes")), wrong_pairs(shares))
    found = [row["text_a"] for row in rows]
    assert found == list(map(str, np.argsort(-shares)[:200].tolist()))


def test_the_picture_of_the_confusion_matrix():
    results = ClassificationResults(("no", "yes"))
    for label, share, count in (("no", 0.25, 3), ("no", 0.75, 1), ("yes", 0.75, 2)):
        for _ in range(count):
            results.add(TextExample("a", None, label), probabilities(1 - share, share))
    image = results.image()
    assert image.dtype == np.uint8 and image.shape[0] == image.shape[1]
    size = len(image) // 2
    white, full = np.full(3, 255), image[size + size // 2, size + size // 2]
    assert full.max() < 128  # both examples of "yes"
    centers = image[size // 2 :: size, size // 2 :: size].astype(float)
    shares = (white - centers) / (white - full)  # [2, 2, 3]
    expected = np.array([[0.75, 0.25], [0, 1]])
    np.testing.assert_allclose(shares, np.stack([expected] * 3, -1), atol=0.01)


def test_many_labels_have_no_picture():
    names = tuple(map(str, range(31)))
    for count, shape in ((30, (720, 720, 3)), (31, None)):
        results = ClassificationResults(names[:count])
        results.add(TextExample("a", None, "0"), probabilities(*np.ones(count)))
        image = results.image()
        assert (None if image is None else image.shape) == shape


def test_predictions_that_are_not_finite_are_left_out():
    """Their order is not defined, and a line of JSON cannot have them."""
    pairs = wrong_pairs([0.75, np.nan, 0.875])
    found = errors_of(ClassificationResults(("no", "yes")), pairs)
    assert [row["text_a"] for row in found] == ["2", "0"]

    choices = ChoiceExample("nan", ("a", "b"), 0)
    prediction = {**probabilities(0.5, np.nan), "logits": np.zeros(2, np.float32)}
    assert errors_of(ChoiceResults(), [(choices, prediction)]) == []
    infinite = {"score": np.float32(np.inf), "logits": np.array([np.inf], np.float32)}
    assert (
        errors_of(RegressionResults(), [(TextExample("a", None, 1.0), infinite)]) == []
    )
