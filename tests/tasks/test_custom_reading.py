"""Reading the user's own data from literal files."""

import json

import pyarrow as pa
import pyarrow.parquet
import pytest
from prepared import prepared
from reading import check, read_split, refused, write
from refusals import refused_with
from tables_of_rows import write_rows

from bert_tf.tasks import tables
from bert_tf.tasks.classification.sources.custom import TextColumns, custom_task
from bert_tf.tasks.classification.text_examples import UNKNOWN_IN_TEST, TextExample
from bert_tf.tasks.splits import RowCounts
from bert_tf.tasks.tables import TableFormat
from bert_tf.tasks.task import DataLocation

SENTENCE = TextColumns("s")
SINGLE = custom_task(SENTENCE, labels=["a", "b"])
SCORES = custom_task(SENTENCE, "regression")
TOPICS = custom_task(SENTENCE, "multi_label", ["x", "y", "z"])
FORMATS = pytest.mark.parametrize("ending", ["tsv", "csv", "jsonl", "parquet"])


def rows_of(task, path):
    """Returns texts and labels of a file, whose name is its kind with an ending."""
    kind = path.stem.partition(".")[0]
    found = read_split(task, kind, **{f"{kind}_file": str(path)})
    return [(each.text_a, each.label) for each in found]


@FORMATS
def test_all_formats_give_equal_examples(tmp_path, ending):
    rows = [
        {"id": "1", "q": "one, two", "a": "naïve", "label": "x"},
        {"id": "2", "q": "three", "a": "四", "label": "y"},
        {"id": "3", "q": "", "a": "five", "label": "x"},
    ]
    path = write_rows(tmp_path / f"train.{ending}", rows)
    task = prepared(custom_task(TextColumns("q", "a")), DataLocation(train_file=path))
    assert task.labels == ("x", "y") and task.pair
    assert read_split(task, "train", data_dir=str(tmp_path)) == [
        TextExample(row["q"], row["a"], row["label"]) for row in rows
    ]


# The default limit of the csv module is 131,072 characters.
LONG = "word " * 50_000
ROW = '{"s": "x", "label": "a"}\n'
NO_COLUMN = "dev.tsv has no column 's'", "are: t, label."
SHORT = "line 2: 1 fields, but the header line has 2"
QUOTES = "columns are: 's ', label. Give the name of"
NULL = "line 1: column 's' has no value"

# A file with one column has a result for each line; with several columns, an empty line
# is no text.
FILES = [
    (
        "test.tsv",
        "\ns\none\n\ntwo\n",
        [("one", None), ("", None), ("two", None)],
    ),
    (
        "test.csv",
        "\ns\none\n\ntwo\n",
        [("one", None), ("", None), ("two", None)],
    ),
    ("dev.tsv", "s\tlabel\none\ta\n\ntwo\tb\n", [("one", "a"), ("two", "b")]),
    ("dev.csv", "s,label\none,a\n\ntwo,b\n", [("one", "a"), ("two", "b")]),
    ("dev.csv", 's,label\n"one\ntwo",a\n', [("one\ntwo", "a")]),
    ("dev.tsv", f"s\tlabel\n{LONG}\ta\n", [(LONG, "a")]),
    ("dev.csv", f"s,label\n{LONG},a\n", [(LONG, "a")]),
    # A row ends at a line feed only, and quotes are characters.
    (
        "dev.tsv",
        '\ufeffs\tlabel\r\none\rtwo "\ta\r\n\r\n"\ta\r\n',
        [('one\rtwo "', "a"), ('"', "a")],
    ),
    ("dev.tsv", "t\tlabel\nx\ta\n", refused(*NO_COLUMN)),
    (
        "dev.tsv",
        "s\tlabel\nx\tc\n",
        refused("line 2: the label 'c' is not one of a, b"),
    ),
    ("dev.tsv", "s\tlabel\nx\tA\n", refused("line 2: ", "Did you mean 'a'?")),
    ("dev.tsv", "s\tlabel\nx\t\n", refused("line 2: column 'label' is empty")),
    ("dev.tsv", "s\tlabel\nx\n", refused(SHORT)),
    ("dev.csv", "s,label,s\nx,a,y\n", refused("several columns 's'")),
    ("dev.csv", 's,label\n"\n",a\nx,c\n', refused("line 4: ", " 'c'")),
    (
        "dev.csv",
        's,label\n\n"x,a\ny,a\n',
        refused("line 3 is not CSV: ", " end of"),
    ),
    ("dev.jsonl", ROW + '{"s": 1', refused("line 2 is not JSON")),
    (
        "dev.jsonl",
        '\n{"s": "x"}',
        refused("line 2 has no column 'label'", "are: s."),
    ),
    ("dev.jsonl", '{"s": null, "label": "a"}', refused(NULL)),
    (
        "dev.jsonl",
        '{"s": [1], "label": "a"}',
        refused("line 1: column 's' ", "type list"),
    ),
    (
        "dev.jsonl",
        '{"s": "x", "label": null}',
        refused("column 'label' has no value"),
    ),
    (
        "dev.jsonl",
        '{"s": "x", "label": NaN}',
        refused("line 1: ", "the number nan"),
    ),
    (
        "dev.csv",
        "s;label\nx;a\n",
        refused("are: s;label. Separate ", "in a .csv file"),
    ),
    ("dev.csv", "s ,label\nx,a\n", refused(QUOTES)),
    ("dev.tsv", "", refused("dev.tsv is empty")),
    ("dev.tsv", "s\tlabel\n", refused("dev.tsv has no examples")),
    (
        "dev.tsv",
        b"s\tlabel\nok\ta\ncaf\xe9\ta\n",
        refused("UTF-8: byte 0xe9 in line 3"),
    ),
    ("dev.parquet", "x", refused("dev.parquet cannot be read as Parquet")),
]
OTHER_FILES = [
    (
        SCORES,
        "dev.tsv",
        "s\tlabel\nx\thigh\n",
        refused("line 2: column 'label' has 'high'"),
    ),
    (
        SCORES,
        "dev.tsv",
        "s\tlabel\nx\t1\ny\tinf\n",
        refused("line 3: ", "'inf'. Write a finite"),
    ),
    (SCORES, "dev.jsonl", '{"s": "x", "label": true}', refused("line 1: ", "'true'")),
    (TOPICS, "dev.tsv", "s\tlabel\nx\tx,w\n", refused("line 2: the label 'w'")),
    (
        TOPICS,
        "dev.jsonl",
        '{"s": "x", "label": ["x", null]}',
        refused("line 1: ", "no value"),
    ),
]


@pytest.mark.parametrize(
    ("task", "name", "content", "expected"),
    [*((SINGLE, *each) for each in FILES), *OTHER_FILES],
)
def test_literal_files(tmp_path, task, name, content, expected):
    write(tmp_path / name, content)
    check(lambda path: rows_of(task, path), tmp_path / name, expected)


# The labels of a test file, of which some may be missing or unknown, and the number of
# unknown ones. A text without a topic is scored, too.
TESTS = [
    (SINGLE, "test.tsv", "s\nhello\n", [None], 0),
    (SINGLE, "test.jsonl", '{"s":"hello"}\n{"s":"you","label":"b"}\n', [None, "b"], 0),
    (SINGLE, "test.csv", "s,label\n1,a\n2,\n3,?\n", ["a", None, None], 1),
    (SINGLE, "test.csv", "s,label\n1,\n2,b\n3, \n", [None, "b", None], 0),
    (TOPICS, "test.csv", "s,label\n1,\n2,y\n3,w\n", [(), ("y",), None], 1),
    (TOPICS, "test.csv", "s\n1\n", [None], 0),
]


@pytest.mark.parametrize(("task", "name", "text", "labels", "unknown"), TESTS)
def test_a_test_file_does_not_need_labels(tmp_path, task, name, text, labels, unknown):
    counts, path = RowCounts(), write(tmp_path / name, text)
    found = read_split(task, "test", counts, test_file=path)
    assert [example.label for example in found] == labels
    assert counts[UNKNOWN_IN_TEST] == unknown


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
@pytest.mark.parametrize("values", [(True, False), (1, 20), (1.0, 2.5)])
def test_bools_and_numbers_have_the_text_form_of_json(tmp_path, ending, values):
    rows = [{"s": value, "label": value} for value in values]
    location = DataLocation(train_file=write_rows(tmp_path / f"train.{ending}", rows))
    task = prepared(custom_task(SENTENCE), location)
    expected = [json.dumps(value) for value in values]
    assert task.labels == tuple(sorted(expected))
    found = read_split(task, "train", train_file=location.train_file)
    assert found == [TextExample(text, None, text) for text in expected]


# For each task type, a train file, and its labels or what is wrong with them.
SEVERAL = ("x", "y", "z"), [("z", "x"), (), ("y",)]
JSON = '{"s":"1","label":["z","x"]}\n{"s":"2","label":[]}\n{"s":"3","label":"y"}\n'
TOO_FEW = "task type classification needs at least two different labels. Received: a"
LABELS = [
    ("multi_label", "train.tsv", "s\tlabel\n1\tz, x\n2\t\n3\ty\n", ",", SEVERAL),
    ("multi_label", "train.csv", 's,label\n1,"z,x,z"\n2,""\n3,y\n', ",", SEVERAL),
    ("multi_label", "train.tsv", "s\tlabel\n1\tz | x\n2\t\n3\ty|\n", "|", SEVERAL),
    ("multi_label", "train.jsonl", JSON, ",", SEVERAL),
    ("classification", "train.jsonl", "", ",", refused("train.jsonl has no examples")),
    ("classification", "train.csv", "s,label\nx,a\ny,a \n", ",", refused(TOO_FEW)),
    (
        "multi_label",
        "train.tsv",
        "s\tlabel\nx\t\n",
        ",",
        refused("multi_label needs at least one label. Received: no labels"),
    ),
]


@pytest.mark.parametrize(("task_type", "name", "text", "separator", "expected"), LABELS)
def test_labels_of_a_train_file(tmp_path, task_type, name, text, separator, expected):
    def labels(path):
        columns = TextColumns("s", label_separator=separator)
        location = DataLocation(train_file=path)
        task = prepared(custom_task(columns, task_type), location)
        return task.labels, [
            each.label for each in read_split(task, "train", train_file=path)
        ]

    check(labels, write(tmp_path / name, text), expected)


def test_binary_columns_of_parquet_are_texts(tmp_path):
    encoded = pa.array(["é".encode(), b"x", "é".encode()])
    labels = pa.array(["a", "b", "a"]).dictionary_encode()
    for texts in (encoded, encoded.dictionary_encode()):
        assert pa.types.is_dictionary(texts.type) == (texts is not encoded)
        table = pa.table({"s": texts, "label": labels})
        pa.parquet.write_table(table, tmp_path / "dev.parquet")
        found = rows_of(SINGLE, tmp_path / "dev.parquet")
        assert found == [("é", "a"), ("x", "b"), ("é", "a")]


@FORMATS
@pytest.mark.parametrize("task_type", ["classification", "multi_label"])
def test_blanks_around_labels_are_removed(tmp_path, ending, task_type):
    given = ("pos ", "pos", " neg", "\u00a0neg")
    path = tmp_path / f"train.{ending}"
    write_rows(path, [{"s": " x ", "label": label} for label in given])
    location = DataLocation(train_file=str(path))
    assert prepared(custom_task(SENTENCE, task_type), location).labels == ("neg", "pos")
    task = custom_task(SENTENCE, task_type, [" pos", "neg "])
    assert task.labels == ("pos", "neg")
    is_one = task_type == "classification"
    assert rows_of(task, path) == [
        (" x ", name if is_one else (name,)) for name in ("pos", "pos", "neg", "neg")
    ]


def test_parquet_errors_name_the_row_and_the_columns(tmp_path):
    path = tmp_path / "dev.parquet"
    write_rows(path, [{"s": "x", "label": label} for label in "aabc"])
    expected = refused("dev.parquet, row 4: the label 'c'")
    check(lambda path: rows_of(SINGLE, path), path, expected)
    task = custom_task(TextColumns("t"), labels=["a", "b"])
    expected = refused("no column 't' (text_a_column). Its columns are: s, label.")
    check(lambda path: rows_of(task, path), path, expected)


def test_parquet_without_pyarrow_names_the_package(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with refused_with("bert-tf[parquet]"):
        next(tables.rows(write(tmp_path / "dev.parquet", ""), print))


def test_split_files(tmp_path):
    """The names of files are tried one after the other; gzip may pack a file."""

    def find(kind, **options):
        location = DataLocation(str(tmp_path), **options)
        return location.find_table(kind).removeprefix(f"{tmp_path}/")

    def check_refused(words, *arguments, **options):
        with refused_with(*words):
            DataLocation(*arguments, **options).find_table("dev")

    check_refused(
        ["no file dev.tsv in ", ", nor ", "validation.parquet"], str(tmp_path)
    )
    path = write(tmp_path / "validation.csv", "")
    assert find("dev") == find("test", test_file=path) == "validation.csv"
    write(tmp_path / "dev.tsv", "")
    check_refused(["several dev files: dev.tsv, validation.csv"], str(tmp_path))
    check_refused(
        ["There is no file no.tsv. Give an existing dev file"], dev_file="no.tsv"
    )
    check_refused(["Give data_dir, or a dev file"])
    for name in ("train.csv.gz", "train.csv"):
        write(tmp_path / name, "")
        assert find("train") == name
    write(tmp_path / "test.txt", "")
    assert find("test", table_format=TableFormat("tsv")) == "test.txt"


REPEATED = "labels has 'b' twice. Give each label once."
TYPES = "input_format must be one of auto, tsv, csv, jsonl, "
ENCODING = "encoding must be a known encoding, such as latin-1. Received: 'latin-99'"


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (
            custom_task,
            (SENTENCE, "classification", ["a"]),
            "different labels. Received: a",
        ),
        (custom_task, (SENTENCE, "classification", ["a", "b", "b"]), REPEATED),
        (custom_task, (SENTENCE, "multi_label", []), "Received: no labels"),
        (custom_task, (SENTENCE, "ranking", ["a", "b"]), "task_type must be one of"),
        (
            custom_task,
            (SENTENCE, "multi_label", ["a"], 1.0),
            "threshold must be above 0",
        ),
        (TextColumns, ("s", "s"), "must differ. Received: s, s, label."),
        (TableFormat, ("auto", "latin-99"), ENCODING),
        (TableFormat, ("xlsx",), TYPES),
    ],
)
def test_invalid_settings_are_refused(make, arguments, message):
    with refused_with(message):
        make(*arguments)


def test_the_fingerprint_depends_on_content_and_columns(tmp_path):
    write(tmp_path / "one.csv", "s,label\n")
    write(tmp_path / "two.csv", "s,label\nx,a\n")

    def fingerprint(name="one.csv", columns="s", **form):
        task = custom_task(TextColumns(columns), labels=["a", "b"])
        path, form = str(tmp_path / name), TableFormat(**form)
        location = DataLocation(dev_file=path, table_format=form)
        return task.splits("dev", location)[0].source.fingerprint()

    assert fingerprint() == fingerprint()
    different = {
        fingerprint(),
        fingerprint("two.csv"),
        fingerprint(columns="t"),
        fingerprint(encoding="latin-1"),
        fingerprint(header=False),
        fingerprint(input_format="csv"),
    }
    assert len(different) == 6
