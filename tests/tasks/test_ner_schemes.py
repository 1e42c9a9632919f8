"""Tags and entities: schemes, conversions between them, and their detection."""

import numpy as np
import pytest
from ner_data import random_entities, random_pairs, random_tags, tags_of
from refusals import refused

from bert_tf.tasks.ner import schemes
from bert_tf.tasks.ner.schemes import SchemeEvidence, convert, find_entities


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("O", []),
        ("B-PER", [("PER", 0, 1)]),
        ("I-PER I-PER B-PER", [("PER", 0, 2), ("PER", 2, 3)]),  # IOB1
        ("B-PER B-PER I-LOC", [("PER", 0, 1), ("PER", 1, 2), ("LOC", 2, 3)]),
        ("O I-PER O", [("PER", 1, 2)]),  # forbidden in IOB2
        ("S-LOC B-LOC E-LOC", [("LOC", 0, 1), ("LOC", 1, 3)]),
        ("E-LOC I-LOC I-LOC", [("LOC", 0, 1), ("LOC", 1, 3)]),  # forbidden in IOBES
        ("S-LOC E-LOC E-LOC", [("LOC", 0, 1), ("LOC", 1, 2), ("LOC", 2, 3)]),
        ("B-creative-work I-creative-work", [("creative-work", 0, 2)]),
    ],
)
def test_entities_of_tags(tags, expected):
    assert find_entities(tags.split()) == expected


@pytest.mark.parametrize("scheme", schemes.SCHEMES)
def test_tags_of_random_entities_have_these_entities(scheme):
    rng = np.random.default_rng(0)
    for length in rng.integers(0, 15, 500).tolist():
        entities = random_entities(rng, length)
        found = schemes.to_tags(
            [schemes.Entity(*each) for each in entities], length, scheme
        )
        assert found == tags_of(entities, length, scheme)
        assert find_entities(found) == entities
        assert all(schemes.is_tag(tag, scheme) for tag in found)


def test_a_conversion_keeps_the_entities_of_malformed_tags_too():
    for tags, _ in random_pairs(1, 1000):
        for scheme in schemes.SCHEMES:
            converted = convert(tags, scheme)
            assert find_entities(converted) == find_entities(tags)
            evidence = SchemeEvidence()
            evidence.add(converted)
            assert evidence.num_forbidden(scheme) == 0


def test_what_is_a_tag():
    for tag in ("O", "B-PER", "I-creative-work", "S-1", "E-ä"):
        assert schemes.is_tag(tag)
    wrong = (
        "",
        "o",
        "B",
        "B-",
        "B- ",
        "X-PER",
        "b-PER",
        "PER",
        "B_PER",
        "BI-PER",
        "O-PER",
    )
    for text in (*wrong, "B-WORK OF ART", "B-PER ", "B-a\tb"):
        assert not schemes.is_tag(text), text
    assert not schemes.is_tag("S-PER", "iob2") and not schemes.is_tag("E-PER", "iob1")


def test_labels_of_a_scheme():
    assert schemes.all_tags({"b", "a"}, "iob2") == ("O", "B-a", "I-a", "B-b", "I-b")
    assert schemes.all_tags(["a"], "iobes") == ("O", "B-a", "I-a", "E-a", "S-a")
    assert schemes.types_of(["O", "B-a-b", "I-c"]) == {"a-b", "c"}
    assert schemes.scheme_of_labels(["O", "I-PER", "B-PER"]) == "iob2"
    assert schemes.scheme_of_labels(["B-PER", "S-PER", "O"]) == "iobes"
    with refused("the label 'positive', which is not a tag"):
        schemes.scheme_of_labels(["positive"])


@pytest.mark.parametrize("scheme", schemes.SCHEMES)
def test_the_scheme_of_a_file_is_detected(scheme):
    rng, evidence = np.random.default_rng(2), SchemeEvidence()
    for _ in range(50):
        evidence.add(random_tags(rng, 12, scheme))
    assert evidence.scheme() == scheme and evidence.num_forbidden() == 0


@pytest.mark.parametrize(
    ("sentences", "scheme", "forbidden"),
    [
        (["O O"], "iob2", 0),
        (["I-PER O"], "iob1", 0),
        (["I-PER O", "B-PER"], "iob2", 1),  # the numbers are equal
        (["B-PER I-PER", "O I-LOC", "B-LOC O"], "iob2", 1),
        (["I-PER I-PER", "I-LOC O", "O B-LOC"], "iob1", 1),
        (["B-PER E-PER O S-LOC", "B-PER O", "I-PER E-PER"], "iobes", 2),
        (["B-PER I-LOC E-LOC"], "iobes", 1),
    ],
)
def test_forbidden_tags_are_counted(sentences, scheme, forbidden):
    evidence = SchemeEvidence()
    for sentence in sentences:
        evidence.add(sentence.split())
    assert (evidence.scheme(), evidence.num_forbidden()) == (scheme, forbidden)


@pytest.mark.parametrize(
    ("tags", "scheme", "wrong"),
    [
        ("B-PER I-PER O B-LOC O", "iob2", "S-PER"),
        ("I-PER I-PER O I-LOC O", "iob1", "E-PER"),
        ("B-PER E-PER O S-LOC O", "iobes", "E-PER"),
    ],
)
def test_one_wrong_tag_does_not_change_the_scheme(tags, scheme, wrong):
    evidence = SchemeEvidence()
    for _ in range(100):
        evidence.add(tags.split())
    evidence.add([wrong, "O"])
    assert evidence.scheme() == scheme and evidence.num_forbidden() == 1
