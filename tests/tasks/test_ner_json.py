"""Sentences as JSON lines: words with tags, and texts with spans."""

import json

import pytest
from ner_data import make_task, read
from reading import check, refused, write

from bert_tf.tasks.ner.json_sentences import EXTENDED, render
from bert_tf.tasks.ner.ner_examples import SKIPPED

TASK = make_task()


def write_rows(tmp_path, *rows):
    lines = [json.dumps(row, ensure_ascii=index % 2) for index, row in enumerate(rows)]
    return write(tmp_path / "a.jsonl", "\n".join(lines) + "\n\n")


def check_refused(tmp_path, row, *parts, kind="dev"):
    path = write_rows(tmp_path, {"tokens": ["a"], "tags": ["O"]}, row)
    words = refused(f"{path}, line 2", *parts)
    check(lambda path: read(TASK, path, kind), path, words)


def read_row(tmp_path, row, task=TASK):
    ((example,), counts) = read(task, write_rows(tmp_path, row))
    return example, counts


def entity(start, end, label="X"):
    return {"start": start, "end": end, "label": label}


def text_row(text, *entities):
    """Returns a row; an entity is its text, and its label."""
    found, at = [], 0
    for part, label in entities:
        at = text.index(part, at)
        found.append(entity(at, at + len(part), label))
        at += len(part)
    return {"text": text, "entities": found}


def test_words_with_tags(tmp_path):
    rows = [
        {"tokens": ["Ann", "left", "\ufe0f"], "tags": ["S-PER", "O", "O"], "id": 7},
        {"tokens": [], "tags": []},
    ]
    examples, counts = read(TASK, write_rows(tmp_path, *rows))
    assert [(each.words, each.tags) for each in examples] == [
        (("Ann", "left", "\ufe0f"), ("S-PER", "O", "O")), ((), ()),
    ]  # fmt: skip
    assert TASK.as_row(examples[0]) == {
        "tokens": ["Ann", "left", "\ufe0f"],
        "tags": ["B-PER", "O", "O"],
    }
    assert not counts
    (line,) = render(examples[0], ["O", "B-LOC", "I-LOC"])
    assert json.loads(line) == {**rows[0], "predicted": ["O", "B-LOC", "I-LOC"]}


def test_texts_with_entities(tmp_path):
    row = text_row(
        "Ann-Lee  saw (old) Rome, ok.", ("Ann-Lee", "PER"), ("old) Rome", "LOC")
    )
    example, counts = read_row(tmp_path, row)
    assert " ".join(example.words) == "Ann - Lee saw ( old ) Rome , ok ."
    assert " ".join(example.tags) == "B-PER I-PER I-PER O O B-LOC I-LOC I-LOC O O O"
    assert not counts
    (line,) = render(example, list(example.tags))
    assert json.loads(line) == {**row, "predicted": row["entities"]}


@pytest.mark.parametrize("do_lower_case", [True, False])
def test_offsets_are_in_characters(tmp_path, do_lower_case):
    row = text_row(
        "Ünï 猫犬 😀 café\u0301 Rome",
        ("猫", "A"),
        ("犬", "B"),
        ("😀", "C"),
        ("Rome", "D"),
    )
    task = make_task(do_lower_case=do_lower_case)
    example, counts = read_row(tmp_path, row, task)
    assert example.words == ("Ünï", "猫", "犬", "😀", "café\u0301", "Rome")
    assert example.tags == ("O", "B-A", "B-B", "B-C", "O", "B-D")
    assert not counts
    (line,) = render(example, list(example.tags))
    assert json.loads(line)["predicted"] == row["entities"]


LEE_ANN = [entity(4, 7, "PER"), entity(0, 3, "PER")]
# A text, its entities, the scheme of the file, and the tags.
TAGS = [
    # Entities of one type that touch, in another order.
    ("Ann Lee", LEE_ANN, "detect", "B-PER B-PER"),
    # A blank after an entity is not counted as an extension.
    ("Ann left ", [entity(0, 4, "PER")], "detect", "B-PER O"),
    ("Ann Lee left", [entity(0, 7, "PER")], "iobes", "B-PER E-PER O"),
    ("Ann left", [entity(0, 3, "PER")], "iobes", "S-PER O"),
]


@pytest.mark.parametrize(("text", "entities", "scheme", "tags"), TAGS)
def test_tags_of_entities(tmp_path, text, entities, scheme, tags):
    row = {"text": text, "entities": entities}
    example, counts = read_row(tmp_path, row, make_task(input_scheme=scheme))
    assert " ".join(example.tags) == tags and not counts


def test_an_entity_that_ends_inside_a_word_is_extended_and_counted(tmp_path):
    row = text_row("Annes house", ("Anne", "PER"))
    example, counts = read_row(tmp_path, row)
    assert (example.words, example.tags) == (("Annes", "house"), ("B-PER", "O"))
    assert counts == {EXTENDED: 1}
    (first,) = counts.notes["first"]
    assert first.endswith("a.jsonl, line 1: 'Anne' is now 'Annes'.")


@pytest.mark.parametrize("label", ["WORK OF ART", "", "a\tb"])
def test_labels_that_cannot_be_in_a_tag_are_refused(tmp_path, label):
    row = {"text": "Ann", "entities": [entity(0, 3, label)]}
    check_refused(tmp_path, row, "such as PER or WORK_OF_ART", kind="train")


def test_texts_without_words(tmp_path):
    rows = [{"text": text, "entities": []} for text in ("", " \t", "\u200b")]
    examples, _ = read(TASK, write_rows(tmp_path, *rows))
    assert [(each.words, each.tags) for each in examples] == [((), ())] * 3
    assert [json.loads(*render(each, []))["predicted"] for each in examples] == [[]] * 3


def test_many_texts_keep_their_order(tmp_path):
    rows = [text_row(f"Ann saw {number}", ("Ann", "PER")) for number in range(1100)]
    rows[5::7] = [{"tokens": ["a", "b"], "tags": ["O", "O"]}] * len(rows[5::7])
    examples, _ = read(TASK, write_rows(tmp_path, *rows))
    expected = [row.get("tokens") or row["text"].split() for row in rows]
    assert [list(each.words) for each in examples] == expected


def test_files_to_predict_need_no_tags(tmp_path):
    path = write_rows(
        tmp_path, {"tokens": ["a"]}, {"text": "a b"}, {"tokens": ["a"], "tags": None}
    )
    examples, _ = read(TASK, path, "test")
    assert [each.tags for each in examples] == [None] * 3
    message = "has no tags, which this split needs: the keys are tokens. Expected: "
    check_refused(tmp_path, {"tokens": ["a"]}, message)
    check_refused(tmp_path, {"text": "a"}, "has no entities", kind="train")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"tokens": ["a", "b"], "tags": ["O"]}, "2 words and 1 tags"),
        ({"tokens": ["a"], "tags": ["X-PER"]}, "the tag 'X-PER' is malformed"),
    ],
)
def test_malformed_tags_are_skipped_in_train_and_refused_elsewhere(
    tmp_path, row, message
):
    for kind in ("dev", "test"):
        check_refused(tmp_path, row, message, kind=kind)
    path = write_rows(tmp_path, {"tokens": ["c"], "tags": ["O"]}, row)
    examples, counts = read(TASK, path, "train")
    assert [each.words for each in examples] == [("c",)]
    assert counts == {SKIPPED: 1}


BAD = [
    ({"word": ["a"]}, "the keys are word. Expected:"),
    (
        {"tokens": "a b", "tags": []},
        "'tokens' must be a list of texts. Received: \"a b\"",
    ),
    ({"tokens": ["a", ""], "tags": ["O", "O"]}, "a word is empty"),
    (
        {"text": "a b", "entities": [{"start": 0, "end": 1}]},
        "an entity must have a label",
    ),
    ({"text": "a b", "entities": [entity(0, 9)]}, "end <= 3"),
    (
        {"text": "a b", "entities": [entity(1, 1)]},
        "0 <= start < end",
    ),
    (
        {"text": "a b", "entities": [entity(1, 2)]},
        "contains no word",
    ),
    (
        {"text": "a b c", "entities": [entity(0, 3), entity(2, 5, "Y")]},
        "the entity Y at 2 to 5 overlaps another entity",
    ),
    (text_row("abc", ("a", "X"), ("bc", "Y")), "or is in the same word"),
]


@pytest.mark.parametrize(("row", "message"), BAD)
def test_bad_rows_are_refused_in_all_splits(tmp_path, row, message):
    for kind in ("train", "dev", "test"):
        check_refused(tmp_path, row, message, kind=kind)
