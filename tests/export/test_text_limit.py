"""`truncated` of predictions, compared with the number of tokens of the reference."""

import export_models
import pytest
from model_file_checks import need_packages, path_of, predictor
from reference.tokenizer import Tokenizer
from tiny_bert import SPECIAL

import bert_tf
from bert_tf.export.text_limit import num_tokens, reads_starts_only

LENGTH = 12
TEXTS = [
    "",
    *("a " * count for count in (8, 9, 10, 11, 12)),
    "i" * 50,
    "é,猫" * 3,
    "b " * 5,
]
CUTTING = ("classification", "pair", "multi_label", "regression", "choice")
WITH_WINDOWS = ("span", "tagging")


def reference_tokens(text):
    return len(Tokenizer(export_models.VOCABULARY, True).tokenize(text))


@pytest.mark.parametrize("kind", export_models.with_tiers(CUTTING))
def test_a_text_is_truncated_if_it_has_more_tokens(exported, kind):
    limited = predictor(exported(kind), batch_size=3)
    assert limited.max_seq_length == LENGTH
    columns = export_models.inputs_of(kind, TEXTS)
    if kind == "choice":
        columns["choices"] = [[], ["a"], ["", "a " * 12], *columns["choices"][3:]]
    expected = []
    for row in zip(*columns.values(), strict=True):
        lists = [text if isinstance(text, list) else [text] for text in row]
        most = sum(max(map(reference_tokens, texts), default=0) for texts in lists)
        expected.append(most + 1 + len(row) > LENGTH)
    found = [each["truncated"] for each in limited(*columns.values())]
    assert found == expected and set(found) == {True, False}


def test_special_tokens_in_a_text_are_one_token(exported):
    filler = predictor(exported("fill_mask"))
    length = filler.max_seq_length
    texts = ["[MASK] " * (length - 2), "[MASK] " * (length - 1)]
    assert [each["truncated"] for each in filler(texts)] == [False, True]
    scorer = predictor(exported("fill_mask"), signature="score")
    assert scorer("[MASK] " * 3)["truncated"] is False


@pytest.mark.parametrize("kind", export_models.with_tiers(WITH_WINDOWS))
def test_models_with_windows_truncate_nothing(exported, kind):
    reader = predictor(exported(kind))
    found = reader(*(["a " * 100] for _ in reader.names))
    assert "truncated" not in found[0]


def test_windows_of_a_classifier_are_none_of_an_embedder():
    facts = {"long_texts": "windows"}
    assert not reads_starts_only(facts, ["label", "probabilities"])
    assert reads_starts_only(facts, ["embedding"])
    assert reads_starts_only({}, ["label", "probabilities"])


@pytest.mark.parametrize(
    "name", ["tflite", pytest.param("onnx", marks=pytest.mark.medium)]
)
def test_files_state_it_too(exported, name):
    need_packages(name)
    pairs = predictor(path_of(exported, name, "pair"))
    found = pairs(["a " * 4, "a " * 4], ["a " * 5, "a " * 6])
    assert [each["truncated"] for each in found] == [False, True]


def test_letters_that_become_several_tokens():
    """The parts of a decomposed letter are tokens, but not more than it has bytes."""
    vocabulary = [*SPECIAL, "\u1100", "##\u1100", "##\u1161", "##\u11a8", "i", "##i"]
    tokenizer = bert_tf.BertTokenizer(vocabulary)
    texts = [text.encode() for text in ("\uac01" * 3, "\u0130" * 4, "")]
    counts = num_tokens([texts], tokenizer).tolist()
    assert counts == [9, 4, 0]
    assert all(count <= len(text) for count, text in zip(counts, texts, strict=True))
