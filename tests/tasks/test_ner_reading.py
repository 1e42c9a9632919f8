"""Files with one word on each line: columns, documents, and damaged lines."""

from collections import Counter

import pytest
from ner_data import make_task, read
from prepared import TRAIN, prepared
from reading import check, refused, write
from refusals import refused_with

from bert_tf.tasks.ner.conll import ALONE, COMMENTS, Columns, render
from bert_tf.tasks.ner.ner_examples import SKIPPED
from bert_tf.tasks.ner.ner_task import FORBIDDEN
from bert_tf.tasks.task import DataLocation, TaskInputs

TASK = make_task()
CONLL_2003 = """-DOCSTART- -X- -X- O

EU NNP I-NP I-ORG
rejects VBZ I-VP O

Peter NNP I-NP I-PER
-DOCSTART- -X- O O

Rome NNP I-NP I-LOC
"""


def sentences(examples):
    return [(" ".join(each.words), " ".join(each.tags or ["-"])) for each in examples]


def check_refused(path, *parts, task=TASK, kind="dev"):
    check(lambda path: read(task, path, kind), path, refused(str(path), *parts))


def test_first_and_last_column_are_the_default(tmp_path):
    path = write(tmp_path / "a.txt", CONLL_2003)
    examples, counts = read(TASK, path)
    assert sentences(examples) == [
        ("EU rejects", "I-ORG O"),
        ("Peter", "I-PER"),
        ("Rome", "I-LOC"),
    ]
    assert not counts


@pytest.mark.parametrize(
    ("columns", "words", "tags"),
    [((0, 3), "EU", "I-ORG"), ((-4, -1), "EU", "I-ORG"), ((1, 2), "NNP", "I-NP")],
)
def test_columns_are_indices(tmp_path, columns, words, tags):
    path = write(tmp_path / "a.txt", CONLL_2003)
    examples, _ = read(make_task(columns=Columns(*columns)), path)
    assert (examples[0].words[0], examples[0].tags[0]) == (words, tags)


@pytest.mark.parametrize("separator", ["\t", " ", "    "])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_separators_and_line_ends(tmp_path, separator, line_end):
    lines = ["Ann x B-PER", "left y O", "", "Rome z B-LOC"]
    text = line_end.join(lines).replace(" ", separator)
    examples, _ = read(TASK, write(tmp_path / "a.conll", text))
    assert sentences(examples) == [("Ann left", "B-PER O"), ("Rome", "B-LOC")]


def test_special_words(tmp_path):
    """No comments.

    A no-break space, a variation selector and a blank may be in a word.
    """
    text = "#\tO\n# text\tO\n\xa0\tO\n\ufe0f\tB-PER\na b\tI-PER\n -DOCSTART-\tO\n"
    ((example,), _) = read(TASK, write(tmp_path / "a.conll", text))
    assert example.words == ("#", "# text", "\xa0", "\ufe0f", "a b", " -DOCSTART-")


def test_comments_before_a_sentence_have_no_tag_and_are_counted(tmp_path):
    """In a file without prefixes, a tag that no other line has is no tag."""
    text = "#a\tsome text\nAnn\tPER\n#\tO\n\n#b\tSIGN\n#c\tPER\nleft\tO\n"
    examples, counts = read(TASK, write(tmp_path / "a.tsv", text))
    assert sentences(examples) == [("Ann #", "I-PER O"), ("#c left", "I-PER O")]
    assert counts == {COMMENTS: 2}
    (first,) = counts.notes["first"]
    assert first.endswith("a.tsv: '#a\\tsome text'.")


def test_the_warning_about_another_column_counts_all_of_its_entities(tmp_path):
    text = "a B-PER O\nb B-LOC O\nc B-PER O\nd B-PER B-PER\n"
    _, counts = read(TASK, write(tmp_path / "a.conll", text))
    (warning,) = counts.notes["warnings"]
    assert "has 4 entities, and the column of the tags has 1." in warning


def test_lines_of_white_space_end_a_sentence(tmp_path):
    text = "\n \nAnn\tB-PER\n\t\nleft\tO\n \t \n\n\u3000\nRome\tB-LOC\n\n\n"
    examples, _ = read(TASK, write(tmp_path / "a.conll", text))
    assert [each.words for each in examples] == [("Ann",), ("left",), ("Rome",)]


@pytest.mark.parametrize("text", ["", "\n", " \n\t\n", "-DOCSTART- -X- O O\n\n"])
def test_a_file_without_words_has_no_sentences(tmp_path, text):
    assert read(TASK, write(tmp_path / "a.conll", text)) == ([], Counter())
    with refused_with("has no entities, so there is nothing to learn"):
        prepared(
            TASK, DataLocation(train_file=str(tmp_path / "a.conll")), max_seq_length=16
        )


def test_documents(tmp_path):
    text = "Ann O\n\nleft O\n\n-DOCSTART- O\n\na O\nb O\n\nc O\n\n"
    text += "-DOCSTART- O\n\nd O\n\ne O\n"
    path = write(tmp_path / "a.txt", text)
    examples, counts = read(make_task(document_context=True), path)
    found = [(each.words, each.document, each.first_word) for each in examples]
    assert found == [
        (("Ann",), ("Ann",), 0),
        (("left",), ("left",), 0),
        (("a", "b"), ("a", "b", "c"), 0),
        (("c",), ("a", "b", "c"), 2),
        (("d",), ("d", "e"), 0),
        (("e",), ("d", "e"), 1),
    ]
    assert examples[2].document is examples[3].document
    assert counts == {ALONE: 2}
    without, counts = read(TASK, path)
    assert all(each.document == each.words and each.first_word == 0 for each in without)
    assert not counts


def test_a_limit_counts_sentences(tmp_path):
    path = write(tmp_path / "a.txt", "-DOCSTART- O\n\nb O\n\nc O\n\nd O\n")
    for context in (False, True):
        examples, _ = read(make_task(document_context=context), path, limit=2)
        assert [each.words for each in examples] == [("b",), ("c",)]


DAMAGE = {
    "too few columns": ("left", "1 column", "the first line of the file has 2"),
    "too many columns": ("left\tx\tO", "3 columns", "the first line of the file has 2"),
    "prefix": (
        "left\tX-PER",
        "the tag 'X-PER' is malformed",
        "Expected: O, or B-, I-, E- or S-",
    ),
    "no word": ("\tO", "the word is empty"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_skipped_in_train_and_refused_elsewhere(tmp_path, damage):
    line, *parts = DAMAGE[damage]
    good = "Ann\tB-PER\nsaw\tO\n\n"
    path = write(
        tmp_path / "a.conll", f"{good}Rome\tB-LOC\n{line}\nPeter\tB-PER\n\n{good}"
    )
    examples, counts = read(TASK, path, "train")
    assert sentences(examples) == [("Ann saw", "B-PER O")] * 2
    assert counts == {SKIPPED: 1}
    for kind in ("dev", "test"):
        check_refused(path, "line 5", *parts, kind=kind)


def test_a_skipped_sentence_is_no_context(tmp_path):
    text = "-DOCSTART- O\n\na O\n\nb X-Y\n\nc O\n\n-DOCSTART- O\n\nd X-Y\n\ne O\n"
    path = write(tmp_path / "a.conll", text)
    examples, counts = read(make_task(document_context=True), path, "train")
    assert [each.document for each in examples] == [("a", "c"), ("a", "c"), ("e",)]
    assert counts == {SKIPPED: 2}


def test_forbidden_tags_are_read_and_counted(tmp_path):
    text = "a\tB-PER\nb\tI-PER\nc\tI-LOC\n\nd\tO\ne\tI-PER\n\n"
    text += "f\tB-LOC\ng\tB-LOC\nh\tO\ni\tB-PER\n"
    path = write(tmp_path / "a.conll", text)
    examples, counts = read(TASK, path)
    assert len(examples) == 3 and counts == {FORBIDDEN: 2}
    assert TASK.as_row(examples[1])["tags"] == ["O", "B-PER"]


def test_a_given_scheme_refuses_tags_of_others(tmp_path):
    path = write(tmp_path / "a.conll", "a\tO\nb\tS-PER\n")
    assert len(read(TASK, path)[0]) == 1
    check_refused(
        path, "line 2", "Expected: O, or B- or I-", task=make_task(input_scheme="iob2")
    )
    iob1 = write(tmp_path / "b.conll", "a\tI-PER\n")
    assert read(TASK, iob1)[1] == {}
    assert read(make_task(input_scheme="iob2"), iob1)[1] == {FORBIDDEN: 1}


def test_files_to_predict_may_have_words_only(tmp_path):
    path = write(tmp_path / "a.txt", "Ann\nleft\n\nRome\n")
    examples, _ = read(TASK, path, "test")
    assert [(each.words, each.tags) for each in examples] == [
        (("Ann", "left"), None),
        (("Rome",), None),
    ]
    for kind in ("train", "dev"):
        check_refused(path, "1 column", "label_column=-1", kind=kind)
    two = write(tmp_path / "b.txt", "Ann NNP\nleft VBD\n")
    task = make_task(columns=Columns(0, 3))
    assert read(task, two, "test")[0][0].tags is None
    check_refused(two, "2 columns", "label_column=3", task=task)
    check_refused(two, "the tag 'NNP' is malformed", "label_column", kind="test")


def test_a_column_that_does_not_exist_is_refused(tmp_path):
    path = write(tmp_path / "a.txt", "Ann O\n")
    for column in (2, -3):
        check_refused(
            path,
            "token_column must be from -2 to 1",
            task=make_task(columns=Columns(column, 1)),
        )
    check_refused(path, "no column for tags", task=make_task(columns=Columns(1, -1)))


@pytest.mark.parametrize("text", [
    CONLL_2003,
    CONLL_2003.rstrip("\n"),
    "\n\nAnn\tB-PER\n\n\nleft\tO\n\n\n",
    "-DOCSTART-\n\nAnn  x   B-PER\n",
    "Ann B-PER",
])  # fmt: skip
def test_each_line_of_the_file_gives_a_line_of_the_output(tmp_path, text):
    examples, _ = read(TASK, write(tmp_path / "a.conll", text))
    tags = ["B-NEW", *["I-NEW"] * 10]
    lines = [
        line for each in examples for line in render(each, tags[: len(each.words)])
    ]
    expected = text.removesuffix("\n").split("\n")
    assert len(lines) == len(expected)
    for line, original in zip(lines, expected, strict=True):
        if not original or original == "-DOCSTART-":
            assert line == original
        else:
            assert line.startswith(original) and line[len(original)] in " \t"
            assert ("\t" in line) == ("\t" in original)
            assert line[len(original) + 1 :] in ("B-NEW", "I-NEW", "O")


def test_labels_are_those_of_the_types_of_the_train_file(tmp_path):
    path = write(tmp_path / "a.conll", "a\tS-b-c\n\nb\tB-A\nc\tE-A\n\nd\tX-Y\n")
    location = DataLocation(train_file=path)
    assert prepared(TASK, location).labels == ("O", "B-A", "I-A", "B-b-c", "I-b-c")
    task = prepared(make_task(scheme="iobes"), location)
    assert (
        task.labels[:5] == ("O", "B-A", "I-A", "E-A", "S-A") and len(task.labels) == 9
    )
    path = write(tmp_path / "b.conll", "a\tO\n\nb\tO\n\nc\tX-Y\n")
    with refused_with("has no entities (1 sentences skipped"):
        prepared(TASK, DataLocation(train_file=path))


@pytest.mark.parametrize(
    "names",
    [
        ("train.conll", "dev.txt", "test.bio"),
        ("eng.train", "eng.testa", "eng.testb"),
        ("train.txt", "testa.txt", "testb.txt"),
    ],
    ids=" ".join,
)
def test_names_of_split_files(tmp_path, names):
    for name in names:
        write(tmp_path / name, "")
    (tmp_path / "train").mkdir()  # a folder is no file
    location = DataLocation(data_dir=str(tmp_path))
    for kind, name in zip(("train", "dev", "test"), names, strict=True):
        (split,) = TASK.splits(kind, location)
        assert split.source.name == str(tmp_path / name)


def test_a_change_of_the_columns_changes_the_fingerprint(tmp_path):
    location = DataLocation(dev_file=write(tmp_path / "a.conll", "a O\n"))
    tasks = [TASK, make_task(columns=Columns(0, 1)), make_task(input_scheme="iob1")]
    found = {task.splits("dev", location)[0].source.fingerprint() for task in tasks}
    assert len(found) == 3


def test_tags_have_the_order_of_a_model_with_the_same_tags(tmp_path):
    path = write(tmp_path / "train.txt", "Ann\tB-PER\nleft\tO\n")
    task, location = make_task(), DataLocation(train_file=str(path))
    stated = [["O", "B-PER"], ["I-PER", "O", "B-PER"]]
    inputs = TaskInputs(location, TRAIN, task.tokenizer, 9, stated_labels=stated)
    assert task.prepare(inputs).labels == ("I-PER", "O", "B-PER")
