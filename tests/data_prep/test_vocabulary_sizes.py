"""More entries do not make a vocabulary worse, even with too few subwords in a text."""

import collections
import functools

import numpy as np
import pytest
from reference import tokenizer as reference

from bert_tf.tokenization import BertTokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS
from bert_tf.vocabularies import learning

# German verbs and their forms. Most forms occur once, so a low threshold makes each
# form an entry.
STEMS = (
    "arbeit bau blick dank denk fall frag geb glaub hol kauf kenn klag kleb lach lauf "
    "leb leg lern lieb mach mal press rauch reis sag schau schick schreib spiel such "
    "tanz wander zahl"
)
ENDINGS = "e est et en end ung ungen te ten ende enden barkeit"
FORMS = [stem + ending for stem in STEMS.split() for ending in ENDINGS.split()]
TRAINING = {
    form: 5 if index % 31 == 0 else 1 for index, form in enumerate(FORMS) if index % 3
}
HELD_OUT = FORMS[::3]


def learn(counts, size, **settings):
    """Learns a vocabulary of `size` entries and returns those that are not reserved."""
    config = learning.VocabularyConfig(size, num_unused_tokens=0, **settings)
    learned = learning.learn(counts, config)
    assert len(learned.tokens) == len(set(learned.tokens)) == size
    reserved = {*SPECIAL_TOKENS, *(f"[unused{n}]" for n in range(learned.missing))}
    return [token for token in learned.tokens if token not in reserved], learned


def tokens_per_word(entries, words):
    tokenizer = reference.Tokenizer([*SPECIAL_TOKENS, *entries], True)
    return sum(len(tokenizer.tokenize(word)) for word in words) / len(words)


def parts_of_words(entries):
    return [entry for entry in entries if entry.startswith("##") and len(entry) > 3]


def test_more_entries_are_not_worse_and_keep_the_parts_of_words():
    sizes = [100, 120, 140, 160, 180, 200, 250, 300, 350, 400, 1000]
    vocabularies = [learn(TRAINING, size)[0] for size in sizes]
    measured = [tokens_per_word(entries, HELD_OUT) for entries in vocabularies]
    assert measured == sorted(measured, reverse=True), dict(
        zip(sizes, measured, strict=True)
    )
    parts = [len(parts_of_words(entries)) for entries in vocabularies]
    assert parts == sorted(parts) and parts[-1] > 20
    assert set(TRAINING) <= set(vocabularies[-1])


def test_the_most_frequent_words_fill_up_a_vocabulary():
    everything, _ = learn(TRAINING, 1000)
    size = len(everything) + len(SPECIAL_TOKENS)
    fewer, learned = learn(TRAINING, size - 50)
    assert fewer == everything[:-50] and learned.missing == 0
    assert all(TRAINING[word] == 1 for word in everything[-50:])
    assert (
        learn(TRAINING, size)[1].missing == 0
        and learn(TRAINING, size + 1)[1].missing == 1
    )


@pytest.mark.parametrize(
    "counts", [{"haus": 1}, {"haus": 9}, {"a": 1}, {"中": 3, "中文": 1}]
)
def test_a_text_of_one_word(counts):
    alphabet = {character for word in counts for character in word}
    characters = [each if each >= "一" else f"##{each}" for each in alphabet]
    smallest = len(alphabet.union(characters)) + len(SPECIAL_TOKENS)
    for size in (smallest, smallest + 1, smallest + 2, 2 * smallest, 1000):
        entries, learned = learn(counts, size)
        assert alphabet.union(characters) <= set(entries)
        assert learned.uncovered == learned.unknown == 0
    assert set(counts) <= set(entries) and learned.missing > 900


def test_words_of_more_than_50_characters_are_not_entries():
    entries, _ = learn({"w" * 51: 5, "w" * 50: 5}, 200)
    assert "w" * 50 in entries and "w" * 51 not in entries


@pytest.fixture
def remembered(monkeypatch):
    """Runs the learner once for each list of words and threshold."""
    learner = functools.cache(learning._learn_subwords)
    replaced = lambda words, threshold: learner(tuple(words), threshold)  # noqa: E731
    monkeypatch.setattr(learning, "_learn_subwords", replaced)


def random_words(number):
    """Returns words of three syllables, some of them much more frequent than others."""
    random = np.random.default_rng(0)
    syllables = ["".join(random.choice(list("aeiobdgklmnrst"), 2)) for _ in range(60)]
    chosen = 60 * random.random((number, 3)) ** 2
    return ["".join(syllables[int(index)] for index in row) for row in chosen]


@pytest.mark.usefixtures("remembered")
@pytest.mark.parametrize(("factor", "max_words"), [(1, 9999), (5, 9999), (1, 300)])
def test_each_vocabulary_contains_all_smaller_ones(factor, max_words):
    words = random_words(1300)
    counts = collections.Counter(words[:1000])
    multiplied = {word: factor * number for word, number in counts.items()}
    measured, smaller = [], []
    for size in range(60, 800, 20):
        entries = learn(multiplied, size, max_words=max_words)[0]
        assert entries[: len(smaller)] == smaller
        smaller = entries
        measured.append(tokens_per_word(entries, words[1000:]))
    assert measured == sorted(measured, reverse=True)
    assert entries == learn(counts, size, max_words=max_words)[0]


@pytest.mark.slow
def test_more_entries_are_not_worse_on_real_text(test_data):
    text = (test_data / "data/corpora/wikitext2_heldout.txt").read_text("utf-8")
    tokenizer = BertTokenizer([*SPECIAL_TOKENS, "a"])
    counts = collections.Counter(
        word.decode() for word in tokenizer.words(text[:60_000]).numpy().tolist()
    )
    held_out = text[-30_000:].split("\n")
    at_two = len(learning._learn_subwords(counts.most_common(), 2)) + 5
    measured = []
    for share in (0.9, 0.95, 0.98, 1, 1.005, 1.02, 1.1, 1.5, 2, 4):
        entries, _ = learn(counts, round(at_two * share))
        tokens = BertTokenizer([*SPECIAL_TOKENS, *entries]).tokenize(held_out)
        measured.append(tokens.flat_values.shape[0])
    assert measured == sorted(measured, reverse=True)
