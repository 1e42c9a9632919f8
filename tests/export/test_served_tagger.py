"""Tags and entities of the graph, against the Python path and conlleval."""

import dataclasses
from collections import Counter

import export_models
import numpy as np
import pytest
import tensorflow as tf
from ner_data import tags_of
from reference import conlleval

import bert_tf
from bert_tf.export.served.tagger import TagTable
from bert_tf.export.served.tensor_operations import substrings
from bert_tf.tasks.ner import conll
from bert_tf.tasks.ner.ner_examples import NerExample
from bert_tf.tasks.ner.ner_results import NerResults
from bert_tf.tasks.ner.ner_task import NerTask
from bert_tf.tasks.splits import RowCounts
from bert_tf.tasks.task import DataLocation

TAGS = export_models.TAGS
WORDS = ["a", "b", "cab", "zebra", "é", "ab!c", "\ufe0f", "d", "a-b", "猫犬"]


@pytest.mark.parametrize("scheme", ["iob1", "iob2", "iobes"])
def test_tags_mark_the_entities_of_conlleval(scheme):
    """Random tags of all schemes, most of them in an order that no scheme permits."""
    rng = np.random.default_rng(0)
    labels = ["O", *(f"{prefix}-{kind}" for prefix in "BIES" for kind in ("x", "y-z"))]
    lengths = rng.integers(0, 8, 300)
    row = np.repeat(np.arange(300), lengths)
    label = rng.integers(0, len(labels), len(row)) * (rng.random(len(row)) < 0.8)
    words = TagTable(labels).words(
        tf.constant(label, tf.int32), tf.constant(row, tf.int64)
    )
    found = [tag.decode() for tag in words.tags(scheme).numpy()]
    firsts, lasts = np.flatnonzero(words.is_first), np.flatnonzero(words.is_last)
    kinds = [kind.decode() for kind in words.kind.numpy()[firsts]]
    expected_tags, expected = [], []
    for number, start in enumerate(np.cumsum(lengths) - lengths):
        size = lengths[number]
        entities = conlleval.entities(
            [labels[index] for index in label[start : start + size]]
        )
        expected_tags += tags_of(entities, size, scheme)
        expected += [(kind, start + a, start + b - 1) for kind, a, b in entities]
    assert found == expected_tags
    assert list(zip(kinds, firsts, lasts, strict=True)) == expected


@pytest.fixture(scope="module")
def model_and_tokenizer():
    tokens = [*export_models.VOCABULARY, "-", "!", "猫", "犬"]
    config = dataclasses.replace(export_models.CONFIG, vocab_size=len(tokens))
    return bert_tf.BertTagger(
        config, num_labels=len(TAGS), seed=5
    ), bert_tf.BertTokenizer(tokens)


def served_tagger(model, tokenizer, max_seq_length, scheme):
    facts = {"labels": TAGS, "scheme": scheme, "max_seq_length": max_seq_length}
    return export_models.served(model, tokenizer, **facts)


def python_tags(model, task, sentences, max_seq_length):
    """Returns the tags of `run_ner` for sentences."""
    examples = [
        NerExample(tuple(words), None, None, tuple(words)) for words in sentences
    ]
    encoded = task.encode(examples, task.tokenizer, max_seq_length)
    inputs = {
        name: encoded.columns[name].astype(np.int32)
        for name in ("input_ids", "input_mask", "segment_ids")
    }
    predictions = np.asarray(model(inputs)["logits"]).argmax(axis=-1)
    results, row = NerResults(task.labels, task.scheme, "", conll.render), 0
    for example, count in zip(examples, encoded.records_per_example, strict=True):
        outputs = [
            {
                "predictions": predictions[r],
                "label_ids": encoded.columns["label_ids"][r],
            }
            for r in range(row, row + count)
        ]
        yield results.decode(example, outputs)
        row += count


@pytest.mark.parametrize(
    ("scheme", "max_seq_length"),
    [
        ("iobes", 7),
        pytest.param("iob2", 3, marks=pytest.mark.medium),
        pytest.param("iob2", 7, marks=pytest.mark.medium),
        pytest.param("iobes", 3, marks=pytest.mark.medium),
    ],
)
def test_words_get_the_tags_of_run_ner(model_and_tokenizer, max_seq_length, scheme):
    model, tokenizer = model_and_tokenizer
    rng = np.random.default_rng(max_seq_length)
    sentences = [list(rng.choice(WORDS, rng.integers(1, 40))) for _ in range(30)]
    task = NerTask(tokenizer, tuple(TAGS), scheme)
    expected = list(python_tags(model, task, sentences, max_seq_length))
    assert len(Counter(tag for tags in expected for tag in tags)) > 2
    served = served_tagger(model, tokenizer, max_seq_length, scheme)
    signature = served.signatures()["words"]
    width = max(map(len, sentences)) + 2
    # Empty texts are no words: here before, between and after the words.
    padded = [["", *words[:1], "", *words[1:]] for words in sentences]
    padded = [words + [""] * (width - len(words)) for words in padded]
    outputs = signature(words=tf.constant(padded))
    tags, probabilities = outputs["tags"].numpy(), outputs["probabilities"].numpy()
    for words, row, values, wanted in zip(
        padded, tags, probabilities, expected, strict=True
    ):
        is_word = np.array([word != "" for word in words])
        assert [tag.decode() for tag in row[is_word]] == wanted
        assert not any(row[~is_word]) and not values[~is_word].any()
        assert (values[is_word] >= 1 / len(TAGS) - 1e-6).all()
    nothing = signature(words=tf.zeros([0, 0], tf.string))
    assert {tuple(value.shape) for value in nothing.values()} == {(0, 0)}
    without_words = signature(words=tf.constant([["", ""], ["", ""]]))
    assert without_words["tags"].numpy().tolist() == [[b"", b""], [b"", b""]]


def test_raw_texts_give_words_and_entities_with_their_bytes(model_and_tokenizer):
    model, tokenizer = model_and_tokenizer
    served = served_tagger(model, tokenizer, 7, "iob2")
    # U+FE0F is a combining mark; U+FEFF at the end of a word is not part of it.
    texts = [
        "a cab  É a-b 猫犬!",
        "",
        "zebra " * 30,
        "a\ufe0f b\ufeff\ufffd d",
        "\u200b",
        "d",
    ]
    words = [
        ["a", "cab", "É", "a", "-", "b", "猫", "犬", "!"], [], ["zebra"] * 30,
        ["a\ufe0f", "b", "d"], [], ["d"],
    ]  # fmt: skip
    outputs = {
        name: each.numpy()
        for name, each in served.from_texts(tf.constant(texts)).items()
    }
    width = max(map(len, words))
    split = tf.constant([row + [""] * (width - len(row)) for row in words])
    by_words = served._from_words(split)
    assert outputs["tags"].tolist() == by_words["tags"].numpy().tolist()
    np.testing.assert_allclose(
        outputs["probabilities"], by_words["probabilities"], atol=1e-6
    )
    assert sum(map(bool, outputs["entities"].reshape(-1))) > 3
    for number, text in enumerate(texts):
        row = {name: each[number] for name, each in outputs.items()}
        found = [word.decode() for word in row["words"] if word]
        assert found == words[number]
        places = list(zip(row["start"], row["end"], strict=True))[: len(found)]
        assert [text.encode()[a:b].decode() for a, b in places] == found
        expected = conlleval.entities([tag.decode() for tag in row["tags"] if tag])
        spans = [(kind, places[a][0], places[b - 1][1]) for kind, a, b in expected]
        kinds = [kind.decode() for kind in row["entity_types"] if kind]
        assert (
            list(zip(kinds, row["entity_start"], row["entity_end"], strict=False))
            == spans
        )
        cut = [text.encode()[a:b] for _, a, b in spans]
        assert [entity for entity in row["entities"] if entity] == cut


@pytest.mark.slow
def test_real_sentences_get_the_tags_of_run_ner(test_data, max_seq_length=24):
    tokenizer = bert_tf.BertTokenizer(
        str(test_data / "data/vocab/bert-base-uncased-vocab.txt")
    )
    config = dataclasses.replace(
        export_models.CONFIG,
        vocab_size=len(tokenizer.vocabulary),
        max_position_embeddings=128,
    )
    model = bert_tf.BertTagger(config, num_labels=len(TAGS), seed=5)
    task = NerTask(tokenizer, tuple(TAGS))
    path = test_data / "data/ner/wnut17_dev.conll"
    (split,) = task.splits("test", DataLocation(test_file=str(path)))
    sentences = [list(each.words) for each in task.read(split, RowCounts())]
    expected = list(python_tags(model, task, sentences, max_seq_length))
    assert (
        len(sentences) == 1009 and len({tag for tags in expected for tag in tags}) > 2
    )
    predictor = served_tagger(model, tokenizer, max_seq_length, "iob2")
    by_words, by_text = (
        predictor.signatures()[name] for name in ("words", "serving_default")
    )
    same_split = 0
    for first in range(0, len(sentences), 64):
        batch = sentences[first : first + 64]
        width = max(map(len, batch))
        split_texts = [words + [""] * (width - len(words)) for words in batch]
        tags = by_words(words=tf.constant(split_texts))["tags"].numpy()
        texts = tf.constant([" ".join(words) for words in batch])
        raw = {name: value.numpy() for name, value in by_text(text=texts).items()}
        for row, words in enumerate(batch):
            wanted = [tag.encode() for tag in expected[first + row]]
            assert tags[row, : len(words)].tolist() == wanted
            found = [word.decode() for word in raw["words"][row] if word]
            if found == words:  # the tokenizer splits the text as the file does
                same_split += 1
                assert raw["tags"][row, : len(words)].tolist() == wanted
    assert same_split > 200


def test_parts_of_texts_are_those_of_python():
    rng = np.random.default_rng(0)
    texts = ["", "a", "żółw 猫 " * 20, "x" * 300]
    encoded = [text.encode() for text in texts]
    row = rng.integers(0, len(texts), 200)
    ends = np.array([rng.integers(0, len(encoded[each]) + 1, 2) for each in row])
    begin, end = np.sort(ends, axis=1).T.astype(np.int32)
    found = substrings(tf.constant(texts), row, begin, end).numpy().tolist()
    expected = [encoded[r][a:b] for r, a, b in zip(row, begin, end, strict=True)]
    assert found == expected
    row, place = np.zeros(0, np.int64), np.zeros(0, np.int32)
    for batch in (texts, []):
        assert substrings(tf.constant(batch, tf.string), row, place, place).shape == (
            0,
        )
