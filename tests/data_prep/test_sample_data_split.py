"""The split against a plain search for shared runs of words."""

import itertools
import random
import re

from data_prep.sample_data import split
from data_prep.sample_data.sentences import Sentence, Text


def text(name: str, *lines: str, library: str = "python") -> Text:
    return Text(library, name, tuple(Sentence(line, (), 0, "", True) for line in lines))


def grams(lines: list[str]) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", " ".join(lines).lower())
    return {tuple(words[i : i + 8]) for i in range(len(words) - 7)}


def random_texts(count: int) -> list[Text]:
    """Documents of few different words, so that runs of eight are shared now and then."""
    rng = random.Random(0)
    stock = [" ".join(rng.choices("abcdefg", k=10)) for _ in range(count * 4)]
    return [
        text(f"t{i}", *rng.sample(stock, rng.randint(2, 4)), library=rng.choice(["one", "two"]))
        for i in range(count)
    ]


def test_groups_are_those_of_a_plain_search():
    texts = random_texts(120)
    runs = [grams([s.text for s in each.sentences]) for each in texts]
    group = list(range(len(texts)))
    for i, j in itertools.combinations(range(len(texts)), 2):
        if runs[i] & runs[j]:
            old, new = group[j], group[i]
            group = [new if each == old else each for each in group]
    found = split.components(texts).tolist()
    assert 1 < len(set(group)) < len(texts)
    assert len(set(found)) == len(set(group)) == len(set(zip(found, group, strict=True)))


def test_no_run_of_words_is_on_two_sides():
    texts = random_texts(400)
    parts = split.parts(texts, 0.3, seed=1)
    by_part = {
        part: set().union(
            *(
                grams([s.text for s in each.sentences])
                for each, its in zip(texts, parts, strict=True)
                if its == part
            )
        )
        for part in split.PARTS
    }
    assert all(by_part.values())
    for one, two in itertools.combinations(split.PARTS, 2):
        assert not by_part[one] & by_part[two]


def test_the_held_out_share_is_the_one_asked_for_in_each_library():
    rng = random.Random(0)
    words = [f"w{i}" for i in range(5000)]
    texts = [
        text(f"t{i}", *(" ".join(rng.sample(words, 12)) for _ in range(4)), library=f"l{i % 3}")
        for i in range(600)
    ]
    parts = split.parts(texts, 0.2, seed=1)
    for library in ("l0", "l1", "l2"):
        own = [part for part, each in zip(parts, texts, strict=True) if each.library == library]
        assert 0.17 < 1 - own.count("train") / len(own) <= 0.2
        assert abs(own.count("dev") - own.count("test")) <= 3
    assert parts == split.parts(texts, 0.2, seed=1) != split.parts(texts, 0.2, seed=2)


def test_boilerplate_goes_and_what_is_left_alone_too():
    common = "this sentence stands in every one of the documents"
    short = "default is none"
    texts = [text(f"t{i}", f"word{i} one", common, short, f"word{i} two") for i in range(20)]
    texts.append(text("left alone", "only this one", common))
    found = split.without_boilerplate(texts)
    assert [[s.text for s in each.sentences] for each in found] == [
        [f"word{i} one", f"word{i} two"] for i in range(20)
    ]
    assert [s.follows for s in found[0].sentences] == [True, False]
