"""Reading the user's own data from literal files."""

import json
from collections import Counter

import pyarrow as pa
import pyarrow.parquet
import pytest
import tables_of_rows
from prepared import prepared

from bert_tf.errors import InputError
from bert_tf.tasks import tables
from bert_tf.tasks.classification.sources.custom import TextColumns, custom_task
from bert_tf.tasks.classification.text_examples import UNKNOWN_IN_TEST, TextExample
from bert_tf.tasks.tables import TableFormat
from bert_tf.tasks.task import DataLocation

SENTENCE = TextColumns("s")
SINGLE = custom_task(SENTENCE, labels=["a", "b"])
SCORES = custom_task(SENTENCE, "regression")
TOPICS = custom_task(SENTENCE, "multi_label", ["x", "y", "z"])


def write(folder, name, text):
    (folder / name).write_text(text, encoding="utf-8", newline="")
    return str(folder)


def write_rows(folder, name, rows):
    """Writes rows in the format of the file name.

    The keys of the first row are the header.
    """
    tables_of_rows.write_rows(folder / name, rows)
    return str(folder)


def read(task, folder, kind, counts=None):
    (split,) = task.splits(kind, DataLocation(data_dir=str(folder)))
    return list(task.read(split, Counter() if counts is None else counts))


@pytest.mark.parametrize("ending", ["tsv", "csv", "jsonl", "parquet"])
def test_all_formats_give_equal_examples(tmp_path, ending):
    rows = [
        {"id": "1", "q": "one, two", "a": "naïve", "label": "x"},
        {"id": "2", "q": "three", "a": "四", "label": "y"},
        {"id": "3", "q": "", "a": "five", "label": "x"},
    ]
    folder = write_rows(tmp_path, f"train.{ending}", rows)
    task = prepared(custom_task(TextColumns("q", "a")), DataLocation(data_dir=folder))
    assert task.labels == ("x", "y") and task.pair
    assert read(task, folder, "train") == [
        TextExample("one, two", "naïve", "x"),
        TextExample("three", "四", "y"),
        TextExample("", "five", "x"),
    ]


@pytest.mark.parametrize("ending", ["tsv", "csv"])
def test_an_empty_line_of_one_column_is_a_text(tmp_path, ending):
    """A result for each line; with several columns, an empty line is none."""
    folder = write(tmp_path, f"test.{ending}", "\ns\none\n\ntwo\n")
    assert [each.text_a for each in read(SINGLE, folder, "test")] == ["one", "", "two"]
    separator = {"tsv": "\t", "csv": ","}[ending]
    folder = write(
        tmp_path, f"test.{ending}", "s|label\none|a\n\ntwo|b\n".replace("|", separator)
    )
    assert [each.text_a for each in read(SINGLE, folder, "test")] == ["one", "two"]


def test_csv_keeps_line_breaks_in_quotes(tmp_path):
    folder = write(tmp_path, "dev.csv", 's,label\n"one\ntwo",a\n')
    assert read(SINGLE, folder, "dev") == [TextExample("one\ntwo", None, "a")]


@pytest.mark.parametrize("ending", ["tsv", "csv"])
def test_texts_can_have_any_length(tmp_path, ending):
    mark = "\t" if ending == "tsv" else ","
    text = "word " * 50_000  # the default limit of the csv module is 131,072 characters
    folder = write(tmp_path, f"dev.{ending}", f"s{mark}label\n{text}{mark}a\n")
    assert read(SINGLE, folder, "dev") == [TextExample(text, None, "a")]


def test_a_tsv_row_ends_at_a_line_feed_only(tmp_path):
    folder = write(
        tmp_path, "dev.tsv", '\ufeffs\tlabel\r\none\rtwo "\ta\r\n\r\n"\ta\r\n'
    )
    assert read(SINGLE, folder, "dev") == [
        TextExample('one\rtwo "', None, "a"),
        TextExample('"', None, "a"),
    ]


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_bools_and_numbers_have_the_text_form_of_json(tmp_path, ending):
    for number, values in enumerate([(True, False), (1, 20), (1.0, 2.5)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        rows = [{"s": value, "label": value} for value in values]
        write_rows(folder, f"train.{ending}", rows)
        expected = [json.dumps(value) for value in values]
        location = DataLocation(data_dir=str(folder))
        assert prepared(custom_task(SENTENCE), location).labels == tuple(
            sorted(expected)
        )
        task = custom_task(SENTENCE, labels=expected)
        examples = read(task, folder, "train")
        assert examples == [TextExample(text, None, text) for text in expected]


@pytest.mark.parametrize(
    ("name", "text", "separator"),
    [
        ("train.tsv", "s\tlabel\n1\tz, x\n2\t\n3\ty\n", ","),
        ("train.csv", 's,label\n1,"z,x,z"\n2,""\n3,y\n', ","),
        ("train.tsv", "s\tlabel\n1\tz | x\n2\t\n3\ty|\n", "|"),
        ("train.jsonl", '{"s":"1","label":["z","x"]}\n{"s":"2","label":[]}\n'
         '{"s":"3","label":"y"}\n', ","),
    ],
    ids=["tsv", "csv", "separator", "jsonl"],
)  # fmt: skip
def test_several_labels(tmp_path, name, text, separator):
    folder = write(tmp_path, name, text)
    location = DataLocation(data_dir=folder)
    task = prepared(
        custom_task(TextColumns("s", label_separator=separator), "multi_label"),
        location,
    )
    assert task.labels == ("x", "y", "z")
    assert [e.label for e in read(task, folder, "train")] == [("z", "x"), (), ("y",)]


@pytest.mark.parametrize(
    ("name", "text", "labels", "unknown"),
    [
        ("test.tsv", "s\nhello\n", [None], 0),
        ("test.jsonl", '{"s":"hello"}\n{"s":"you","label":"b"}\n', [None, "b"], 0),
        ("test.csv", "s,label\n1,a\n2,\n3,?\n", ["a", None, None], 1),
    ],
    ids=["no_column", "no_key", "placeholders"],
)
def test_a_test_file_does_not_need_labels(tmp_path, name, text, labels, unknown):
    counts = Counter()
    examples = read(SINGLE, write(tmp_path, name, text), "test", counts)
    assert [example.label for example in examples] == labels
    assert counts[UNKNOWN_IN_TEST] == unknown


def test_an_empty_cell_of_a_test_file_is_no_label_or_no_labels(tmp_path):
    folder = write(tmp_path, "test.csv", "s,label\n1,\n2,b\n3, \n")
    assert [each.label for each in read(SINGLE, folder, "test")] == [None, "b", None]
    # A text without a topic is scored, too.
    folder = write(tmp_path, "test.csv", "s,label\n1,\n2,y\n3,w\n")
    counts = Counter()
    assert [each.label for each in read(TOPICS, folder, "test", counts)] == [
        (),
        ("y",),
        None,
    ]
    assert counts[UNKNOWN_IN_TEST] == 1
    folder = write(tmp_path, "test.csv", "s\n1\n")
    assert [each.label for each in read(TOPICS, folder, "test")] == [None]


def test_binary_columns_of_parquet_are_texts(tmp_path):
    encoded = pa.array(["é".encode(), b"x", "é".encode()])
    labels = pa.array(["a", "b", "a"]).dictionary_encode()
    for texts in (encoded, encoded.dictionary_encode()):
        assert pa.types.is_dictionary(texts.type) == (texts is not encoded)
        table = pa.table({"s": texts, "label": labels})
        pa.parquet.write_table(table, tmp_path / "dev.parquet")
        assert read(SINGLE, tmp_path, "dev") == [
            TextExample("é", None, "a"), TextExample("x", None, "b"), TextExample("é", None, "a")
        ]  # fmt: skip


@pytest.mark.parametrize("ending", ["tsv", "csv", "jsonl", "parquet"])
@pytest.mark.parametrize("task_type", ["classification", "multi_label"])
def test_blanks_around_labels_are_removed(tmp_path, ending, task_type):
    rows = [
        {"s": " x ", "label": label} for label in ("pos ", "pos", " neg", "\u00a0neg")
    ]
    folder = write_rows(tmp_path, f"train.{ending}", rows)
    location = DataLocation(data_dir=folder)
    assert prepared(custom_task(SENTENCE, task_type), location).labels == ("neg", "pos")
    task = custom_task(SENTENCE, task_type, [" pos", "neg "])
    assert task.labels == ("pos", "neg")
    names = ["pos", "pos", "neg", "neg"]
    labels = names if task_type == "classification" else [(name,) for name in names]
    assert read(task, folder, "train") == [
        TextExample(" x ", None, label) for label in labels
    ]


@pytest.mark.parametrize(
    ("name", "text", "task_type", "message"),
    [
        ("train.jsonl", "", "classification", "train.jsonl has no examples"),
        ("train.csv", "s,label\nx,a\ny,a \n", "classification",
         "task type classification needs at least two different labels. Received: a"),
        ("train.tsv", "s\tlabel\nx\t\n", "multi_label",
         "task type multi_label needs at least one label. Received: no labels"),
    ],
    ids=["empty", "one", "multi_label"],
)  # fmt: skip
def test_labels_that_do_not_suffice_are_refused(
    tmp_path, name, text, task_type, message
):
    location = DataLocation(data_dir=write(tmp_path, name, text))
    with pytest.raises(InputError, match=message):
        prepared(custom_task(SENTENCE, task_type), location)


ROW = '{"s": "x", "label": "a"}\n'


@pytest.mark.parametrize(
    ("task", "name", "text", "message"),
    [
        (SINGLE, "dev.tsv", "t\tlabel\nx\ta\n", r"dev.tsv has no column 's'.*are: t, label\."),
        (SINGLE, "dev.tsv", "s\tlabel\nx\tc\n", r"line 2: the label 'c' is not one of a, b"),
        (SINGLE, "dev.tsv", "s\tlabel\nx\tA\n", r"line 2: .*Did you mean 'a'\?"),
        (SINGLE, "dev.tsv", "s\tlabel\nx\t\n", r"line 2: column 'label' is empty"),
        (SINGLE, "dev.tsv", "s\tlabel\nx\n", r"line 2: 1 fields, but the header line has 2"),
        (SINGLE, "dev.csv", "s,label\nx,y,a\n", r"line 2: 3 fields, but the header line has 2"),
        (SINGLE, "dev.csv", "s,label,s\nx,a,y\n", r"several columns 's'"),
        (SINGLE, "dev.csv", 's,label\n"\n",a\nx,c\n', r"line 4: .* 'c'"),
        (SINGLE, "dev.csv", 's,label\n\n"x,a\ny,a\n', r"line 3 is not CSV: .* end of"),
        (SINGLE, "dev.jsonl", ROW + '{"s": 1', r"line 2 is not JSON"),
        (SINGLE, "dev.jsonl", '\n{"s": "x"}', r"line 2 has no column 'label'.*are: s\."),
        (SINGLE, "dev.jsonl", '{"s": null, "label": "a"}', r"line 1: column 's' has no value"),
        (SINGLE, "dev.jsonl", '{"s": [1], "label": "a"}', r"line 1: column 's' .*type list"),
        (SINGLE, "dev.jsonl", '{"s": "x", "label": null}', r"column 'label' has no value"),
        (SINGLE, "dev.jsonl", '{"s": "x", "label": NaN}', r"line 1: .*the number nan"),
        (SINGLE, "dev.csv", "s;label\nx;a\n", r"are: s;label. Separate .* commas in a .csv file"),
        (SINGLE, "dev.csv", "s ,label\nx,a\n", r"columns are: 's ', label\. Give the name of"),
        (SINGLE, "dev.txt", "x", r"no file dev.tsv in .*, nor .*validation.parquet"),
        (SINGLE, "dev.tsv", "", r"dev.tsv is empty"),
        (SINGLE, "dev.tsv", "s\tlabel\n", r"dev.tsv has no examples"),
        (SCORES, "dev.tsv", "s\tlabel\nx\thigh\n", r"line 2: column 'label' has 'high'"),
        (SCORES, "dev.tsv", "s\tlabel\nx\t1\ny\tinf\n", r"line 3: .*'inf'. Write a finite"),
        (SCORES, "dev.jsonl", '{"s": "x", "label": true}', r"line 1: .*'true'"),
        (TOPICS, "dev.tsv", "s\tlabel\nx\tx,w\n", r"line 2: the label 'w'"),
        (TOPICS, "dev.jsonl", '{"s": "x", "label": ["x", null]}', r"line 1: .*no value"),
        (SINGLE, "dev.parquet", "x", r"dev.parquet cannot be read as Parquet"),
    ],
)  # fmt: skip
def test_malformed_files_are_refused_with_the_line(tmp_path, task, name, text, message):
    with pytest.raises(InputError, match=message) as raised:
        read(task, write(tmp_path, name, text), name.split(".")[0])
    assert "\n" not in str(raised.value)


def test_invalid_utf8_is_refused_with_the_line(tmp_path):
    (tmp_path / "dev.tsv").write_bytes(b"s\tlabel\nok\ta\ncaf\xe9\ta\n")
    with pytest.raises(InputError, match=r"not UTF-8: byte 0xe9 in line 3"):
        read(SINGLE, tmp_path, "dev")


def test_parquet_errors_name_the_row_and_the_columns(tmp_path):
    folder = write_rows(
        tmp_path, "dev.parquet", [{"s": "x", "label": c} for c in "aabc"]
    )
    with pytest.raises(InputError, match=r"dev.parquet, row 4: the label 'c'"):
        read(SINGLE, folder, "dev")
    message = r"no column 't' \(text_a_column\). Its columns are: s, label\."
    with pytest.raises(InputError, match=message):
        read(custom_task(TextColumns("t"), labels=["a", "b"]), folder, "dev")


def test_parquet_without_pyarrow_names_the_package(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(InputError, match=r"bert-tf\[parquet\]"):
        next(tables.rows(write(tmp_path, "dev.parquet", "") + "/dev.parquet", print))


def test_split_files(tmp_path):
    write(tmp_path, "validation.csv", "")
    location = DataLocation(
        data_dir=str(tmp_path), test_file=str(tmp_path / "validation.csv")
    )
    assert location.find_table("dev") == str(tmp_path / "validation.csv")
    assert location.find_table("test") == str(tmp_path / "validation.csv")
    write(tmp_path, "dev.tsv", "")
    with pytest.raises(InputError, match=r"several dev files: dev.tsv, validation.csv"):
        location.find_table("dev")
    with pytest.raises(
        InputError, match=r"There is no file no.tsv. Give an existing dev file"
    ):
        DataLocation(dev_file="no.tsv").find_table("dev")
    with pytest.raises(InputError, match="Give data_dir, or a train file"):
        DataLocation().find_table("train")
    write(tmp_path, "dev.xlsx", "")
    write(tmp_path, "train.csv.gz", "")
    assert DataLocation(str(tmp_path)).find_table("train") == str(
        tmp_path / "train.csv.gz"
    )
    write(tmp_path, "train.csv", "")
    assert DataLocation(str(tmp_path)).find_table("train") == str(
        tmp_path / "train.csv"
    )
    write(tmp_path, "test.txt", "")
    location = DataLocation(str(tmp_path), table_format=TableFormat("tsv"))
    assert location.find_table("test") == str(tmp_path / "test.txt")
    explicit = DataLocation(dev_file=str(tmp_path / "dev.xlsx"))
    (split,) = SINGLE.splits("dev", explicit)
    with pytest.raises(InputError, match=r"must end in one of \.tsv, \.csv"):
        list(SINGLE.read(split, Counter()))


@pytest.mark.parametrize(
    ("task_type", "labels", "message"),
    [
        ("classification", ["a"], "at least two different labels. Received: a"),
        (
            "classification",
            ["a", "b", "b"],
            "labels has 'b' twice. Give each label once.",
        ),
        ("multi_label", [], "Received: no labels"),
        ("ranking", ["a", "b"], "task_type must be one of"),
    ],
    ids=["one", "repeated", "none", "task_type"],
)
def test_invalid_labels_are_refused(task_type, labels, message):
    with pytest.raises(InputError, match=message):
        custom_task(SENTENCE, task_type, labels)


def test_invalid_settings_are_refused():
    with pytest.raises(InputError, match="threshold must be above 0"):
        custom_task(SENTENCE, "multi_label", ["a"], threshold=1.0)
    with pytest.raises(InputError, match=r"must differ. Received: s, s, label\."):
        TextColumns("s", "s")
    with pytest.raises(
        InputError, match=r"encoding must be a known encoding, .* 'latin-99'"
    ):
        TableFormat(encoding="latin-99")
    with pytest.raises(
        InputError, match=r"input_format must be one of auto, tsv, csv, jsonl, "
    ):
        TableFormat("xlsx")


def test_the_fingerprint_depends_on_content_and_columns(tmp_path):
    write(tmp_path, "one.csv", "s,label\n")
    write(tmp_path, "two.csv", "s,label\nx,a\n")

    def fingerprint(name, columns, **form):
        task = custom_task(columns, labels=["a", "b"])
        form = TableFormat(**form)
        location = DataLocation(dev_file=str(tmp_path / name), table_format=form)
        (split,) = task.splits("dev", location)
        return split.source.fingerprint()

    first = fingerprint("one.csv", SENTENCE)
    assert first == fingerprint("one.csv", TextColumns("s"))
    assert first != fingerprint("two.csv", SENTENCE)
    assert first != fingerprint("one.csv", TextColumns("t"))
    for form in ({"encoding": "latin-1"}, {"header": False}, {"input_format": "csv"}):
        assert first != fingerprint("one.csv", SENTENCE, **form)
