"""word_effects: against a plain loop, and literal words, sentences and groups."""

import pytest
from model_file_checks import need_packages, path_of

import bert_tf


class Counter:
    """A model whose score is the number of some words and characters in its texts."""

    list_names = ()

    def __init__(self, *names):
        self.names = names

    def __call__(self, *columns):
        if isinstance(columns[0], str):
            return {"score": self.score(*columns)}
        return [{"score": self.score(*texts)} for texts in zip(*columns, strict=True)]

    def score(self, *texts):
        return sum(text.count("good") - text.count("bad") for text in texts)


def test_words_are_separated_by_white_space_and_punctuation():
    text = (
        '"Good," he said... 東京です。isn\'t हिन्दी – 😀 well-known,(good)! -- 3.5 C++'
    )
    found = bert_tf.word_effects(Counter("text"), text)
    assert [word.word for word in found] == [
        "Good", "he", "said", "東", "京", "です", "isn't", "हिन्दी", "😀", "well-known", "good",
        "3.5", "C",
    ]  # fmt: skip
    assert all(text[word.start : word.end] == word.word for word in found)
    assert [word.word for word in found if word.effect] == ["good"]


def test_both_texts_of_a_pair_have_effects():
    found = bert_tf.word_effects(Counter("text_a", "text_b"), "a good", "bad bad")
    assert found == [
        ("text_a", "a", 0, 1, 0), ("text_a", "good", 2, 6, 1),
        ("text_b", "bad", 0, 3, -1), ("text_b", "bad", 4, 7, -1),
    ]  # fmt: skip
    assert bert_tf.word_effects(Counter("text_a", "text_b"), " ", "") == []


def test_the_strongest_sentence_of_a_long_text_is_split():
    long = 'It is "3.5 m." ' * 60 + "Good is good, bad, good. " + "\n... Is it?" * 20
    found = bert_tf.word_effects(Counter("text"), long)
    assert len(found) == 60 + 5 + 20
    assert {word.word: word.effect for word in found} == {
        'It is "3.5 m."': 0, "Good": 0, "is": 0, "good": 1, "bad": -1, "Is it?": 0,
    }  # fmt: skip
    # A sentence can begin with any word, such as an emoji.
    found = bert_tf.word_effects(Counter("text"), "😀 " * 201 + "\n" + "bad 😀")
    assert [word.word for word in found if word.effect] == ["bad"]
    assert len(bert_tf.word_effects(Counter("text"), "😀 " * 201)) == 101
    # Successive sentences or words are left out together.
    for text, size in (("a b. " * 450, 6), ("a good b " * 450, 7)):
        found = bert_tf.word_effects(Counter("text"), text)
        assert 100 < len(found) <= 201
        assert max(len(word.word.split()) for word in found) == size


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("classification", "saved_model"),
        pytest.param("pair", "tflite", marks=pytest.mark.medium),
        pytest.param("pair", "onnx", marks=pytest.mark.medium),
        pytest.param("multi_label", "onnx", marks=pytest.mark.medium),
        pytest.param("regression", "tflite", marks=pytest.mark.medium),
    ],
)
def test_effects_equal_a_plain_loop(exported, kind, name):
    if name == "saved_model":
        path = exported(kind)
    else:
        need_packages(name)
        path = path_of(exported, name, kind)
    predictor = bert_tf.Predictor(path)
    texts = ["a b c d e f g"] * len(predictor.names)
    found = bert_tf.word_effects(predictor, *texts)
    assert len(found) == 7 * len(texts)

    def value(answer):
        return answer["probabilities"][label] if label else answer["score"]

    whole = predictor(*texts)
    label = next(iter(whole.get("probabilities", [None])))
    for word in found:
        shorter = [
            text[: word.start] + text[word.end :] if text_name == word.name else text
            for text_name, text in zip(predictor.names, texts, strict=True)
        ]
        expected = value(whole) - value(predictor(*shorter))
        assert word.effect == pytest.approx(expected, abs=1e-6)
    assert max(abs(word.effect) for word in found) > 1e-4


@pytest.mark.medium
def test_other_models_and_lists_are_refused(exported):
    cases = {"embedding": ["a"], "choice": ["a", ["b"]], "pair": [["a"], ["b"]]}
    for kind, texts in cases.items():
        with pytest.raises(bert_tf.InputError, match="takes one text, or one pair"):
            bert_tf.word_effects(bert_tf.Predictor(exported(kind)), *texts)
