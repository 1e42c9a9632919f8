"""The right answers of examples of all tasks, and the predictions that are wrong."""

import pytest

from bert_tf.export import dev_examples

LABELS = {"labels": ["a", "b c", "true", "10"], "task_type": "classification"}
SEVERAL = {**LABELS, "task_type": "multi_label"}
SCORE = {"labels": [], "task_type": "regression"}
TAGS = ["B-PER", "I-PER", "O"]


@pytest.mark.parametrize(
    ("kind", "facts", "row", "expected", "wrong"),
    [
        ("label", LABELS, {"label": " b c "}, ["b c"], "a"),
        ("label", LABELS, {"label": True}, ["true"], "True"),
        ("label", LABELS, {"label": 10}, ["10"], "a"),
        # A row without a label of the model, with columns of other tasks.
        ("label", LABELS, {"label": "x", "tags": "O", "answers": 3}, [], None),
        ("label", LABELS, {"text": "a"}, [], None),
        ("labels", SEVERAL, {"label": ["true", "a"]}, ["a,true"], "a"),
        ("labels", SEVERAL, {"label": "true, a"}, ["a,true"], "true"),
        ("labels", SEVERAL, {"label": []}, [""], "a"),
        ("score", SCORE, {"label": "2.50"}, ["2.5"], None),
        ("choice", {}, {"choices": ["x", "y"], "label": 1}, ["y"], "x"),
        ("choice", {}, {"choices": ["x", "y"], "label": 2}, [], None),
        ("choice", {}, {"choices": ["x", "y"], "label": "B"}, [], None),
        ("answer", {}, {"answers": ["The man", "he"]}, ["The man", "he"], "woman"),
        ("answer", {}, {"answers": []}, [""], "he"),
        ("answer", {}, {"answers": {"text": ["he"]}}, [], None),
        (
            "entities", LABELS, {"tokens": ["Ann", "Li", "met"], "tags": TAGS},
            ["[PER Ann Li]"], "[LOC Ann Li]",
        ),
        ("masks", {}, {"label": "a"}, [], None),
    ],
)  # fmt: skip
def test_right_answers(kind, facts, row, expected, wrong):
    assert dev_examples.right_answers(row, kind, facts) == expected
    for text in expected:
        assert dev_examples.is_right(text, kind, expected)
    assert wrong is None or not dev_examples.is_right(wrong, kind, expected)


def test_answers_may_differ_in_case_and_articles_and_scores_are_never_wrong():
    assert dev_examples.is_right("man.", "answer", ["he", "The Man"])
    assert not dev_examples.is_right("Man", "label", ["man"])
    assert dev_examples.is_right("1.0000", "score", ["2.5"])
