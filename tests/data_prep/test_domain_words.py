"""The choice of new words and the held-out documents, compared with a transcription."""

import functools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import new_words as reference
from refusals import refused

from bert_tf.corpus import text_blocks
from bert_tf.tokenization import BertTokenizer
from bert_tf.vocabularies import domain_words, word_counts

SPECIAL = ["[PAD]", "[unused5]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused1]"]
PIECES = [
    "a",
    "b",
    "c",
    "B",
    "##a",
    "##b",
    "##c",
    "##ab",
    "cab",
    "中",
    ".",
    "a" * 20,
    "##é",
]
VOCABULARY = [*SPECIAL, *PIECES]
# Words of one piece and of several pieces; words that are not covered, or too long;
# characters that normalization removes, replaces or splits at.
WORDS = [
    "a", "abab", "Cab", "cabB", "café", "cafe\u0301", "a.b", "中文", "中", "☃",
    "☃\ufe0f", "½", "ΟΔΟΣ", "x☃", "ab" * 25, "ab" * 25 + "a", "a" * 199, "b" * 201,
    "a\u2028b", "\u00ad", "a\u200bb", "⸺a", "İb", "\U0001faaa", "K", "\ue000a",
]  # fmt: skip


@functools.cache
def tokenizer(do_lower_case):
    return BertTokenizer(VOCABULARY, do_lower_case)


def counts_of(text, do_lower_case):
    blocks = text_blocks.cut_into_blocks([text.encode()], "text.txt")
    return word_counts.count_words(blocks, None, do_lower_case, 1).words


def choose(counts, do_lower_case, num_words=500):
    config = domain_words.NewWordsConfig(num_words)
    return domain_words.choose_words(counts, tokenizer(do_lower_case), config)


@pytest.mark.parametrize("do_lower_case", [True, False])
def test_the_words_are_those_of_the_transcription(do_lower_case):
    lines = [
        " ".join(WORDS[number:] + WORDS[number % 7 : number])
        for number in range(len(WORDS))
    ]
    expected_counts = reference.counts([lines], do_lower_case)
    counts = counts_of("\n".join(lines), do_lower_case)
    assert counts == expected_counts
    for num_words in (1, 3, 500):
        found = [
            (new.word, new.count, [VOCABULARY[piece] for piece in new.pieces])
            for new in choose(counts, do_lower_case, num_words)
        ]
        assert found == reference.choose(expected_counts, VOCABULARY, num_words)
    words = [word for word, _, _ in found]
    assert {"abab", "☃", "x☃", "ab" * 25, "文"} < set(words)
    assert max(map(len, words)) == 50 and not {"a", "中", "cab"} & set(words)
    cost = domain_words.cost_of(counts, tokenizer(do_lower_case))
    assert (cost.words, cost.tokens, cost.unknown) == reference.cost(
        expected_counts, VOCABULARY
    )


def test_a_literal_example():
    chosen = choose({"a": 99, "cab": 50, "abc": 4, "ca": 9, "☃": 5, "xyz": 4}, True)
    assert [(new.word, new.count, new.pieces) for new in chosen] == [
        ("ca", 9, (9, 11)), ("abc", 4, (7, 12, 13)), ("xyz", 4, (2,)), ("☃", 5, (2,)),
    ]  # fmt: skip


@pytest.mark.parametrize("do_lower_case", [True, False])
def test_each_new_word_is_one_token(do_lower_case):
    generator = random.Random(0)
    blocks = [
        range(0x20, 0x250),
        range(0x300, 0x3000),
        range(0x3000, 0xD800),
        range(0xE000, 0x110000),
    ]
    words = [
        "".join(chr(generator.choice(block)) for _ in range(2))
        for block in blocks * 300
    ]
    text = " ".join([*WORDS, *words])
    counts = counts_of(text, do_lower_case)
    new_words = [new.word for new in choose(counts, do_lower_case, 5000)]
    assert len(new_words) > 700
    new = BertTokenizer(
        reference.new_vocabulary(VOCABULARY, new_words, 8), do_lower_case
    )
    ids = new.tokenize(new_words).to_list()
    assert [[new.vocabulary[each] for each in row] for row in ids] == [
        [w] for w in new_words
    ]
    assert domain_words.cost_of(counts, new).unknown == 0


def test_texts_without_new_words_are_refused():
    with refused("All 2 distinct words of the text are in the vocabulary"):
        choose({"a": 3, "cab": 1}, True)
    with refused("There are no words in the text"):
        choose({}, True)
    with refused("num_words must be at least 1"):
        domain_words.NewWordsConfig(0)
    assert domain_words.cost_of({}, tokenizer(True)) == domain_words.TextCost(0, 0, 0)


LINES = st.lists(st.sampled_from(["", " ", "\r", "one", "two words"]), max_size=60)


@settings(max_examples=200, deadline=None)
@given(LINES, st.integers(1, 9))
def test_every_tenth_document_of_a_text_is_held_out(lines, chunk_bytes):
    text = "\n".join(lines)
    chunks = [
        text[at : at + chunk_bytes].encode() for at in range(0, len(text), chunk_bytes)
    ]
    documents = reference.documents(text)
    for is_held_out, expected in zip(
        (False, True), reference.split(documents), strict=True
    ):
        part = text_blocks.DocumentFilter(is_held_out)
        kept = b"".join(part.counted(chunks, False)).decode()
        assert reference.documents(kept) == expected
        assert kept.count("\n") == text.count("\n")
        assert part.documents == len(documents)


def test_files_and_rows_are_documents_of_their_own(tmp_path):
    for number in range(12):
        (tmp_path / f"{number:02}.txt").write_text(f"text{number}")
    (tmp_path / "rows.jsonl").write_text(
        "".join(f'{{"text": "row{n}\\n\\nx"}}\n' for n in range(9))
    )
    source = text_blocks.TextSource(f"{tmp_path}/*")
    part = text_blocks.DocumentFilter(True)
    blocks = list(text_blocks.read_blocks(source, counter=part)[0])
    assert b"".join(block.text for block in blocks).split() == [b"text9", b"row7", b"x"]
    assert part.documents == 21
