"""Files in the forms that people publish: one table of format, file, and what reading must give.

A row has a name, the function that reads, the file (a name in `data/public_cases` of
BERT_TF_TEST_DATA, or a pair of file name and content), and either the expected value or the words
of the expected error.
"""

import gzip
from collections import Counter

import pytest
from prepared import prepared

from bert_tf.errors import InputError
from bert_tf.tasks.choice.choice_task import ChoiceTask
from bert_tf.tasks.classification.sources.custom import TextColumns, custom_task
from bert_tf.tasks.splits import DataLocation
from bert_tf.tasks.tables import TableFormat
from bert_tf.training.config import RunPhases


class Refused(tuple):
    """The words of the one line with which a file is refused."""


def refused(*words):
    return Refused(words)


def labels_of(path):
    """Returns the labels of a train file with the columns `text` and `label`, in their order."""
    return prepared(custom_task(TextColumns("text")), DataLocation(train_file=str(path))).labels


# Labels.
LABELS = [
    ("labels that are numbers", labels_of, "number_labels.csv", ("1", "2", "10")),
    ("numbers with a decimal point", labels_of,
     ("train.jsonl", "".join(f'{{"text": "x", "label": {n}.0}}\n' for n in (10, -1, 2))),
     ("-1.0", "2.0", "10.0")),
    ("one label that is no number", labels_of,
     ("train.csv", "text,label\na,10\nb,2\nc,x\n"), ("10", "2", "x")),
    ("a label in two lines", labels_of, ("train.csv", 'text,label\na,x\nb,"y\nz"\n'),
     refused("train.csv, line 3: column 'label' has the label 'y\\nz'", "label_column")),
    ("a label with a tab", labels_of, ("train.csv", "text,label\na,x\ty\n"),
     refused("train.csv, line 2: column 'label' has the label 'x\\ty'")),
]  # fmt: skip


# Tables of classification.
def table(text="s", label="label", task_type="classification", kind="train", **form):
    """Returns a function that reads texts and labels, and in a test split the other columns."""

    def read(path):
        file = {f"{kind}_file": str(path)}
        location = DataLocation(**file, table_format=TableFormat(**form))
        task = custom_task(TextColumns(text, label=label), task_type, ["a", "b"])
        if kind == "train":
            task = prepared(custom_task(TextColumns(text, label=label), task_type), location)
        (split,) = task.splits(kind, location)
        found = []
        for example in task.read(split, Counter()):
            used = {text, *label.split(",")}
            others = {name: value for name, value in example.row.items() if name not in used}
            found.append((example.text_a, example.label, *([others] if others else [])))
        return found

    return read


SPAM, ROWS_AB = table("v2", "v1", encoding="latin-1"), [("x", "a"), ("y", "b")]
TOXIC = table("t", "toxic,obscene,threat", "multi_label")
TWO_OF_THREE = [("x", ("toxic", "threat")), ("y", ())]
ALSO_UNNAMED = {"": "1", "n (column 3)": "p", "n (column 4)": "q"}
TABLES = [
    ("latin-1", SPAM, "unnamed_columns_latin1.csv", [("Go, now", "ham"), ("Win 10 £", "spam")]),
    ("latin-1 as utf-8", table("v2", "v1"), "unnamed_columns_latin1.csv",
     refused("is not UTF-8: byte 0xa3 in line 3", "give its encoding, such as encoding=latin-1")),
    ("other encoding", table(encoding="ascii"), ("t.csv", "s,label\né,a\n"),
     refused("t.csv cannot be read as ascii", "can't decode byte 0xc3")),
    ("utf-16", table(encoding="utf-16"), ("t.tsv", "s\tlabel\r\nx\ta\r\ny\tb\r\n".encode("utf-16")),
     ROWS_AB),
    ("gb18030", table(encoding="gb18030"), ("t.csv", "s,label\n猫,a\n狗,b\n".encode("gb18030")),
     [("猫", "a"), ("狗", "b")]),
    ("gzip", table(), ("t.csv.gz", gzip.compress(b"s,label\nx,a\ny,b\n")), ROWS_AB),
    ("damaged gzip", table(), ("t.csv.gz", gzip.compress(b"s,label\nx,a\ny,b\n")[:-9]),
     refused("t.csv.gz cannot be read: Compressed file ended")),
    ("other columns without names", table(kind="test"), ("t.csv", ",s,label,n,n\n1,x,a,p,q\n"),
     [("x", "a", ALSO_UNNAMED)]),
    ("without header", table("1", "0", header=False), ("t.csv", "a,x\nb,y\n"), ROWS_AB),
    ("first line is a row", table("0", "1"), ("t.tsv", "x\ta\ny\tb\n"),
     refused("no column '0' (text_a_column), '1' (label_column)", "columns are: x, a",
             "first line of the file is read as the names", "header=False, and numbers from 0")),
    ("no such number", table("2", "1", header=False), ("t.csv", "a,x\n"),
     refused("no column '2'", "columns are: 0, 1. Give the name of one of these columns.")),
    ("surplus empty fields", table(), ("t.csv", "s,label\nx,a,,\ny,b,\n"), ROWS_AB),
    ("unquoted separator", table(), ("t.csv", "s,label\nx,y,a\n"),
     refused("line 2: 3 fields, but the header line has 2", "field with a comma needs quotes")),
    ("text file", table(input_format="tsv"), ("t.txt", "s\tlabel\nx\ta\ny\tb\n"), ROWS_AB),
    ("text file without format", table(), ("t.txt", "s\tlabel\n"),
     refused("must end in one of .tsv, .csv, .jsonl, .parquet, or input_format must be given")),
    ("json", table(input_format="jsonl"),
     ("t.json", '{"s":"x","label":"a"}\n{"s":"y","label":"b"}'), ROWS_AB),
    ("json array", table(input_format="jsonl"), ("t.json", '[\n{"s": "x"}]'),
     refused("t.json is a JSON array. Write one object in each line")),
    ("columns of 0 and 1", TOXIC, ("t.csv", "t,obscene,toxic,threat\nx,0,1.0,true\ny,0,0,FALSE\n"),
     TWO_OF_THREE),
    ("values that are numbers", TOXIC,
     ("t.jsonl", '{"t":"x","toxic":1,"obscene":0,"threat":true}\n'
      '{"t":"y","toxic":0.0,"obscene":0,"threat":false}'), TWO_OF_THREE),
    ("other values", TOXIC, ("t.csv", "t,toxic,obscene,threat\nx,0,1,0\ny,0,yes,0\n"),
     refused("line 3: column 'obscene' of a label must have 0 or 1. Received: 'yes'")),
    ("missing label column", TOXIC, ("t.csv", "t,toxic,threat\nx,0,1\n"),
     refused("no column 'obscene' (label_column)")),
    ("test without labels", table("t", "a,b", "multi_label", "test"), ("t.csv", "t,id\nx,7\n"),
     [("x", None, {"id": "7"})]),
    ("test with unknown labels", table("t", "a,b", "multi_label", "test"),
     ("t.csv", "t,a,b\nx,-1,-1\ny,0,1\n"), [("x", None), ("y", ("b",))]),
]  # fmt: skip

# Choices.


def choices(path, kind="train"):
    """Returns the examples as contexts, choices and labels."""
    location = DataLocation(**{f"{kind}_file": str(path)})
    task = prepared(ChoiceTask(), location, RunPhases(kind == "train", False, kind == "test"))
    (split,) = task.splits(kind, location)
    return [(e.context, e.choices, e.label) for e in task.read(split, Counter())]


def choices_to_predict(path):
    return choices(path, "test")


def rows_of_labels(*labels):
    start = '{"context": "c", "choices": ["a", "b", "d", "e"], "label":'
    return "c.jsonl", "".join(f"{start} {label}}}\n" for label in labels)


RAIN = ("It rains.", ("Take an umbrella.", "Water the plants.", "Sing.", "Dance."))
EXPECTED = "or, with a list of texts, context, choices and label."
CHOICES = [
    ("tsv", choices, "swag_train.tsv",
     [(*RAIN, 0), ("Ann is tired.", ("She runs.", "She sleeps.", "She sings.", "She eats."), 1)]),
    ("tsv to predict", choices_to_predict, "swag_test.tsv", [(*RAIN, None)]),
    ("SWAG in JSON lines", choices,
     ("c.jsonl", '{"sent1": "c", "sent2": "s", "ending0": "a", "ending1": "b", "label": 0}'),
     [("c", ("s a", "s b"), 0)]),
    ("CommonsenseQA", choices,
     ("c.jsonl", '{"answerKey": "A", "id": "1", "question": {"stem": "Where?", "choices": []}}'),
     refused("c.jsonl, line 1 has no column", "columns are: answerKey, id, question.", EXPECTED)),
    ("CommonsenseQA of Hugging Face", choices,
     ("c.jsonl", '{"question": "Where?", "choices": {"label": ["A"], "text": ["a"]}}'),
     refused("has no column 'context'", "columns are: question, choices.", EXPECTED)),
    ("PIQA", choices, ("c.jsonl", '{"goal": "g", "sol1": "a", "sol2": "b", "label": 1}'),
     refused("line 1 has no column 'sent1'", "columns are: goal, sol1, sol2, label.", EXPECTED)),
    ("XCOPA", choices, ("c.jsonl", '{"premise": "p", "choice1": "a", "choice2": "b", "label": 1}'),
     refused("columns are: premise, choice1, choice2, label.", EXPECTED)),
    ("Winogrande", choices, ("c.jsonl", '{"sentence": "s", "option1": "a", "answer": "2"}'),
     refused("columns are: sentence, option1, answer.", EXPECTED)),
    ("letters", lambda path: [row[2] for row in choices(path)], rows_of_labels('"D"', '"B"', '"A"'),
     [3, 1, 0]),
    ("letter of no choice", choices, rows_of_labels('"E"'),
     refused("line 1 has the label 'E'", "from 0 to 3, or its letter")),
    ("labels of ARC", choices, rows_of_labels('"B"', '"3"'),
     refused("line 2 has the label 3, but the file has letters and numbers")),
    ("labels from 1", choices, rows_of_labels(1, 3, 2, 1),
     refused("c.jsonl run from 1, and none is 0", "Subtract 1 from each label")),
    ("labels from 1 to predict", choices_to_predict, rows_of_labels(2, 1, 3, 4),
     refused("c.jsonl run from 1, and none is 0")),
    ("one label", lambda path: [row[2] for row in choices(path)], rows_of_labels(1, 1), [1, 1]),
]  # fmt: skip

# Named entities.
NER = []

# Questions and answers.
SQUAD = []

ROWS = [*LABELS, *TABLES, *CHOICES, *NER, *SQUAD]


@pytest.mark.parametrize(
    ("read", "file", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_reading_a_public_form(request, tmp_path, read, file, expected):
    if isinstance(file, str):
        path = request.getfixturevalue("test_data") / "data" / "public_cases" / file
    else:
        path = tmp_path / file[0]
        content = file[1]
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    if not isinstance(expected, Refused):
        assert read(path) == expected
        return

    with pytest.raises(InputError) as error:
        read(path)
    message = str(error.value)
    assert "\n" not in message
    for word in expected:
        assert word in message
