"""Reading XNLI from literal rows in the layouts of the released archives."""

import pytest
from reading import check, read_split, refused, write

from bert_tf.tasks.classification.sources.xnli import xnli
from bert_tf.tasks.classification.text_examples import TextExample
from bert_tf.tasks.task import DataLocation

HEADER = (
    "language\tgold_label\tsentence1_binary_parse\tsentence2_binary_parse"
    "\tsentence1_parse\tsentence2_parse\tsentence1\tsentence2\tpromptID\tpairID"
    "\tgenre\tlabel1\tlabel2\tlabel3"
    "\tlabel4\tlabel5\tsentence1_tokenized\tsentence2_tokenized\tmatch\n"
)


def row(language, label, text_a, text_b):
    """Returns a row of a dev or test file; four annotators chose another label."""
    votes = [label, *["neutral"] * 4]
    texts = [text_a, text_b]
    fields = [
        language,
        label,
        *[""] * 4,
        *texts,
        "1",
        "1",
        "facetoface",
        *votes,
        *texts,
        "True",
    ]
    return "\t".join(fields) + "\n"


EVALUATION = (
    HEADER
    + row("en", "neutral", "And he said.", "He called.")
    + row("zh", "contradiction", '他说 " 妈妈', "他没说。")
    + row("de", "entailment", "Und er sagte.", "Er sprach.")
    + row("zh", "entailment", "他说", "他说了。")
)
CHINESE = [
    TextExample('他说 " 妈妈', "他没说。", "contradiction"),
    TextExample("他说", "他说了。", "entailment"),
]
TRAIN = (
    "premise\thypo\tlabel\n一 二\t三\tcontradictory\n四\t五\tneutral\n"
    "六\t七\tentailment\n"
)
TRAIN_EXAMPLES = [
    TextExample("一 二", "三", "contradiction"),
    TextExample("四", "五", "neutral"),
    TextExample("六", "七", "entailment"),
]


def read(language, kind, data_dir=None, **location):
    return read_split(
        xnli(language), kind, data_dir=data_dir and str(data_dir), **location
    )


# For each value of data_dir: the folder of the dev and test files, and that of the
# train files.
LAYOUTS = {
    ".": (".", "multinli"),
    "flat": ("flat", "flat"),
    "above": ("above/XNLI-1.0", "above/XNLI-MT-1.0/multinli"),
    "a/XNLI-1.0": ("a/XNLI-1.0", "a/XNLI-MT-1.0/multinli"),
    "b/XNLI-MT-1.0": ("b/XNLI-1.0", "b/XNLI-MT-1.0/multinli"),
}


@pytest.mark.parametrize("data_dir", LAYOUTS)
def test_files_are_found_in_the_layouts_of_the_archives(tmp_path, data_dir):
    evaluation, train = (tmp_path / folder for folder in LAYOUTS[data_dir])
    write(evaluation / "xnli.dev.tsv", EVALUATION)
    write(evaluation / "xnli.test.tsv", HEADER + row("zh", "neutral", "甲", "乙"))
    write(train / "multinli.train.zh.tsv", TRAIN)
    assert read("zh", "dev", tmp_path / data_dir) == CHINESE
    assert read("zh", "test", tmp_path / data_dir) == [
        TextExample("甲", "乙", "neutral")
    ]
    assert read("zh", "train", tmp_path / data_dir) == TRAIN_EXAMPLES


def test_explicit_files_replace_the_files_of_data_dir(tmp_path):
    dev, train = write(tmp_path / "x.tsv", EVALUATION), write(tmp_path / "y.tsv", TRAIN)
    assert read("de", "dev", dev_file=dev) == [
        TextExample("Und er sagte.", "Er sprach.", "entailment")
    ]
    assert read("zh", "test", test_file=dev) == CHINESE
    assert read("de", "train", tmp_path, train_file=train) == TRAIN_EXAMPLES


def test_the_order_of_the_labels_and_the_default_language(tmp_path):
    assert xnli().labels == ("contradiction", "entailment", "neutral")
    write(tmp_path / "xnli.dev.tsv", EVALUATION)
    assert read_split(xnli(), "dev", data_dir=str(tmp_path)) == CHINESE


def test_the_fingerprint_depends_on_the_language(tmp_path):
    write(tmp_path / "xnli.dev.tsv", EVALUATION)
    location = DataLocation(str(tmp_path))
    prints = {
        xnli(code).splits("dev", location)[0].source.fingerprint()
        for code in ("zh", "de")
    }
    assert len(prints) == 2


LANGUAGES = "x.tsv has no row of xnli_language 'cn'", "are: de, en, zh."
BAD = [
    ("cn", EVALUATION, LANGUAGES),
    (
        "zh",
        EVALUATION + row("zh", "neutrl", "a", "b"),
        ("line 6: the label 'neutrl' ", " 'neutral'"),
    ),
    (
        "zh",
        EVALUATION + "zh\tneutral\t\n",
        ("line 6 has too few columns: 'sentence1'",),
    ),
    ("zh", HEADER.removeprefix("language\t"), ("has no column 'language'",)),
]


@pytest.mark.parametrize(("language", "text", "words"), BAD)
def test_malformed_files_are_reported_with_the_line(tmp_path, language, text, words):
    path = write(tmp_path / "x.tsv", text)
    check(lambda path: read(language, "dev", dev_file=path), path, refused(*words))
