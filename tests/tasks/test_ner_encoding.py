"""The records of sentences: labels, windows, context, and words without pieces."""

import random

import numpy as np
import pytest
from ner_data import make_task, read
from reading import write
from reference import squad as oracle
from squad_data import WORDS, tokenizers

from bert_tf.tasks.ner.ner_encoding import EMPTY_WORDS, SEVERAL_WINDOWS
from bert_tf.tasks.ner.ner_examples import NerExample, join_documents
from bert_tf.tasks.ner.ner_task import NerTask

LABELS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
TAGS = ["O", "O", "B-PER", "B-LOC", "I-PER", "I-LOC", "S-PER"]


def sentence(words, tags=None):
    words = tuple(words)
    return NerExample(words, None if tags is None else tuple(tags), None, words)


def random_sentences(seed, count, longest):
    rng = random.Random(seed)
    for _ in range(count):
        words = rng.choices([word for word in WORDS if word], k=rng.randint(1, longest))
        yield sentence(words, rng.choices(TAGS, k=len(words)))


def encode(examples, length, context=False, do_lower_case=True, labels=LABELS):
    task = NerTask(tokenizers(do_lower_case)[0], labels, document_context=context)
    return task.encode(list(examples), task.tokenizer, length)


def pieces_of(words, do_lower_case=True):
    """Returns the ids of each word by the released rules; at least [UNK]."""
    reference = tokenizers(do_lower_case)[1]
    return [reference.tokenize(word) or [reference.ids["[UNK]"]] for word in words]


def expected_records(example, length, do_lower_case):
    """Returns pairs of ids and labels, with the windows of run_squad."""
    room = length - 2
    ids = tokenizers(do_lower_case)[1].ids
    pieces = pieces_of(example.words, do_lower_case)
    first = np.cumsum([0, *map(len, pieces)]).tolist()
    flat = [piece for word in pieces for piece in word]
    task = make_task(LABELS)
    tags = task.as_row(example)["tags"]
    spans = oracle.doc_spans(len(flat), room, max(1, room // 2))
    best = [oracle.max_context_span(spans, place) for place in first[:-1]]
    for index, (start, size) in enumerate(spans):
        labels = [0] * length
        for place, tag, window in zip(first, tags, best, strict=False):
            if window == index:
                labels[1 + place - start] = 1 + LABELS.index(tag)
        if any(labels):
            sequence = [ids["[CLS]"], *flat[start : start + size], ids["[SEP]"]]
            yield sequence + [ids["[PAD]"]] * (length - len(sequence)), labels


@pytest.mark.parametrize("do_lower_case", [True, False], ids=["uncased", "cased"])
@pytest.mark.parametrize("length", [3, 4, 5, 9, 16, 40])
def test_random_sentences(length, do_lower_case):
    examples = list(random_sentences(length, 60, 30))
    found = encode(examples, length, do_lower_case=do_lower_case)
    expected = [
        list(expected_records(each, length, do_lower_case)) for each in examples
    ]
    assert found.records_per_example.tolist() == [len(each) for each in expected]
    ids, labels = zip(*(record for each in expected for record in each), strict=True)
    assert found.columns["input_ids"].tolist() == list(ids)
    assert found.columns["label_ids"].tolist() == list(labels)
    sep = tokenizers(do_lower_case)[0].sep_id
    ends = [row.index(sep) for row in found.columns["input_ids"].tolist()]
    assert found.columns["input_mask"].sum(axis=1).tolist() == [end + 1 for end in ends]
    assert not found.columns["segment_ids"].any()
    several = sum(len(each) > 1 for each in expected)
    assert found.counts[SEVERAL_WINDOWS] == several
    # Each word has exactly one label, in the order of the words.
    tags = [tag for each in examples for tag in make_task(LABELS).as_row(each)["tags"]]
    given = found.columns["label_ids"]
    assert [LABELS[index - 1] for index in given[given > 0]] == tags


def test_the_first_piece_has_the_label():
    found = encode([sentence(["cats", "unable", "a"], ["B-PER", "I-PER", "O"])], 9)
    assert found.columns["label_ids"].tolist() == [[0, 2, 0, 3, 0, 1, 0, 0, 0]]
    assert found.columns["input_mask"].tolist() == [[1, 1, 1, 1, 1, 1, 1, 0, 0]]
    assert found.columns["label_ids"].dtype == np.uint8


@pytest.mark.parametrize("word", ["\ufe0f", "\u200b", "\ufffd", "\u0301"])
def test_a_word_without_pieces_is_unknown_and_has_a_label(word):
    tokenizer = tokenizers(True)[0]
    found = encode(
        [sentence(["a", word, "b"], ["O", "B-LOC", "O"]), sentence([word])], 6
    )
    ids = [tokenizer.vocabulary[index] for index in found.columns["input_ids"][0]]
    assert ids == ["[CLS]", "a", "[UNK]", "b", "[SEP]", "[PAD]"]
    assert found.columns["label_ids"].tolist() == [
        [0, 1, 4, 1, 0, 0],
        [0, 1, 0, 0, 0, 0],
    ]
    assert found.counts[EMPTY_WORDS] == 2


def test_unknown_tags_and_unknown_types():
    found = encode([sentence(["a", "b"]), sentence(["a", "b"], ["B-NEW", "B-PER"])], 4)
    assert found.columns["label_ids"].tolist() == [[0, 1, 1, 0], [0, 1, 2, 0]]


def test_tags_are_converted_to_the_scheme_of_the_model():
    labels = ("O", "B-PER", "I-PER", "E-PER", "S-PER")
    task = make_task(labels, scheme="iobes")
    examples = [sentence(["a", "b", "c"], ["I-PER", "I-PER", "B-PER"])]
    found = task.encode(examples, task.tokenizer, 5)
    assert found.columns["label_ids"].tolist() == [[0, 2, 4, 5, 0]]


def test_no_sentences_and_sentences_without_words():
    for examples in ([], [sentence([])], [sentence([]), sentence([])]):
        found = encode(examples, 6, context=True)
        assert found.columns["input_ids"].shape == (0, 6)
        assert found.records_per_example.tolist() == [0] * len(examples)
    found = encode([sentence([]), sentence(["a"]), sentence([])], 6)
    assert found.records_per_example.tolist() == [0, 1, 0]


def words_of(found, row):
    vocabulary = tokenizers(True)[0].vocabulary
    tokens = [vocabulary[i] for i in found.columns["input_ids"][row]]
    return " ".join(tokens[1 : tokens.index("[SEP]")])


def test_document_context_fills_the_window_on_both_sides():
    parts = ["a b c", "x y", "s i the", "cat un who"]
    examples = list(join_documents([sentence(part.split()) for part in parts]))
    found = encode(examples, 9, context=True)  # room for 7
    assert [words_of(found, row) for row in range(4)] == [
        "a b c x y s i",  # nothing precedes, so all room is for the following words
        "b c x y s i the",
        "x y s i the cat un",
        "y s i the cat un who",
    ]
    labels = [(np.flatnonzero(row) - 1).tolist() for row in found.columns["label_ids"]]
    assert labels == [[0, 1, 2], [2, 3], [2, 3, 4], [4, 5, 6]]


def test_document_context_ends_at_the_borders_of_documents(tmp_path):
    text = "-DOCSTART- O\n\na O\n\nb O\n\n-DOCSTART- O\n\nc O\nx O\n\n"
    text += "-DOCSTART- O\n\ny O\n"
    task = make_task(document_context=True)
    examples, _ = read(task, write(tmp_path / "a.txt", text))
    found = task.encode(examples, task.tokenizer, 12)
    assert [words_of(found, row) for row in range(4)] == ["a b", "a b", "c x", "y"]


def random_documents(seed, count):
    rng = random.Random(seed)
    for _ in range(count):
        yield list(
            join_documents(list(random_sentences(rng.random(), rng.randint(1, 9), 20)))
        )


@pytest.mark.parametrize("length", [3, 6, 11, 24, 60])
def test_context_of_random_documents(length):
    room = length - 2
    documents = list(random_documents(length, 12))
    examples = [each for document in documents for each in document]
    found, plain = encode(examples, length, context=True), encode(examples, length)
    with_context, without = found.columns["label_ids"], plain.columns["label_ids"]
    # The same words have the same labels, in the same order.
    assert with_context[with_context > 0].tolist() == without[without > 0].tolist()
    rows = iter(range(len(with_context)))
    for example, count in zip(
        examples, found.records_per_example.tolist(), strict=True
    ):
        document = pieces_of(example.document)
        flat = [piece for word in document for piece in word]
        borders = np.cumsum([0, *map(len, document)]).tolist()
        start = borders[example.first_word]
        end = borders[example.first_word + len(example.words)]
        labelled = 0
        for row in (next(rows) for _ in range(count)):
            size = int(found.columns["input_mask"][row].sum()) - 2
            places = np.flatnonzero(with_context[row]) - 1
            # The window is a part of the document, at the place that its labels show.
            offset = borders[example.first_word + labelled] - int(places[0])
            window = found.columns["input_ids"][row, 1 : 1 + size].tolist()
            assert window == flat[offset : offset + size]
            labelled += len(places)
            if end - start <= room:
                check_balance(offset, offset + size, start, end, borders, room)
        assert labelled == len(example.words)


def check_balance(first, last, start, end, borders, room):
    """Checks the limits of a window: complete words, as many on both sides."""
    assert first in borders and last in borders and first <= start and last >= end
    longest = int(np.diff(borders).max())
    left, right = start - first, last - end
    if first > 0 and last < borders[-1]:
        assert abs(left - right) <= 1 + longest
        assert room - (last - first) < 2 * longest
    elif first > 0 or last < borders[-1]:  # one side has no more words
        assert room - (last - first) < longest
