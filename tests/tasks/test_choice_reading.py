"""Reading of SWAG's CSV files and of JSON lines with choices, and refused files."""

import json
from collections import Counter

import pytest
from prepared import prepared
from tables_of_rows import write_rows

from bert_tf.errors import InputError
from bert_tf.tasks.choice.choice_examples import (
    UNKNOWN_IN_TEST,
    ChoiceExample,
    read_examples,
)
from bert_tf.tasks.choice.choice_task import ChoiceTask
from bert_tf.tasks.task import DataLocation
from bert_tf.training.config import RunPhases

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


def write(folder, name, text):
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def read(path, kind="dev", counts=None):
    return list(read_examples(path, kind, Counter() if counts is None else counts))


def refused(path, *words, kind="dev"):
    """Asserts that a file is refused with one line that contains the file and the words."""
    with pytest.raises(InputError) as caught:
        read(path, kind)
    message = str(caught.value)
    assert "\n" not in message
    for word in (path, *words):
        assert word in message, message


def test_the_official_file_is_read_with_its_quoting(tmp_path):
    path = write(tmp_path, "train.csv", f"{HEADER}\n{ROWS}")
    assert read(path, "train") == EXAMPLES
    assert read(write(tmp_path, "windows.csv", f"\ufeff{HEADER}\r\n{ROWS}")) == EXAMPLES


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_all_formats_give_equal_examples(tmp_path, ending):
    swag = [
        {
            "sent1": "c",
            "sent2": "s",
            "ending0": "a, b",
            "ending1": "é",
            "ending2": "d",
            "label": 2,
        },
        {
            "sent1": "",
            "sent2": "",
            "ending0": "e",
            "ending1": "f",
            "ending2": None,
            "label": 0,
        },
    ]
    expected = [
        ChoiceExample("c", ("s a, b", "s é", "s d"), 2), ChoiceExample("", ("e", "f"), 0),
    ]  # fmt: skip
    assert read(write_rows(tmp_path / f"train.{ending}", swag), "train") == expected
    if ending in ("jsonl", "parquet"):
        lists = [
            {"context": e.context, "choices": list(e.choices), "label": "ABC"[e.label]}
            for e in expected
        ]
        assert (
            read(write_rows(tmp_path / f"lists.{ending}", lists), "train") == expected
        )


def test_columns_are_found_by_name_in_any_order(tmp_path):
    text = "label,ending1,sent2,more,ending0,sent1\n1,b,x,?,a,c d\n0,é,,?,f,\n"
    assert read(write(tmp_path, "dev.csv", text)) == [
        ChoiceExample("c d", ("x a", "x b"), 1), ChoiceExample("", ("f", "é"), 0),
    ]  # fmt: skip


def test_a_file_without_names_has_the_positions_of_the_released_files(tmp_path):
    assert read(write(tmp_path, "train.csv", ROWS), "train") == EXAMPLES
    unlabelled = [
        row.rsplit(",", 1)[0] for row in ROWS.replace("\na", " a").splitlines()
    ]
    found = read(write(tmp_path, "test.csv", "\n".join(unlabelled)), "test")
    assert [each.label for each in found] == [None, None]
    assert [each.context for each in found] == ["He sat.", "It rains."]
    refused(
        write(tmp_path, "few.csv", "a,b,c\n"),
        "no column 'sent1'",
        "Name the columns sent1",
    )
    refused(write(tmp_path, "none.csv", unlabelled[1]), "no column 'label'")
    refused(write(tmp_path, "t.csv", f"{ROWS}1,2,3\n"), "line 4: 3 fields", kind="test")


def test_empty_endings_at_the_end_are_no_choices(tmp_path):
    header = "sent1,sent2,ending0,ending1,ending2,ending3,ending4,label"
    rows = "c,s,a,b,d,e,f,4\nc,s,a,b, ,,,1\n"
    found = read(write(tmp_path, "dev.csv", f"{header}\n{rows}"))
    assert [len(each.choices) for each in found] == [5, 2]
    for row, words in {
        "c,s,a,b,,,,2": ("line 2 has the label '2'", "from 0 to 1"),
        "c,s,a,,d,,,0": ("line 2: choice 1", "is empty", "leave out"),
        "c,s,a,,,,,0": ("line 2: at least two choices", "Received: 1"),
        "c,s,,,,,,0": ("line 2: at least two choices", "Received: 0"),
    }.items():
        refused(write(tmp_path, "bad.csv", f"{header}\n{row}\n"), *words)


@pytest.mark.parametrize(
    "column", ["sent1", "sent2", "ending0", "ending1", "ending2", "label"]
)
def test_a_missing_column_is_named(tmp_path, column):
    path = write(tmp_path, "dev.csv", f"{HEADER.replace(column, 'other')}\n{ROWS}")
    refused(path, f"no column '{column}'", "Its columns are", "Name the columns sent1")


def test_only_test_files_may_lack_labels(tmp_path):
    path = write(tmp_path, "test.csv", "sent1,sent2,ending0,ending1\nc,s,a,b\n")
    assert read(path, "test") == [ChoiceExample("c", ("s a", "s b"))]
    refused(path, "no column 'label'", kind="train")
    empty = write(tmp_path, "dev.csv", "sent1,sent2,ending0,ending1,label\nc,s,a,b,\n")
    assert read(empty, "test")[0].label is None
    refused(empty, "line 2 has no label", "from 0 to 1", "Only a test file")


@pytest.mark.parametrize("label", ["2", "-1", "x", "0.0", "1 1", "９", "1" * 5000])
def test_a_label_out_of_range_is_refused_or_counted(tmp_path, label):
    text = f"sent1,sent2,ending0,ending1,label\nc,s,a,b,1\nc,s,a,b,{label}\n"
    path = write(tmp_path, "dev.csv", text)
    refused(path, "line 3 has the label", label[:20], "from 0 to 1")
    counts = Counter()
    assert [each.label for each in read(path, "test", counts)] == [1, None]
    assert counts == {UNKNOWN_IN_TEST: 1}


def test_json_lines_have_any_number_of_choices(tmp_path):
    rows = [
        {"context": "c", "choices": ["a", "b"], "label": 1},
        {"context": "", "sent2": "s", "choices": list("abcdefg"), "label": 6, "id": 5},
        {"context": "c\nd", "sent2": None, "choices": ["é", "\u2028 b"], "label": "0"},
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    assert read(write(tmp_path, "train.JSONL", text), "train") == [
        ChoiceExample("c", ("a", "b"), 1),
        ChoiceExample("", tuple(f"s {each}" for each in "abcdefg"), 6),
        ChoiceExample("c\nd", ("é", "\u2028 b"), 0),
    ]
    unlabelled = write(
        tmp_path, "test.jsonl", '{"context": "c", "choices": ["a", "b"]}\n'
    )
    assert read(unlabelled, "test") == [ChoiceExample("c", ("a", "b"))]
    refused(unlabelled, "line 1 has no label")


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
    refused(write(tmp_path, "dev.jsonl", text), "line 3", *words)
    missing = {name: value for name, value in GOOD.items() if name not in change}
    if "label" in change and None in change.values():
        refused(write(tmp_path, "dev.jsonl", json.dumps(missing)), "line 1", *words)
    elif None in change.values():
        names = (
            f"no column '{next(iter(change))}'. Its columns are: {', '.join(missing)}."
        )
        refused(write(tmp_path, "dev.jsonl", json.dumps(missing)), "line 1", names)


def test_other_files_are_refused(tmp_path):
    refused(write(tmp_path, "dev.csv", ""), "is empty")
    refused(
        write(tmp_path, "dev.txt", "a"),
        "must end in one of .tsv, .csv, .jsonl, .parquet",
    )


def test_the_files_of_a_folder_have_conventional_names(tmp_path):
    task = ChoiceTask()
    for kind, name in (
        ("train", "train.csv"),
        ("dev", "val.csv"),
        ("test", "test.jsonl"),
    ):
        path = write(tmp_path, name, "")
        (split,) = task.splits(kind, DataLocation(data_dir=str(tmp_path)))
        assert (split.kind, split.name, split.source.name) == (kind, kind, path)


def test_records_have_room_for_the_largest_number_of_choices(tmp_path):
    def rows(*sizes):
        return "".join(
            json.dumps({"context": "c", "choices": ["a"] * size, "label": 0}) + "\n"
            for size in sizes
        )

    location = DataLocation(
        train_file=write(tmp_path, "a.jsonl", rows(2, 3, 2)),
        dev_file=write(tmp_path, "b.jsonl", rows(2, 5)),
        test_file=write(tmp_path, "c.jsonl", rows(7)),
    )
    task = ChoiceTask()
    assert prepared(task, location) == ChoiceTask(3)
    assert prepared(task, location, RunPhases(True, True)).sizes == {"C": 5}
    assert prepared(task, location, RunPhases(False, False, True)).facts.saved() == {
        "task": "swag", "task_type": "choice", "num_choices": 7,
    }  # fmt: skip
    assert prepared(task, location, RunPhases(False, False)) == ChoiceTask(2)
    limited = DataLocation(train_file=location.train_file, max_train_examples=1)
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
