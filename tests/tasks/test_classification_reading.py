"""Reading examples from literal files and from the official GLUE files."""

import csv

import pytest

from bert_tf.errors import InputError
from bert_tf.tasks import TASKS
from bert_tf.tasks.classification.classification_tasks import (
    COLA,
    MRPC,
    SST2,
    custom,
    labels_of,
)
from bert_tf.tasks.classification.text_files import TextExample


def write(folder, name, text):
    (folder / name).write_text(text, encoding="utf-8", newline="")
    return str(folder)


def test_mrpc_reads_labels_and_both_texts(tmp_path):
    header = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    folder = write(tmp_path, "dev.tsv", header + '1\t11\t12\tHe said " no .\tNo , he said .\r\n')
    assert MRPC.read(folder, "dev") == [TextExample('He said " no .', "No , he said .", "1")]


def test_cola_has_a_header_in_the_test_file_only(tmp_path):
    write(tmp_path, "train.tsv", "gj04\t1\t\tThey drank the pub dry.\n")
    folder = write(tmp_path, "test.tsv", "index\tsentence\n0\tBill whistled.\n")
    assert COLA.read(folder, "train") == [TextExample("They drank the pub dry.", None, "1")]
    assert COLA.read(folder, "test") == [TextExample("Bill whistled.")]


def test_the_sst2_test_file_has_an_index_column(tmp_path):
    folder = write(tmp_path, "test.tsv", "index\tsentence\n0\tuneasy mishmash\n")
    assert SST2.read(folder, "test") == [TextExample("uneasy mishmash")]


# The number of examples in the official files.
COUNTS = {
    ("mrpc", "train"): 3668, ("mrpc", "dev"): 408, ("mrpc", "test"): 1725,
    ("sst-2", "train"): 67349, ("sst-2", "dev"): 872, ("sst-2", "test"): 1821,
    ("cola", "train"): 8551, ("cola", "dev"): 1043, ("cola", "test"): 1063,
}  # fmt: skip


@pytest.mark.parametrize(("name", "split"), COUNTS)
def test_example_counts_are_the_official_ones(test_data, name, split):
    folder = {"mrpc": "MRPC", "sst-2": "SST-2", "cola": "CoLA"}[name]
    examples = TASKS[name].read(str(test_data / "data/glue" / folder), split)
    assert len(examples) == COUNTS[name, split]
    assert all(example.text_a.strip() for example in examples)
    assert {example.label for example in examples} == ({None} if split == "test" else {"0", "1"})


@pytest.mark.parametrize("suffix", ["tsv", "csv", "jsonl"])
def test_custom_tsv_csv_and_jsonl_give_equal_examples(tmp_path, suffix):
    rows = [{"q": "one, two", "a": "naïve", "label": "x"}, {"q": "three", "a": "四", "label": "y"}]
    with open(tmp_path / f"train.{suffix}", "w", encoding="utf-8", newline="") as file:
        if suffix == "jsonl":
            import json

            file.write("".join(json.dumps(row) + "\n" for row in rows))
        else:
            writer = csv.DictWriter(
                file, ["q", "a", "label"], delimiter="\t" if suffix == "tsv" else ","
            )
            writer.writeheader()
            writer.writerows(rows)
    task = custom("q", "a", "label", ["x", "y"])
    assert task.read(str(tmp_path), "train") == [
        TextExample("one, two", "naïve", "x"),
        TextExample("three", "四", "y"),
    ]
    assert labels_of(str(tmp_path), "q", "label") == ["x", "y"]


def test_custom_csv_keeps_line_breaks_in_quotes(tmp_path):
    folder = write(tmp_path, "dev.csv", 'sentence,label\n"one\ntwo",a\n')
    task = custom("sentence", None, "label", ["a", "b"])
    assert task.read(folder, "dev") == [TextExample("one\ntwo", None, "a")]


@pytest.mark.parametrize("suffix", ["tsv", "csv"])
def test_custom_reads_texts_of_any_length(tmp_path, suffix):
    mark = "\t" if suffix == "tsv" else ","
    text = "word " * 50_000  # the default limit of the csv module is 131,072 characters
    folder = write(tmp_path, f"dev.{suffix}", f"sentence{mark}label\n{text}{mark}a\n")
    task = custom("sentence", None, "label", ["a", "b"])
    assert task.read(folder, "dev") == [TextExample(text, None, "a")]


def test_custom_tsv_ends_a_row_at_a_line_feed_only(tmp_path):
    folder = write(tmp_path, "dev.tsv", 'sentence\tlabel\r\none\rtwo "\ta\r\n\r\n"\ta\r\n')
    task = custom("sentence", None, "label", ["a", "b"])
    assert task.read(folder, "dev") == [
        TextExample('one\rtwo "', None, "a"),
        TextExample('"', None, "a"),
    ]


def test_a_test_file_does_not_need_labels(tmp_path):
    folder = write(tmp_path, "test.tsv", "sentence\nhello\n")
    assert custom("sentence", None, "label", ["a", "b"]).read(folder, "test") == [
        TextExample("hello")
    ]


CUSTOM = custom("s", None, "label", ["a", "b"])


@pytest.mark.parametrize(
    ("task", "name", "text", "message"),
    [
        (SST2, "dev.tsv", "sentence\tlabel\nfine\t2\n", r"line 2: .* '2' is not one of"),
        (MRPC, "dev.tsv", "a\tb\nx\ty\n", r"line 2: 2 columns, but column 5 is required"),
        (SST2, "dev.tsv", "sentence\tlabel\nonly\n", r"line 2: 1 columns"),
        (CUSTOM, "dev.tsv", "t\tlabel\nx\ta\n", r"no column 's'"),
        (CUSTOM, "dev.tsv", "s\tlabel\nx\tc\n", r"line 2: .* 'c'"),
        (CUSTOM, "dev.tsv", "s\tlabel\nx\n", r"line 2: no column 'label'"),
        (CUSTOM, "dev.csv", 's,label\n"\n",a\nx,c\n', r"line 4: .* 'c'"),
        (CUSTOM, "dev.csv", "s,label\nx\ry,a\n", r"line 2 is not CSV: new-line"),
        (CUSTOM, "dev.csv", 's,label\n\n"x,a\ny,a\n', r"line 3 is not CSV: .* end of"),
        (CUSTOM, "dev.jsonl", '{"s": 1', r"line 1 is not JSON"),
        (CUSTOM, "dev.jsonl", "[1]", r"a JSON object is required"),
        (CUSTOM, "dev.txt", "x", r"has none of dev.tsv, dev.csv"),
    ],
)  # fmt: skip
def test_malformed_files_are_reported_with_the_line(tmp_path, task, name, text, message):
    with pytest.raises(InputError, match=message):
        task.read(write(tmp_path, name, text), "dev")


def test_invalid_utf8_is_reported_with_the_line(tmp_path):
    (tmp_path / "dev.tsv").write_bytes(b"sentence\tlabel\nok\t1\ncaf\xe9\t1\n")
    with pytest.raises(InputError, match=r"not UTF-8: byte 0xe9 in line 3"):
        SST2.read(str(tmp_path), "dev")
