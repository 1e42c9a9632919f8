"""Files in the forms that people publish: a table of files and what they give.

A row has a name, the function that reads, the file (a name in `data/public_cases` of
BERT_TF_TEST_DATA, or a pair of file name and content), and either the expected value or
the words of the expected error.
"""

import collections
import gzip

import ner_data
import pytest
import squad_data
from prepared import prepared
from reading import check, refused, write

from bert_tf.tasks.choice.choice_task import ChoiceTask
from bert_tf.tasks.classification.sources.custom import TextColumns, custom_task
from bert_tf.tasks.classification.sources.glue_tasks import glue_task
from bert_tf.tasks.classification.sources.xnli import xnli
from bert_tf.tasks.ner import conll, json_sentences
from bert_tf.tasks.ner.conll import Columns
from bert_tf.tasks.ner.schemes import find_entities
from bert_tf.tasks.splits import DataLocation, RowCounts
from bert_tf.tasks.tables import TableFormat
from bert_tf.training.training_config import RunPhases


def labels_of(path):
    """Returns the labels of a train file with the columns `text` and `label`."""
    return prepared(
        custom_task(TextColumns("text")), DataLocation(train_file=str(path))
    ).labels


def report_of(task, kind="train"):
    """Returns a function that reads labels, their report, and the warnings."""

    def read(path):
        location = DataLocation(**{f"{kind}_file": str(path)})
        done = prepared(task, location) if kind == "train" else task
        (split, *_) = done.splits(kind, location)
        counts = RowCounts()
        labels = [each.label for each in done.read(split, counts)]
        warnings = [
            text.replace(str(path), path.name) for text in counts.notes["warnings"]
        ]
        return labels, *counts.notes["read"], warnings

    return read


def snli(label, kind="train", labels=None):
    return report_of(
        custom_task(TextColumns("sentence1", "sentence2", label), labels=labels), kind
    )


def nli(label, *values, texts="sentence1\tsentence2"):
    lines = [f"{texts}\t{label}", *(f"a\tb\t{value}" for value in values)]
    return "t.tsv", "".join(f"{line}\n" for line in lines)


NLI = ("neutral", "entailment", "contradiction")
NLI_READ = (
    [*NLI],
    "labels: contradiction 1, entailment 1, neutral 1; without label 1",
    [],
)
MANY = [f"{letter}{letter}" for letter in "abcdefghijklmnopqrstuvw"]

# Labels.
LABELS = [
    (
        "labels with a character without width",
        report_of(custom_task(TextColumns("text"))),
        "labels_zero_width.csv",
        (
            ["pos", "neg", "pos", "neg\u200b"],
            "labels: neg 1, neg\\u200b 1, pos 2",
            [
                "Labels of labels_zero_width.csv differ only in case or in characters "
                "that cannot be seen: 'neg' and 'neg\\u200b'. If they are the same "
                "label, write it in one way."
            ],
        ),
    ),
    (
        "many labels",
        lambda path: report_of(custom_task(TextColumns("text")))(path)[1:],
        ("t.csv", "text,label\n" + "".join(f"x,{name}\n" for name in [*MANY, "ww"])),
        (
            "labels: " + "".join(f"{name} 1, " for name in MANY[:19]) + "ww 2 and 3 "
            "more",
            [],
        ),
    ),
    (
        "labels of a multi-label column",
        lambda path: report_of(custom_task(TextColumns("s"), "multi_label"))(path)[1],
        ("t.csv", 's,label\nx,"a,b"\ny,\nz,b\n'),
        "labels: a 1, b 2; without label 1",
    ),
    (
        "labels of choices",
        lambda path: report_of(ChoiceTask())(path)[1],
        "swag_train.tsv",
        "labels: 0 1, 1 1",
    ),
    ("no label in SNLI", snli("gold_label"), nli("gold_label", *NLI, "-"), NLI_READ),
    (
        "no label in SNLI with the hypothesis first",
        report_of(custom_task(TextColumns("sentence2", "sentence1", "gold_label"))),
        nli("gold_label", *NLI, "-"),
        NLI_READ,
    ),
    ("no label in OCNLI", snli("label"), nli("label", "-", *NLI), NLI_READ),
    ("MNLI", report_of(glue_task("mnli")), nli("gold_label", *NLI, "-"), NLI_READ),
    (
        "XNLI",
        report_of(xnli("zh")),
        nli("label", *NLI, "-", texts="premise\thypo"),
        NLI_READ,
    ),
    (
        "no label to predict",
        snli("gold_label", "test", NLI),
        nli("gold_label", "-", "neutral"),
        ([None, "neutral"], "labels: neutral 1; without label 1", []),
    ),
    (
        "- as a label",
        snli("label"),
        nli("label", "-", "+"),
        (["-", "+"], "labels: + 1, - 1", []),
    ),
    ("labels that are numbers", labels_of, "number_labels.csv", ("1", "2", "10")),
    (
        "numbers with a decimal point",
        labels_of,
        (
            "train.jsonl",
            "".join(f'{{"text": "x", "label": {n}.0}}\n' for n in (10, -1, 2)),
        ),
        ("-1.0", "2.0", "10.0"),
    ),
    (
        "one label that is no number",
        labels_of,
        ("train.csv", "text,label\na,10\nb,2\nc,x\n"),
        ("10", "2", "x"),
    ),
    (
        "a label in two lines",
        labels_of,
        ("train.csv", 'text,label\na,x\nb,"y\nz"\n'),
        refused(
            "train.csv, line 3: column 'label' has the label 'y\\nz'", "label_column"
        ),
    ),
    (
        "a label with a tab",
        labels_of,
        ("train.csv", "text,label\na,x\ty\n"),
        refused("train.csv, line 2: column 'label' has the label 'x\\ty'"),
    ),
]


# Tables of classification.
def table(text="s", label="label", task_type="classification", kind="train", **form):
    """Returns a function that reads texts, labels and other columns of a test split."""

    def read(path):
        file = {f"{kind}_file": str(path)}
        location = DataLocation(**file, table_format=TableFormat(**form))
        task = custom_task(TextColumns(text, label=label), task_type, ["a", "b"])
        if kind == "train":
            task = prepared(
                custom_task(TextColumns(text, label=label), task_type), location
            )
        (split,) = task.splits(kind, location)
        found = []
        for example in task.read(split, RowCounts()):
            used = {text, *label.split(",")}
            others = {
                name: value for name, value in example.row.items() if name not in used
            }
            found.append((example.text_a, example.label, *([others] if others else [])))
        return found

    return read


SPAM, ROWS_AB = table("v2", "v1", encoding="latin-1"), [("x", "a"), ("y", "b")]
TOXIC = table("t", "toxic,obscene,threat", "multi_label")
TWO_OF_THREE = [("x", ("toxic", "threat")), ("y", ())]
ALSO_UNNAMED = {"": "1", "n (column 3)": "p", "n (column 4)": "q"}
TABLES = [
    (
        "latin-1",
        SPAM,
        "unnamed_columns_latin1.csv",
        [("Go, now", "ham"), ("Win 10 £", "spam")],
    ),
    (
        "latin-1 as utf-8",
        table("v2", "v1"),
        "unnamed_columns_latin1.csv",
        refused(
            "is not UTF-8: byte 0xa3 in line 3",
            "give its encoding, such as encoding=latin-1",
        ),
    ),
    (
        "utf-16 as utf-8",
        table(),
        ("t.tsv", "s\tlabel\nx\ta\n".encode("utf-16")),
        refused("t.tsv is UTF-16, ac", "or give its encoding, such as encoding=utf-16"),
    ),
    (
        "a workbook with the ending .csv",
        table(),
        ("t.csv", b"PK\x03\x04\x14\0\x06\0"),
        refused("t.csv is a packed file (zip)", "export a workbook as .csv"),
    ),
    (
        "Parquet with the ending .csv",
        table(encoding="latin-1"),
        ("t.csv", b"PAR1\x15\x04\x15\x10"),
        refused("t.csv is a packed file (parquet)", "the ending .parquet"),
    ),
    (
        "other encoding",
        table(encoding="ascii"),
        ("t.csv", "s,label\né,a\n"),
        refused("t.csv cannot be read as ascii", "can't decode byte 0xc3"),
    ),
    (
        "utf-16",
        table(encoding="utf-16"),
        ("t.tsv", "s\tlabel\r\nx\ta\r\ny\tb\r\n".encode("utf-16")),
        ROWS_AB,
    ),
    (
        "gb18030",
        table(encoding="gb18030"),
        ("t.csv", "s,label\n猫,a\n狗,b\n".encode("gb18030")),
        [("猫", "a"), ("狗", "b")],
    ),
    ("gzip", table(), ("t.csv.gz", gzip.compress(b"s,label\nx,a\ny,b\n")), ROWS_AB),
    (
        "damaged gzip",
        table(),
        ("t.csv.gz", gzip.compress(b"s,label\nx,a\ny,b\n")[:-9]),
        refused("t.csv.gz cannot be read: Compressed file ended"),
    ),
    (
        "other columns without names",
        table(kind="test"),
        ("t.csv", ",s,label,n,n\n1,x,a,p,q\n"),
        [("x", "a", ALSO_UNNAMED)],
    ),
    ("without header", table("1", "0", header=False), ("t.csv", "a,x\nb,y\n"), ROWS_AB),
    (
        "first line is a row",
        table("0", "1"),
        ("t.tsv", "x\ta\ny\tb\n"),
        refused(
            "no column '0' (text_a_column), '1' (label_column)",
            "columns are: x, a",
            "first line of the file is read as the names",
            "header=False, and numbers from 0",
        ),
    ),
    (
        "no such number",
        table("2", "1", header=False),
        ("t.csv", "a,x\n"),
        refused(
            "no column '2'", "columns are: 0, 1. Give the name of one of these columns."
        ),
    ),
    ("surplus empty fields", table(), ("t.csv", "s,label\nx,a,,\ny,b,\n"), ROWS_AB),
    (
        "unquoted separator",
        table(),
        ("t.csv", "s,label\nx,y,a\n"),
        refused(
            "line 2: 3 fields, but the header line has 2",
            "field with a comma needs quotes",
        ),
    ),
    (
        "text file",
        table(input_format="tsv"),
        ("t.txt", "s\tlabel\nx\ta\ny\tb\n"),
        ROWS_AB,
    ),
    (
        "text file without format",
        table(),
        ("t.txt", "s\tlabel\n"),
        refused(
            "must end in one of .tsv, .csv, .jsonl, .parquet, or input_format must be "
            "given"
        ),
    ),
    (
        "json",
        table(input_format="jsonl"),
        ("t.json", '{"s":"x","label":"a"}\n{"s":"y","label":"b"}'),
        ROWS_AB,
    ),
    (
        "json array",
        table(input_format="jsonl"),
        ("t.json", '[\n{"s": "x"}]'),
        refused("t.json is a JSON array. Write one object in each line"),
    ),
    (
        "lists in cells",
        table("text", "labels", "multi_label"),
        "list_repr.csv",
        [("good day", ("joy",)), ("bad luck", ("joy", "anger")), ("no", ("love",))],
    ),
    (
        "lists of JSON, NumPy, numbers and nothing",
        table(task_type="multi_label"),
        (
            "t.tsv",
            's\tlabel\nx\t["a, b", "\\ud83d\\ude00"]\ny\t[\'c\' "d\'s"]\nz\t[]\n\t\n'
            "v\t[1. 2.5]\n",
        ),
        [
            ("x", ("a, b", "😀")),
            ("y", ("c", "d's")),
            ("z", ()),
            ("", ()),
            ("v", ("1", "2.5")),
        ],
    ),
    (
        "a label in brackets",
        table(task_type="multi_label"),
        ("t.tsv", "s\tlabel\nx\t[removed]\ny\ta,[b\n"),
        [("x", ("[removed]",)), ("y", ("a", "[b"))],
    ),
    (
        "a list with a value that is no label",
        table(task_type="multi_label"),
        ("t.csv", 's,label\nx,"[{""id"": 1, ""name"": ""joy""}]"\n'),
        refused("line 2: column 'label' has '[{\"id\": 1", "Write all labels as lists"),
    ),
    (
        "lists without quotes",
        table(task_type="multi_label"),
        ("t.tsv", "s\tlabel\nx\t[joy, anger]\n"),
        refused("line 2: column 'label' has '[joy, anger]'. Write all labels as lists"),
    ),
    (
        "a 0 or 1 for each label in a list",
        table(task_type="multi_label"),
        ("t.tsv", "s\tlabel\nx\t[0 1 0]\n"),
        refused("line 2: column 'label' has '[0 1 0]'. Write all labels as lists"),
    ),
    (
        "half of a surrogate pair in a list",
        table(task_type="multi_label"),
        ("t.tsv", 's\tlabel\nx\t["\\ud83d"]\n'),
        refused("line 2: column 'label' has a lone surrogate in '\\ud83d'"),
    ),
    (
        "lists in some cells",
        table(task_type="multi_label"),
        ("t.tsv", "s\tlabel\nx\t\ny\t['a']\nz\ta\n"),
        refused("line 4: column 'label' has 'a', and the labels before it are lists"),
    ),
    (
        "lists in some cells of a test file",
        table(task_type="multi_label", kind="test"),
        ("t.tsv", "s\tlabel\nx\ta\ny\t['b']\n"),
        refused(
            "line 3: column 'label' has \"['b']\", and the labels before it are no"
        ),
    ),
    (
        "an object in several lines",
        table(),
        ("t.jsonl", '{\n"s": "x"\n}\n'),
        refused("t.jsonl, line 1 is not JSON", "in one line, as jq -c . does"),
    ),
    (
        "an array in each line",
        table(),
        ("t.jsonl", '["x", "a"]\n'),
        refused("a JSON object is required", "jq -c '{text: .[0], label: .[1]}'"),
    ),
    (
        "columns of 0 and 1",
        TOXIC,
        ("t.csv", "t,obscene,toxic,threat\nx,0,1.0,true\ny,0,0,FALSE\n"),
        TWO_OF_THREE,
    ),
    (
        "values that are numbers",
        TOXIC,
        (
            "t.jsonl",
            '{"t":"x","toxic":1,"obscene":0,"threat":true}\n'
            '{"t":"y","toxic":0.0,"obscene":0,"threat":false}',
        ),
        TWO_OF_THREE,
    ),
    (
        "other values",
        TOXIC,
        ("t.csv", "t,toxic,obscene,threat\nx,0,1,0\ny,0,yes,0\n"),
        refused(
            "line 3: column 'obscene' of a label must have 0 or 1. Received: 'yes'"
        ),
    ),
    (
        "missing label column",
        TOXIC,
        ("t.csv", "t,toxic,threat\nx,0,1\n"),
        refused("no column 'obscene' (label_column)"),
    ),
    (
        "test without labels",
        table("t", "a,b", "multi_label", "test"),
        ("t.csv", "t,id\nx,7\n"),
        [("x", None, {"id": "7"})],
    ),
    (
        "test with unknown labels",
        table("t", "a,b", "multi_label", "test"),
        ("t.csv", "t,a,b\nx,-1,-1\ny,0,1\n"),
        [("x", None), ("y", ("b",))],
    ),
]

# Choices.


def choices(path, kind="train"):
    """Returns the examples as contexts, choices and labels."""
    location = DataLocation(**{f"{kind}_file": str(path)})
    task = prepared(
        ChoiceTask(), location, RunPhases(kind == "train", False, kind == "test")
    )
    (split,) = task.splits(kind, location)
    return [(e.context, e.choices, e.label) for e in task.read(split, RowCounts())]


def choices_to_predict(path):
    return choices(path, "test")


def rows_of_labels(*labels):
    start = '{"context": "c", "choices": ["a", "b", "d", "e"], "label":'
    return "c.jsonl", "".join(f"{start} {label}}}\n" for label in labels)


RAIN = ("It rains.", ("Take an umbrella.", "Water the plants.", "Sing.", "Dance."))
EXPECTED = "or, with a list of texts, context, choices and label."
CHOICES = [
    (
        "tsv",
        choices,
        "swag_train.tsv",
        [
            (*RAIN, 0),
            (
                "Ann is tired.",
                ("She runs.", "She sleeps.", "She sings.", "She eats."),
                1,
            ),
        ],
    ),
    ("tsv to predict", choices_to_predict, "swag_test.tsv", [(*RAIN, None)]),
    (
        "CommonsenseQA",
        choices,
        (
            "c.jsonl",
            '{"answerKey": "A", "id": "1", "question": {"stem": "?", "choices": []}}',
        ),
        refused(
            "c.jsonl, line 1 has no column",
            "columns are: answerKey, id, question.",
            EXPECTED,
        ),
    ),
    (
        "CommonsenseQA of Hugging Face",
        choices,
        (
            "c.jsonl",
            '{"question": "Where?", "choices": {"label": ["A"], "text": ["a"]}}',
        ),
        refused("has no column 'context'", "columns are: question, choices.", EXPECTED),
    ),
    (
        "PIQA",
        choices,
        ("c.jsonl", '{"goal": "g", "sol1": "a", "sol2": "b", "label": 1}'),
        refused(
            "line 1 has no column 'sent1'",
            "columns are: goal, sol1, sol2, label.",
            EXPECTED,
        ),
    ),
    (
        "letters",
        lambda path: [row[2] for row in choices(path)],
        rows_of_labels('"D"', '"B"', '"A"'),
        [3, 1, 0],
    ),
    (
        "letter of no choice",
        choices,
        rows_of_labels('"E"'),
        refused("line 1 has the label 'E'", "from 0 to 3, or its letter"),
    ),
    (
        "labels of ARC",
        choices,
        rows_of_labels('"B"', '"3"'),
        refused("line 2 has the label 3, but the file has letters and numbers"),
    ),
    (
        "labels from 1",
        choices,
        rows_of_labels(1, 3, 2, 1),
        refused("c.jsonl run from 1, and none is 0", "Subtract 1 from each label"),
    ),
    (
        "labels from 1 to predict",
        choices_to_predict,
        rows_of_labels(2, 1, 3, 4),
        refused("c.jsonl run from 1, and none is 0"),
    ),
    (
        "one label",
        lambda path: [row[2] for row in choices(path)],
        rows_of_labels(1, 1),
        [1, 1],
    ),
]


# Named entities.
def sentences(path, kind="train", **options):
    """Returns the words and the tags of each sentence, in the notation of bert-tf."""
    examples, _ = ner_data.read(ner_data.make_task(**options), path, kind)
    return [(" ".join(each.words), " ".join(each.tags or ())) for each in examples]


def entities(path, columns):
    """Returns the number of entities of each type, what was read, and the warnings."""
    task = ner_data.make_task((), columns=columns)  # as before training
    examples, counts = ner_data.read(task, path, "train")
    types = collections.Counter(
        e.type for each in examples for e in find_entities(each.tags)
    )
    return dict(types), *counts.notes["read"], len(counts.notes["warnings"])


def words(path):
    return [text for text, _ in sentences(path, "test")]


def words_in_latin1(path):
    location = DataLocation(
        test_file=str(path), table_format=TableFormat(encoding="latin-1")
    )
    task = ner_data.make_task()
    (split,) = task.splits("test", location)
    return [" ".join(each.words) for each in task.read(split, RowCounts())]


def predicted(path):
    """Returns the lines of a file whose predictions are its tags."""
    task = ner_data.make_task()
    examples, _ = ner_data.read(task, path, "test")
    render = json_sentences.render if path.suffix == ".json" else conll.render
    return [line for each in examples for line in render(each, list(each.tags))]


def read_and_predicted(path):
    return [*sentences(path, "test"), *predicted(path)]


SECOND = Columns(1, 2)
KAGGLE = (
    "Sentence #,Word,POS,Tag\nSentence: 1,Ann,NNP,B-per\n,left,VBD,O\n"
    'Sentence: 2,"Rome, Oslo",NNP,B-geo\n'
)
NER = [
    ("latin-1", words_in_latin1, ("a.conll", "Zoë O\n".encode("latin-1")), ["Zoë"]),
    (
        "latin-1 in CSV",
        words_in_latin1,
        ("a.csv", "Word,Tag\nZoë,O\n".encode("latin-1")),
        ["Zoë"],
    ),
    (
        "latin-1 as UTF-8",
        words,
        ("a.conll", "Zoë O\n".encode("latin-1")),
        refused("a.conll is not UTF-8", "encoding=latin-1"),
    ),
    (
        "columns that are not the first and the last",
        lambda path: entities(path, SECOND),
        "index_and_nested.tsv",
        (
            {"PER": 2, "LOC": 1, "ORG": 1},
            "words: column 1 of 4; tags: column 2: LOC 1, ORG 1, PER 2; "
            "scheme iob2: O B-ENTITY I-ENTITY",
            0,
        ),
    ),
    (
        "numbers as words",
        lambda path: entities(path, Columns()),
        "index_and_nested.tsv",
        (
            {"LOC": 1},
            "words: column 0 of 4; tags: column 3: LOC 1; scheme iob2: O B-ENTITY "
            "I-ENTITY",
            1,
        ),
    ),
    (
        "the column of nested entities",
        lambda path: entities(path, Columns(0, 2)),
        ("a.conll", "Ann B-PER O\nLee B-PER O\nBob B-PER B-PER\n"),
        (
            {"PER": 1},
            "words: column 0 of 3; tags: column 2: PER 1; scheme iob2: O B-ENTITY "
            "I-ENTITY",
            1,
        ),
    ),
    (
        "chunks are no entities",
        lambda path: entities(path, Columns()),
        (
            "eng.train",
            "-DOCSTART- -X- O O\n\nU.N. NNP I-NP I-ORG\nofficial NN I-NP O\n"
            "heads VBZ I-VP O\nfor IN I-PP O\nit PRP I-NP O\n. . O O\n",
        ),
        (
            {"ORG": 1},
            "words: column 0 of 4; tags: column 3: ORG 1; scheme iob1: O B-ENTITY "
            "I-ENTITY",
            0,
        ),
    ),
    (
        "comments",
        lambda path: entities(path, SECOND),
        "comments.tsv",
        (
            {"PER": 1, "LOC": 1},
            "words: column 1 of 4; tags: column 2: LOC 1, PER 1; scheme iob2: O "
            "B-ENTITY I-ENTITY",
            0,
        ),
    ),
    (
        "comments with an empty column at the end, as in GermEval",
        lambda path: sentences(path, columns=SECOND),
        ("a.tsv", "#\thttp://a.org\t[2010-01-01]\t\n1\t#\tO\tO\n2\tAnn\tB-PER\tO\n"),
        [("# Ann", "O B-PER")],
    ),
    (
        "comments of CoNLL-U, and # as a word",
        sentences,
        ("a.txt", "# text = Ann # left\nAnn B-PER\n# O\n# a comment\nleft O\n"),
        [("Ann # left", "B-PER O O")],
    ),
    (
        "comments in predictions",
        predicted,
        ("a.conll", "# newdoc\n\n# text = a\na\tB-X\n# b c\td\te\nb\tO\n"),
        ["# newdoc", "", "# text = a", "a\tB-X\tB-X", "# b c\td\te", "b\tO\tO"],
    ),
    (
        "tags like O^S-PER",
        sentences,
        "most_sentences_malformed.conll",
        [("Oslo", "S-LOC")],
    ),
    (
        "BILOU",
        sentences,
        ("a.conll", "a B-PER\nb L-PER\nc U-LOC\nd O\n"),
        [("a b c d", "B-PER E-PER S-LOC O")],
    ),
    (
        "BILOU predictions",
        predicted,
        ("a.conll", "a B-PER\nb L-PER\nc U-LOC\n"),
        ["a B-PER B-PER", "b L-PER L-PER", "c U-LOC U-LOC"],
    ),
    (
        "BMES",
        predicted,
        ("a.bmes", "a B-PER\nb M-PER\nc E-PER\nd S-PER\n"),
        ["a B-PER B-PER", "b M-PER M-PER", "c E-PER E-PER", "d S-PER S-PER"],
    ),
    (
        "tags without types",
        sentences,
        ("a.conll", "a B\nb I\nc O\n"),
        [("a b c", "B-ENTITY I-ENTITY O")],
    ),
    (
        "predictions without types",
        predicted,
        ("a.conll", "a B\nb O\n"),
        ["a B B", "b O O"],
    ),
    (
        "lower case",
        sentences,
        ("a.conll", "a b-per\nb i-per\nc o\n"),
        [("a b c", "B-per I-per O")],
    ),
    (
        "lower-case predictions",
        predicted,
        ("a.conll", "a b-per\nc o\n"),
        ["a b-per b-per", "c o o"],
    ),
    (
        "an underscore in tags",
        sentences,
        ("a.conll", "a B_PER\nb I_PER\nc O\n"),
        [("a b c", "B-PER I-PER O")],
    ),
    (
        "underscores in predictions",
        predicted,
        ("a.conll", "a B_WORK_OF\n"),
        ["a B_WORK_OF B_WORK_OF"],
    ),
    (
        "one type with another separator",
        sentences,
        ("a.conll", "a B-PER\nb I-PER\n\nc B_LOC\n"),
        [("a b", "B-PER I-PER"), ("c", "B-LOC")],
    ),
    (
        "prefixes at the end",
        lambda path: entities(path, Columns()),
        "suffix_tags.txt",
        (
            {"PER": 1, "LOC": 1},
            "words: column 0 of 2; tags: column 1: LOC 1, PER 1; scheme iob2: O "
            "ENTITY-B ENTITY-I",
            0,
        ),
    ),
    (
        "prefixes at the end, with known types",
        read_and_predicted,
        ("a.conll", "a PER_B\nb PER_B\nc O\n"),
        [("a b c", "B-PER B-PER O"), "a PER_B PER_B", "b PER_B PER_B", "c O O"],
    ),
    (
        "prefixes at the end, with other types",
        lambda path: sentences(path, labels=("O", "B-PER-B", "I-PER-B")),
        ("a.conll", "a PER-B\nb PER-I\nc O\n"),
        [("a b c", "I-PER-B I-PER-I O")],
    ),
    (
        "a dot after prefixes",
        read_and_predicted,
        ("a.conll", "a B.PER\nb I.PER\nc O\n"),
        [("a b c", "B-PER I-PER O"), "a B.PER B.PER", "b I.PER I.PER", "c O O"],
    ),
    (
        "written-out prefixes",
        lambda path: sentences(path, labels=()),
        ("a.conll", "a begin-PER\nb in-PER\nc O\n"),
        [("a b c", "B-PER I-PER O")],
    ),
    (
        "types that end with a letter of a scheme",
        lambda path: sentences(path, labels=()),
        ("a.conll", "a SIZE-S\nb SIZE-M\nc O\n"),
        [("a b c", "I-SIZE-S I-SIZE-M O")],
    ),
    (
        "comments with a column of tags",
        lambda path: sentences(path, labels=()),
        "comment_with_tag_column.txt",
        [("A n n   l", "B-PS I-PS I-PS O O"), ("I t", "O O")],
    ),
    (
        "such comments in predictions",
        predicted,
        ("a.conll", "# x\na B-X\n# O\n"),
        ["# x", "a B-X B-X", "# O O"],
    ),
    (
        "names of columns",
        lambda path: entities(path, Columns()),
        "header_line.tsv",
        (
            {"PER": 2},
            "header line: word, tag; words: column 0 of 2; tags: column 1: PER 2; "
            "scheme iob2: O B-ENTITY I-ENTITY",
            0,
        ),
    ),
    (
        "names of columns in predictions",
        predicted,
        ("a.tsv", "word\tNER tag\nAnn\tB-PER\n"),
        ["word\tNER tag\tpredicted", "Ann\tB-PER\tB-PER"],
    ),
    (
        "a malformed tag in the first line",
        lambda path: sentences(path, "dev"),
        ("a.tsv", "Ann\tX-PER\nleft\tO\n"),
        refused("line 1", "the tag 'X-PER' is malformed"),
    ),
    (
        "a type as tag in the first line",
        lambda path: sentences(path, "dev"),
        ("a.conll", "Ann PER\nleft O\n\nBob B-PER\nJ I-PER\n"),
        refused("line 1: the tag 'PER' is malformed"),
    ),
    (
        "a type with a blank",
        lambda path: sentences(path, "dev"),
        ("a.tsv", "Emma\tB-WORK OF ART\nleft\tO\n"),
        refused("line 1: the tag 'B-WORK OF ART' is", "a type without blanks"),
    ),
    (
        "semicolons between columns",
        sentences,
        ("a.csv", "Ann;B-PER\nleft;O\n"),
        refused("Received: 'Ann;B-PER'", "not by ';'"),
    ),
    (
        "commas between columns to predict",
        words,
        ("a.txt", "Ann,B-PER\nleft,O\n"),
        refused("Received: 'Ann,B-PER'"),
    ),
    ("words with separators", words, ("a.txt", "a;b\n,\n"), ["a;b ,"]),
    (
        "tags without prefixes",
        sentences,
        ("a.conll", "a PER\nb PER\nc 0\nd creative-work\n"),
        [("a b c d", "I-PER I-PER O I-creative-work")],
    ),
    (
        "predictions without prefixes",
        predicted,
        ("a.conll", "a PER\nb PER\nc 0\n"),
        ["a PER PER", "b PER PER", "c 0 0"],
    ),
    (
        "no outside tag",
        lambda path: sentences(path, "dev"),
        ("a.conll", "a NNP\nb VBZ\n"),
        refused("line 1", "the tag 'NNP' is malformed"),
    ),
    (
        "indices of tags",
        lambda path: sentences(path, "dev"),
        ("a.conll", "a 1\nb 0\n"),
        refused("line 1", "the tag '1' is malformed"),
    ),
    (
        "a tab at the end of each line",
        predicted,
        ("a.tsv", "a\tB-PER\t\nb\tO\t\n\nc\tO\t\n"),
        ["a\tB-PER\tB-PER", "b\tO\tO", "", "c\tO\tO"],
    ),
    (
        "words with a tab",
        lambda path: sentences(path, "test"),
        ("a.tsv", "a\t\nb\t\n"),
        [("a b", "")],
    ),
    (
        "CSV with a column of sentences",
        sentences,
        ("a.csv", KAGGLE),
        [("Ann left", "B-per O"), ("Rome, Oslo", "B-geo")],
    ),
    (
        "CSV with the number of the sentence in each row",
        sentences,
        ("a.csv", "sentence_id,words,labels\n0,a,O\n0,b,B-X\n1,c,O\n"),
        [("a b", "O B-X"), ("c", "O")],
    ),
    (
        "CSV with empty lines",
        sentences,
        ("a.csv", "word,tag\na,O\nb,B-X\n\nc,O\n,\nd,O\n"),
        [("a b", "O B-X"), ("c", "O"), ("d", "O")],
    ),
    (
        "CSV without a header line",
        sentences,
        ("a.csv", "Ann,B-PER\nleft,O\n"),
        [("Ann left", "B-PER O")],
    ),
    (
        "tabs in a file with the ending .csv",
        sentences,
        ("a.csv", "\nAnn\tB-PER\n,\tO\n\nleft\tO\n"),
        [("Ann ,", "B-PER O"), ("left", "O")],
    ),
    (
        "packed CSV",
        sentences,
        ("a.csv.gz", gzip.compress(b"word,tag\na,O\nb,B-X\n")),
        [("a b", "O B-X")],
    ),
    (
        "predictions of CSV",
        predicted,
        ("a.csv", KAGGLE),
        [
            "Ann\tNNP\tB-per\tB-per",
            "left\tVBD\tO\tO",
            "",
            "Rome, Oslo\tNNP\tB-geo\tB-geo",
        ],
    ),
    (
        "JSON with the ending .json",
        predicted,
        ("a.json", '{"words": ["Ann", "left"], "tags": ["U-PER", "O"]}\n'),
        [
            '{"words": ["Ann", "left"], "tags": ["U-PER", "O"], "predicted": ["U-PER", '
            '"O"]}'
        ],
    ),
    ("packed JSON", sentences, "tokens.jsonl.gz", [("Ann left", "B-PER O")] * 4),
    ("examples of spaCy", sentences, "tuples.jsonl", [("Ann left .", "B-PER O O")]),
    (
        "ner_tags",
        sentences,
        ("a.jsonl", '{"tokens": ["Ann"], "ner_tags": ["B-PER"]}\n'),
        [("Ann", "B-PER")],
    ),
    (
        "names of tags are missing",
        sentences,
        "ner_tag_numbers.jsonl",
        refused(
            "line 1: 'tags' must be a list of texts. Received: [1, 0, 0, 3]",
            "names of tags such as B-PER, not their numbers",
        ),
    ),
    (
        "Label Studio",
        sentences,
        "label_studio_min.jsonl",
        [("ann lives in rome", "B-PER O O O")],
    ),
    (
        "Label Studio without an entity",
        sentences,
        (
            "a.jsonl",
            '{"text": "Ann left", "id": 1, "annotator": 1, "annotation_id": 4}\n',
        ),
        [("Ann left", "O O")],
    ),
    (
        "doccano",
        sentences,
        ("a.jsonl", '{"id": 1, "text": "Ann left", "label": [[0, 3, "PER"]]}\n'),
        [("Ann left", "B-PER O")],
    ),
    (
        "doccano with relations",
        sentences,
        (
            "a.jsonl",
            '{"text": "in Oslo", "entities": [{"id": 1, "label": "LOC", '
            '"start_offset": 3, "end_offset": 7}], "relations": []}\n',
        ),
        [("in Oslo", "O B-LOC")],
    ),
    (
        "a label of a text",
        words,
        ("a.jsonl", '{"text": "Ann left", "label": "news"}\n'),
        ["Ann left"],
    ),
    (
        "a column of words that are spaces",
        words,
        ("a.txt", "a\n\u00a0\n\u3000\n\u2028\n\nb\n \n"),
        ["a \u00a0 \u3000 \u2028", "b"],
    ),
    (
        "words that end with U+FEFF",
        words,
        ("a.jsonl", '{"text": "ann\ufeff a\u200bb\u200d, cafe\u0301\u00ad"}\n'),
        ["ann a\u200bb , cafe\u0301"],
    ),
]


# Questions and answers.
def squad(answers='[{"text": "Ann", "answer_start": 0}]', question='"Who?"', **others):
    """Returns a name and the content of a file of SQuAD; all values are JSON."""
    qa = (
        f'{{"id": {others.get("id", 1)}, "question": {question}, "answers": {answers}}}'
    )
    qas, context = others.get("qas", f"[{qa}]"), others.get("context", '"Ann left."')
    paragraph = f'{{"context": {context}, "qas": {qas}}}'
    paragraphs = others.get("paragraphs", f"[{paragraph}]")
    return (
        "squad.json",
        f'{{"data": {others.get("data", f"""[{{"paragraphs": {paragraphs}}}]""")}}}',
    )


def stated(start, text='"Ann"'):
    return f'[{{"text": {text}, "answer_start": {start}}}]'


PLACE = "data[0].paragraphs[0].qas[0]"
SQUAD = [
    (
        "position as text",
        squad_data.to_train,
        "answer_start_text.json",
        [("1", "Who left?", ("Ann",), 0)],
    ),
    (
        "impossible as text",
        squad_data.to_train_version_2,
        "impossible_text.json",
        [("1", ("Ann",), False), ("2", ("Bob",), False)],
    ),
    (
        "second occurrence",
        squad_data.to_train,
        "second_occurrence.json",
        [("1", "白いのは何か。", ("猫",), 10)],
    ),
    (
        "U+00A0 in an answer",
        squad_data.to_train,
        "nbsp_answer.json",
        [
            ("1", "How many?", ("27\xa0000",), 0),
            ("2", "What?", ("people",), 0),
            ("3", "What?", ("people",), 0),
        ],
    ),
    (
        "byte-order mark",
        squad_data.to_train,
        "squad_bom.json",
        [("1", "where ?", ("rome",), 0)],
    ),
    (
        "a question in each line",
        squad_data.to_train,
        "squad_lines.jsonl",
        refused("squad_lines.jsonl is not JSON: Extra data", "not JSON lines"),
    ),
    (
        "CMRC",
        squad_data.to_train,
        ("c.json", '[{"context_id": "1", "qas": []}]'),
        refused("c.json has no key 'data'. Received: [{'context_id'", "CMRC 2018"),
    ),
    (
        "another key",
        squad_data.to_train,
        ("c.json", '{"rows": []}'),
        refused("c.json has no key 'data'. Received: ['rows']", '{"data": [{"par'),
    ),
    (
        "impossible, another word",
        squad_data.to_train_version_2,
        squad(
            qas='[{"id": 1, "question": "Who?", "answers": [], "is_impossible": "yes"}]'
        ),
        refused(PLACE, "is_impossible must be true or false", "'yes'"),
    ),
    (
        "position 0.0",
        squad_data.to_train,
        squad(stated("0.0")),
        [("1", "Who?", ("Ann",), 0)],
    ),
    (
        "position 0.5",
        squad_data.to_train,
        squad(stated("0.5")),
        refused(PLACE + ".answers[0]", "answer_start must be a whole number", "0.5"),
    ),
    (
        "position as a word",
        squad_data.to_train,
        squad(stated('"first"')),
        refused(
            PLACE + ".answers[0]", "answer_start must be a whole number", "'first'"
        ),
    ),
    (
        "position null",
        squad_data.to_train,
        squad(stated("null")),
        refused(PLACE + ".answers[0]", "answer_start must be", "None"),
    ),
    (
        "answer as a number",
        squad_data.to_train,
        squad(stated('"2"', text=1984), context='"(\'1984)"'),
        [("1", "Who?", ("1984",), 2)],
    ),
    (
        "answer as a number, to predict",
        squad_data.to_predict,
        squad('[{"text": 1984}]'),
        [("1", "Who?", ("1984",))],
    ),
    (
        "answers as texts",
        squad_data.to_predict,
        squad('["Ann"]'),
        refused(PLACE + ".answers[0]", "'text'"),
    ),
    (
        "answer null",
        squad_data.to_predict,
        squad('[{"text": null}]'),
        refused(PLACE + ".answers[0]", "text must be a text or a number", "None"),
    ),
    (
        "answers null, to predict",
        squad_data.to_predict,
        squad("null"),
        [("1", "Who?", None)],
    ),
    (
        "answers null, to train",
        squad_data.to_train,
        squad("null"),
        refused(PLACE, "answers must be a list", "None"),
    ),
    (
        "answers in an object",
        squad_data.to_predict,
        squad('{"text": ["Ann"]}'),
        refused(PLACE, "answers must be a list"),
    ),
    (
        "question null",
        squad_data.to_predict,
        squad(question="null"),
        refused(PLACE, "question must be a text or a number", "None"),
    ),
    (
        "id as a list",
        squad_data.to_predict,
        squad(id="[1]"),
        refused(PLACE, "id must be a text or a number", "[1]"),
    ),
    (
        "ids 1 and '1'",
        squad_data.to_predict,
        squad(qas='[{"id": 1, "question": "a"}, {"id": "1", "question": "b"}]'),
        refused("data[0].paragraphs[0].qas[1]", "the id '1'", "an earlier question"),
    ),
    (
        "data null",
        squad_data.to_predict,
        squad(data="null"),
        refused("squad.json: data must be"),
    ),
    (
        "data with null",
        squad_data.to_predict,
        squad(data="[null]"),
        refused("data[0] has no key 'paragraphs'"),
    ),
    (
        "paragraphs null",
        squad_data.to_predict,
        squad(paragraphs="null"),
        refused("data[0]: paragraphs must be a list", "None"),
    ),
    (
        "qas null",
        squad_data.to_predict,
        squad(qas="null"),
        refused("data[0].paragraphs[0]: qas must be a list", "None"),
    ),
    (
        "context null",
        squad_data.to_predict,
        squad(context="null"),
        refused("data[0].paragraphs[0]: context must be a text or a number", "None"),
    ),
    (
        "context not a number",
        squad_data.to_predict,
        squad(context="NaN"),
        refused("data[0].paragraphs[0]: context must be a text or a number", "nan"),
    ),
]

ROWS = [*LABELS, *TABLES, *CHOICES, *NER, *SQUAD]


@pytest.mark.parametrize(
    ("read", "file", "expected"),
    [row[1:] for row in ROWS],
    ids=[row[0] for row in ROWS],
)
def test_reading_a_public_form(request, tmp_path, read, file, expected):
    if isinstance(file, str):
        path = request.getfixturevalue("test_data") / "data" / "public_cases" / file
    else:
        path = tmp_path / file[0]
        write(path, file[1])
    check(read, path, expected)
