"""Vocabulary training: word counts, order and size of the vocabulary, and errors."""

import collections
import dataclasses
import re

import pytest
import text_files
from reference import tokenizer as reference
from refusals import refused
from run_programs import assert_refused, run_main

from bert_tf.corpus import text_blocks
from bert_tf.tokenization import load_vocabulary
from bert_tf.vocabularies import word_counts
from bert_tf.vocabularies.learning import VocabularyConfig, learn

LINES = [
    "The lower one is lower than the lowest; the newest is the widest.",
    "Newer and wider, the NEWEST widened the lower road: É, è, 中文!", "",
    *["low lower lowest new newer newest wide wider widest the and is"] * 20,
]  # fmt: skip
CONFIG = VocabularyConfig(vocab_size=120, num_unused_tokens=3)


def counted(lines, do_lower_case=True):
    words = (word for line in lines for word in reference.words(line, do_lower_case))
    return collections.Counter(words)


def write(folder):
    (folder / "text.txt").write_text("\n".join(LINES), "utf-8")
    return str(folder / "text.txt")


def count(source, **changes):
    return count_all(source, **changes).words


def count_all(source, do_lower_case=True, num_workers=2):
    blocks, size = text_blocks.read_blocks(source, "vocab.txt")
    return word_counts.count_words(blocks, size, do_lower_case, num_workers)


@pytest.mark.parametrize("do_lower_case", [True, False])
def test_counts_words_as_the_released_tokenizer_splits_them(tmp_path, do_lower_case):
    source = text_blocks.TextSource(write(tmp_path))
    assert count(source, do_lower_case=do_lower_case) == counted(LINES, do_lower_case)


def test_counts_words_of_a_tensorflow_dataset(tmp_path):
    folder = text_files.write_tfds(tmp_path, ["two lines\nof text", "text"])
    source = text_blocks.TextSource(tfds_name="tiny:train", tfds_data_dir=folder)
    assert count(source) == {"two": 1, "lines": 1, "of": 1, "text": 2}
    for changes, message in (
        ({"tfds_name": "tiny:dev"}, "tiny has no split dev. It has: train."),
        (
            {"text_feature": "body"},
            "tiny has no text in a feature 'body'. It has: text. Set text_feature.",
        ),
    ):
        with refused(message):
            count(dataclasses.replace(source, **changes))
    with refused(r"cannot load no_such_set: .*no_such_set") as caught:
        count(text_blocks.TextSource(tfds_name="no_such_set:train"))
    assert len(str(caught.value)) < 300 and "\n" not in str(caught.value)


@pytest.mark.parametrize("size", [1, 7, 100])
def test_documents_and_sentences_are_counted(tmp_path, size):
    text, counter = b"one\ntwo\n \n\nthree\n\n\nfour\nfive", text_blocks.TextCounter()
    files = [
        (
            [text[start : start + size] for start in range(0, len(text), size)],
            False,
            (3, 5),
        ),
        ([b"six\n"], False, (3, 6)),  # continues the last document
        ([b"\nseven\n"], False, (4, 7)),
        ([b"eight\n\nnine", b" \n", b"ten\n"], True, (6, 10)),
        ([b"eleven"], False, (7, 11)),
    ]
    for texts, documents, expected in files:
        assert list(counter.counted(texts, documents)) == texts
        assert (counter.documents, counter.sentences) == expected


def test_rare_words_are_dropped_to_bound_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(word_counts, "_MAX_DISTINCT_WORDS", 10)
    found = count(text_blocks.TextSource(write(tmp_path)))
    expected = counted(LINES)
    assert len(found) <= 15 and all(
        expected[word] == number for word, number in found.items()
    )


@pytest.mark.parametrize("unused", [0, 102])
def test_tokens_have_the_released_order(unused):
    config = VocabularyConfig(vocab_size=250, num_unused_tokens=unused)
    learned = learn(counted(LINES), config)
    tokens, missing = learned.tokens, learned.missing
    first = min(unused + missing, 99)
    assert tokens[0] == "[PAD]"
    assert tokens[1 : 1 + first] == [f"[unused{index}]" for index in range(first)]
    assert tokens[1 + first : 5 + first] == ["[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    total = unused + missing
    rest = [f"[unused{index}]" for index in range(first, total)]
    assert tokens[5 + first : 5 + total] == rest
    assert len(tokens) == len(set(tokens)) == 250


def test_vocabulary_does_not_depend_on_the_order_of_the_counts():
    counts = counted(LINES)
    reordered = dict(reversed(counts.items()))
    assert learn(counts, CONFIG) == learn(reordered, CONFIG)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_words": 0}, "max_words must be at least 1. Received: 0"),
        ({"max_characters": -1}, "max_characters must be at least 0. Received: -1"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with refused(message):
        VocabularyConfig(**settings)


def ideographs(number):
    """Returns the counts of `number` ideographs and of two Latin words.

    The counts of the ideographs are from 2 * number to 2.
    """
    characters = [chr(0x4E00 + index) for index in range(number)]
    return {
        **{c: 2 * (number - i) for i, c in enumerate(characters)},
        "low": 90,
        "lower": 20,
    }


def test_each_ideograph_has_one_entry():
    counts = ideographs(3000)
    learned = learn(counts, VocabularyConfig(vocab_size=5000))
    assert counts.keys() <= {*learned.tokens, "lower"}
    assert learned.uncovered == 0 and learned.unknown == 0
    assert not any(f"##{word}" in learned.tokens for word in counts)
    assert (
        learned.missing
        == sum(token.startswith("[unused") for token in learned.tokens) - 99
    )
    # The words give 3,000 tokens for ideographs, 10 tokens for the letters l, o, w, e
    # and r (each with and without ##), and 1 to 5 longer tokens, for example low.
    assert 5000 - 104 - learned.missing in range(3011, 3016)


def test_rare_characters_are_not_covered_if_they_do_not_fit():
    counts = ideographs(3000)
    learned = learn(counts, VocabularyConfig(vocab_size=2000))
    assert learned.missing == 0 and learned.characters == 3005
    uncovered = {c for word in counts for c in word} - set(learned.tokens)
    assert learned.uncovered == len(uncovered) > 1000
    assert learned.unknown == sum(
        n for word, n in counts.items() if uncovered & set(word)
    )
    kept = [word for word in counts if len(word) == 1 and word not in uncovered]
    assert kept == list(counts)[: len(kept)]


def test_rare_characters_take_at_most_half_of_the_entries():
    """At most 1,000 characters are covered; each Hangul syllable takes two entries."""
    counts = {chr(0xAC00 + index): 1 for index in range(4000)}
    words = {f"{a}{b}{c}": 10**5 for a in "klmnp" for b in "aeiou" for c in "rstvwxyz"}
    texts = {f"{a}{b}": 10**4 for a in words for b in list(words)[:20]}
    for size, expected in ((5000, 1000), (500, 495 // 2 // 2)):
        config = VocabularyConfig(size, num_unused_tokens=0)
        learned = learn(counts | words | texts, config)
        covered = {word for word in counts if word in learned.tokens}
        assert (
            learned.missing == 0 and len(covered) + 18 == expected
        )  # plus 18 Latin letters
        assert learned.uncovered == 4000 - len(covered)


def test_max_characters_limits_the_covered_characters():
    config = VocabularyConfig(vocab_size=5000, max_characters=1000)
    learned = learn(ideographs(3000), config)
    assert learned.uncovered == learned.characters - 1000
    assert len(learned.tokens) == 5000 and learned.missing >= 3890


def test_the_first_of_equally_frequent_characters_is_covered():
    config = VocabularyConfig(vocab_size=20, num_unused_tokens=0, max_characters=2)
    tokens = learn({"b": 1, "a": 1, "c": 2}, config).tokens
    assert {"a", "c"} <= set(tokens) and "b" not in tokens


def test_a_character_that_occurs_only_in_rare_words_is_covered():
    counts = {**{f"word{index}": 100 for index in range(9)}, "xylem": 99}
    config = VocabularyConfig(vocab_size=150, num_unused_tokens=0, max_words=9)
    learned = learn(counts, config)
    assert learned.uncovered == 0 and set("xylem") <= set(learned.tokens)


def test_max_characters_that_do_not_fit_are_refused():
    config = VocabularyConfig(vocab_size=40, num_unused_tokens=2, max_characters=1000)
    with refused("Raise vocab_size or lower max_characters"):
        learn(counted(LINES), config)


def test_program_writes_the_file_and_reports_missing_entries(tmp_path):
    path, output = write(tmp_path), str(tmp_path / "out" / "vocab.txt")
    flags = [f"--input_file={path}", f"--output_file={output}", "--vocab_size=300"]
    done, few, missing = run_main(
        "bert_tf.data_prep.train_vocabulary",
        [*flags, "--num_unused_tokens=2"],
        [*flags, "--num_unused_tokens=2", "--max_characters=9"],
        ["--input_file=nowhere.txt", "--output_file=x"],
    )
    assert done.code == 0, done.err
    assert len(load_vocabulary(output)) == 300
    assert "The text gave" in done.err and "300 entries" in done.out
    assert "[unusedN] entries fill up" in done.err and "not covered" not in done.err
    assert re.search(
        r"\d+ of \d+ distinct characters are not covered: .*--max_char", few.err
    )
    assert "within --max_characters and --max_words" in few.err
    assert_refused(missing, "No input file matches nowhere.txt")
