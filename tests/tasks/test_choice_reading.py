"""Reading of SWAG's CSV files and of JSON lines with choices, and refused files."""

import json
from collections import Counter

import pytest
from prepared import prepared
from reading import check, refused, write
from tables_of_rows import write_rows

from bert_tf.tasks.choice.choice_examples import (
    UNKNOWN_IN_TEST,
    ChoiceExample,
    read_examples,
)
from bert_tf.tasks.choice.choice_task import ChoiceTask
from bert_tf.tasks.task import DataLocation
from bert_tf.training.training_config import RunPhases

HEADER = (
    ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,"
    "ending0,ending1,ending2,ending3,label"
)
ROWS = (
    '0,v1,0,"He sat. He","He sat.",He,gold,"ate, then slept.","said ""no"".",ran.,'
    '"wrote\na line.",2\n'
    "1,v2,1,It rains,It rains.,,gold,a b,c,d,e,0\n"
)
EXAMPLES = [
    ChoiceExample(
        "He sat.",
        ("He ate, then slept.", 'He said "no".', "He ran.", "He wrote\na line."),
        2,
    ),
    ChoiceExample("It rains.", ("a b", "c", "d", "e"), 0),
]
# The released test files have no labels.
UNLABELLED = [row.rsplit(",", 1)[0] for row in ROWS.replace("\na", " a").splitlines()]


def read(path, kind="dev", counts=None):
    return list(read_examples(path, kind, Counter() if counts is None else counts))


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_all_formats_give_equal_examples(tmp_path, ending):
    names = ("sent1", "sent2", "ending0", "ending1", "ending2", "label")
    swag = [("c", "s", "a, b", "é", "d", 2), ("", "", "e", "f", None, 0)]
    expected = [
        ChoiceExample("c", ("s a, b", "s é", "s d"), 2),
        ChoiceExample("", ("e", "f"), 0),
    ]
    rows = [dict(zip(names, row, strict=True)) for row in swag]
    assert read(write_rows(tmp_path / f"train.{ending}", rows), "train") == expected
    if ending in ("jsonl", "parquet"):
        rows = [
            {"context": e.context, "choices": list(e.choices), "label": "ABC"[e.label]}
            for e in expected
        ]
        assert read(write_rows(tmp_path / f"lists.{ending}", rows), "train") == expected


SMALL = "sent1,sent2,ending0,ending1,label\nc,s,a,b,1\n"
FIVE = "sent1,sent2,ending0,ending1,ending2,ending3,ending4,label\n"
CHOICES = ("s a", "s b")
NO_LABEL = "has no label", "from 0 to 1", "Only a test file"
TWO = "line 2: at least two choices"

# The kind of split, the name and the text of a file, and what is read.
FILES = [
    ("train", "t.csv", f"{HEADER}\n{ROWS}", EXAMPLES),
    ("dev", "windows.csv", f"\ufeff{HEADER}\r\n{ROWS}", EXAMPLES),
    (
        "dev",
        "any_order.csv",
        "label,ending1,sent2,more,ending0,sent1\n1,b,x,?,a,c d\n0,é,,?,f,\n",
        [ChoiceExample("c d", ("x a", "x b"), 1), ChoiceExample("", ("f", "é"), 0)],
    ),
    # Without names, the columns have the positions of the released files.
    ("train", "t.csv", ROWS, EXAMPLES),
    (
        "dev",
        "few.csv",
        "a,b,c\n",
        refused("no column 'sent1'", "Name the columns sent1"),
    ),
    ("dev", "none.csv", UNLABELLED[1], refused("no column 'label'")),
    ("test", "t.csv", f"{ROWS}1,2,3\n", refused("line 4: 3 fields")),
    # Empty endings at the end are no choices.
    (
        "dev",
        "t.csv",
        f"{FIVE}c,s,a,b,d,e,f,4\nc,s,a,b, ,,,1\n",
        [
            ChoiceExample("c", ("s a", "s b", "s d", "s e", "s f"), 4),
            ChoiceExample("c", CHOICES, 1),
        ],
    ),
    (
        "dev",
        "t.csv",
        f"{FIVE}c,s,a,b,,,,2",
        refused("line 2 has the label '2'", "from 0 to 1"),
    ),
    (
        "dev",
        "t.csv",
        f"{FIVE}c,s,a,,d,,,0",
        refused("line 2: choice 1", "is empty", "leave out"),
    ),
    ("dev", "t.csv", f"{FIVE}c,s,a,,,,,0", refused(TWO, "Received: 1")),
    ("dev", "t.csv", f"{FIVE}c,s,,,,,,0", refused(TWO, "Received: 0")),
    # Only test files may lack labels.
    (
        "test",
        "t.csv",
        "sent1,sent2,ending0,ending1\nc,s,a,b\n",
        [ChoiceExample("c", CHOICES)],
    ),
    (
        "train",
        "t.csv",
        "sent1,sent2,ending0,ending1\nc,s,a,b\n",
        refused("no column 'label'"),
    ),
    ("test", "t.csv", SMALL.replace("1\n", "\n"), [ChoiceExample("c", CHOICES)]),
    ("dev", "t.csv", f"{SMALL}c,s,a,b,\n", refused("line 3", *NO_LABEL)),
    (
        "test",
        "t.JSONL",
        '{"context": "c", "choices": ["a", "b"]}\n',
        [ChoiceExample("c", ("a", "b"))],
    ),
    (
        "dev",
        "t.jsonl",
        '{"context": "c", "choices": ["a", "b"]}\n',
        refused("line 1 has no label"),
    ),
    ("dev", "t.csv", "", refused("is empty")),
    ("dev", "t.txt", "a", refused("must end in one of .tsv, .csv, .jsonl, .parquet")),
]


@pytest.mark.parametrize(("kind", "name", "text", "expected"), FILES)
def test_literal_files(tmp_path, kind, name, text, expected):
    path = write(tmp_path / name, text)
    if not isinstance(expected, list):
        expected = refused(path, *expected)
    check(lambda path: read(path, kind), path, expected)


def test_a_released_file_without_names_and_labels(tmp_path):
    found = read(write(tmp_path / "test.csv", "\n".join(UNLABELLED)), "test")
    assert [(each.context, each.label) for each in found] == [
        ("He sat.", None),
        ("It rains.", None),
    ]


@pytest.mark.parametrize(
    "column", ["sent1", "sent2", "ending0", "ending1", "ending2", "label"]
)
def test_a_missing_column_is_named(tmp_path, column):
    path = write(tmp_path / "dev.csv", f"{HEADER.replace(column, 'other')}\n{ROWS}")
    words = f"no column '{column}'", "Its columns are", "Name the columns sent1"
    check(read, path, refused(path, *words))


@pytest.mark.parametrize("label", ["2", "-1", "x", "0.0", "1 1", "９", "1" * 5000])
def test_a_label_out_of_range_is_refused_or_counted(tmp_path, label):
    path = write(tmp_path / "dev.csv", f"{SMALL}c,s,a,b,{label}\n")
    check(read, path, refused(path, "line 3 has the label", label[:20], "from 0 to 1"))
    counts = Counter()
    assert [each.label for each in read(path, "test", counts)] == [1, None]
    assert counts == {UNKNOWN_IN_TEST: 1}


def test_json_lines_have_any_number_of_choices(tmp_path):
    rows = [
        {"context": "c", "choices": ["a", "b"], "label": 1},
        {"context": "", "sent2": "s", "choices": list("abcdefg"), "label": 6, "id": 5},
        {"context": "c\nd", "sent2": None, "choices": ["é", "\u2028 b"], "label": "0"},
    ]
    assert read(write_rows(tmp_path / "train.jsonl", rows), "train") == [
        ChoiceExample("c", ("a", "b"), 1),
        ChoiceExample("", tuple(f"s {each}" for each in "abcdefg"), 6),
        ChoiceExample("c\nd", ("é", "\u2028 b"), 0),
    ]


GOOD = {"context": "c", "choices": ["a", "b"], "label": 0}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"choices": None}, ("at least two choices", "in a list", "Received: nothing")),
        ({"choices": ["a"]}, ("at least two choices", "Received: 1")),
        ({"choices": ["a", 5]}, ("choice 1 must be a text", "Received: 5")),
        ({"choices": ["a", " "]}, ("choice 1", "is empty")),
        ({"context": None}, ("the context must be a text", "Received: nothing")),
        ({"label": 2}, ("the label 2", "from 0 to 1")),
        ({"label": True}, ("the label True",)),
        ({"label": "a"}, ("the label 'a'",)),
        ({"label": None}, ("no label",)),
    ],
)
def test_malformed_json_lines_are_refused(tmp_path, change, words):
    text = f"{json.dumps(GOOD)}\n\n{json.dumps({**GOOD, **change})}\n"
    check(read, write(tmp_path / "a.jsonl", text), refused("a.jsonl, line 3", *words))

    # A missing key is like null, and a missing text has a message of its own.
    ((name, value),) = change.items()
    if value is None:
        rest = {key: each for key, each in GOOD.items() if key != name}
        if name != "label":
            words = (f"no column '{name}'. Its columns are: {', '.join(rest)}.",)
        path = write(tmp_path / "b.jsonl", json.dumps(rest))
        check(read, path, refused("b.jsonl, line 1", *words))


def test_the_files_of_a_folder_have_conventional_names(tmp_path):
    names = {"train": "train.csv", "dev": "val.csv", "test": "test.jsonl"}
    for kind, name in names.items():
        path = write(tmp_path / name, "")
        (split,) = ChoiceTask().splits(kind, DataLocation(data_dir=str(tmp_path)))
        assert (split.kind, split.name, split.source.name) == (kind, kind, path)


def test_records_have_room_for_the_largest_number_of_choices(tmp_path):
    def rows(name, *sizes):
        examples = [{**GOOD, "choices": ["a"] * size} for size in sizes]
        return write_rows(tmp_path / name, examples)

    train = rows("a.jsonl", 2, 3, 2)
    location = DataLocation(None, train, rows("b.jsonl", 2, 5), rows("c.jsonl", 7))
    task = ChoiceTask()
    assert prepared(task, location) == ChoiceTask(3)
    assert prepared(task, location, RunPhases(True, True)).sizes == {"C": 5}
    facts = prepared(task, location, RunPhases(False, False, True)).facts.saved()
    assert facts == {"task": "swag", "task_type": "choice", "num_choices": 7}
    assert prepared(task, location, RunPhases(False, False)) == ChoiceTask(2)
    limited = DataLocation(train_file=train, max_train_examples=1)
    assert prepared(task, limited) == ChoiceTask(2)


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("swag_real_rows", (52, 38, 32, 38)),
        ("openbookqa_swagfmt_train", (1378, 1212, 1146, 1221)),
        ("openbookqa_swagfmt_test", (138, 126, 132, 104)),
    ],
)
def test_real_files_are_read(test_data, name, counts):
    path = test_data / f"data/swag/{name}.csv"
    if not path.exists():
        pytest.skip(f"requires data/swag/{path.name} in BERT_TF_TEST_DATA")
    examples = read(str(path), "train")
    assert Counter(each.label for each in examples) == dict(enumerate(counts))
    assert {len(each.choices) for each in examples} == {4}
    if name == "swag_real_rows":
        assert examples[0].context == "He pounds on the canvas."
        assert examples[0].choices[2] == "He trims the roof of a bedroom door."
