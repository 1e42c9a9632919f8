"""The train, dev and test split, compared with a search for shared eight-word sequences."""

import itertools
import random
import re

from bert_tf.data_prep.sample_data import train_dev_test_split as split
from bert_tf.data_prep.sample_data.cleaning import Document, Text


def document(name: str, *lines: str, library: str = "python") -> Document:
    return Document(library, name, tuple(Text(line, (), "", True) for line in lines))


def eight_word_sequences(lines: list[str]) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", " ".join(lines).lower())
    return {tuple(words[i : i + 8]) for i in range(len(words) - 7)}


def random_documents(count: int) -> list[Document]:
    """Returns random documents, some of which share a sequence of eight words."""
    rng = random.Random(0)
    stock = [" ".join(rng.choices("abcdefg", k=10)) for _ in range(count * 4)]
    return [
        document(f"t{i}", *rng.sample(stock, rng.randint(2, 4)), library=rng.choice(["one", "two"]))
        for i in range(count)
    ]


def test_groups_equal_those_of_a_plain_search():
    documents = random_documents(120)
    sequences = [eight_word_sequences([s.text for s in each.texts]) for each in documents]
    group = list(range(len(documents)))
    for i, j in itertools.combinations(range(len(documents)), 2):
        if sequences[i] & sequences[j]:
            old, new = group[j], group[i]
            group = [new if each == old else each for each in group]
    found = split.group_near_duplicates(documents)
    assert 1 < len(set(group)) < len(documents)
    assert len(set(found)) == len(set(group)) == len(set(zip(found, group, strict=True)))


def test_no_sequence_of_eight_words_is_in_two_parts():
    documents = random_documents(400)
    parts = split.assign_parts(documents, 0.3, seed=1)
    by_part = {
        part: set().union(
            *(
                eight_word_sequences([s.text for s in each.texts])
                for each, its_part in zip(documents, parts, strict=True)
                if its_part == part
            )
        )
        for part in split.PARTS
    }
    assert all(by_part.values())
    for one, two in itertools.combinations(split.PARTS, 2):
        assert not by_part[one] & by_part[two]


def test_each_library_has_the_requested_heldout_fraction():
    rng = random.Random(0)
    words = [f"w{i}" for i in range(5000)]
    documents = [
        document(f"t{i}", *(" ".join(rng.sample(words, 12)) for _ in range(4)), library=f"l{i % 3}")
        for i in range(600)
    ]
    parts = split.assign_parts(documents, 0.2, seed=1)
    for library in ("l0", "l1", "l2"):
        library_parts = [
            part for part, each in zip(parts, documents, strict=True) if each.library == library
        ]
        assert 0.17 < 1 - library_parts.count("train") / len(library_parts) <= 0.2
        assert abs(library_parts.count("dev") - library_parts.count("test")) <= 3
    assert (
        parts
        == split.assign_parts(documents, 0.2, seed=1)
        != split.assign_parts(documents, 0.2, seed=2)
    )


def test_boilerplate_and_then_documents_of_one_sentence_are_removed():
    common = "this sentence is part of every one of the documents"
    short = "default is none"
    documents = [
        document(f"t{i}", f"word{i} one", common, short, f"word{i} two") for i in range(20)
    ]
    documents.append(document("one left", "only this one", common))
    found = split.remove_boilerplate(documents)
    assert [[s.text for s in each.texts] for each in found] == [
        [f"word{i} one", f"word{i} two"] for i in range(20)
    ]
    assert [s.follows for s in found[0].texts] == [True, False]
