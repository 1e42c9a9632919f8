"""Reading GLUE files: literal rows in the official forms, and real files."""

import pytest
from reading import check, refused, write
from refusals import refused_with

from bert_tf.tasks.classification.sources.glue_tasks import GLUE_TASKS, glue_task
from bert_tf.tasks.classification.text_examples import TextExample
from bert_tf.tasks.splits import RowCounts
from bert_tf.tasks.task import DataLocation

MNLI_START = (
    "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse"
    "\tsentence1_parse\tsentence2_parse\tsentence1\tsentence2"
)
MNLI_ROW = "0\t1\t1e\tfiction\t( a )\t( b )\t(ROOT a)\t(ROOT b)\tHe left.\tHe is gone."
STSB_HEADER = (
    "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\t"
    "sentence1\tsentence2\tscore\n"
)
STSB_ROW = "0\tmain\tMSRvid\t2012\t1\tnone\tnone\tA plane.\tAn air plane.\t"


def read(name, kind, data_dir=None, counts=None, **location):
    """Returns the examples of each split of a kind, by suffix."""
    task = glue_task(name)
    splits = task.splits(kind, DataLocation(data_dir and str(data_dir), **location))
    counts = RowCounts() if counts is None else counts
    return {split.suffix: list(task.reader.read(split, counts)) for split in splits}


# For each task and kind of split: the text of the file, and the expected example.
LITERAL = {
    "cola-train": (
        "gj04\t0\t*\tThey drank the pub.\n",
        TextExample("They drank the pub.", None, "0"),
    ),
    "cola-dev": ('gj04\t1\t\tIt "works.\r\n', TextExample('It "works.', None, "1")),
    "cola-test": ("index\tsentence\n0\tBill left.\n", TextExample("Bill left.")),
    "sst-2-train": ("sentence\tlabel\nfine \t1\n", TextExample("fine ", None, "1")),
    "sst-2-test": (
        "index\tsentence\n0\tuneasy mishmash\n",
        TextExample("uneasy mishmash"),
    ),
    "mrpc-train": (
        '\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t7\t8\tHe said " no '
        '.\t"No .\r\n',
        TextExample('He said " no .', '"No .', "1"),
    ),
    "mrpc-test": (
        "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t7\t8\tOne .\tTwo .\n",
        TextExample("One .", "Two ."),
    ),
    "qqp-train": (
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n5\t1\t2\tWhy?\tHow?\t0\n",
        TextExample("Why?", "How?", "0"),
    ),
    "qqp-test": (
        "id\tquestion1\tquestion2\n0\tWhy?\tHow?\n",
        TextExample("Why?", "How?"),
    ),
    "sts-b-dev": (
        STSB_HEADER + STSB_ROW + "3.800\n",
        TextExample("A plane.", "An air plane.", 3.8),
    ),
    "sts-b-test": (
        STSB_HEADER.replace("\tscore", "") + STSB_ROW.rstrip("\t") + "\n",
        TextExample("A plane.", "An air plane."),
    ),
    "mnli-train": (
        f"{MNLI_START}\tlabel1\tgold_label\n{MNLI_ROW}\tneutral\tentailment\n",
        TextExample("He left.", "He is gone.", "entailment"),
    ),
    "qnli-train": (
        "index\tquestion\tsentence\tlabel\n0\tWho?\tShe did.\tnot_entailment\n",
        TextExample("Who?", "She did.", "not_entailment"),
    ),
    "qnli-test": (
        "index\tquestion\tsentence\n0\tWho?\tMe.\n",
        TextExample("Who?", "Me."),
    ),
    "rte-dev": (
        "index\tsentence1\tsentence2\tlabel\n0\tA b.\tB.\tentailment\n",
        TextExample("A b.", "B.", "entailment"),
    ),
    "rte-test": (
        "index\tsentence1\tsentence2\n0\tA b.\tB.\n",
        TextExample("A b.", "B."),
    ),
    "wnli-train": (
        "index\tsentence1\tsentence2\tlabel\n0\tIt hurt.\tThe carrot hurt.\t1\n",
        TextExample("It hurt.", "The carrot hurt.", "1"),
    ),
}


@pytest.mark.parametrize("case", LITERAL)
def test_columns_are_found_in_the_official_layout(tmp_path, case):
    name, _, kind = case.rpartition("-")
    text, expected = LITERAL[case]
    write(tmp_path / f"{kind}.tsv", text)
    assert read(name, kind, tmp_path) == {"": [expected]}


def test_mnli_has_two_dev_files_with_more_columns_than_the_train_file(tmp_path):
    labels = "".join(f"\tlabel{number}" for number in range(1, 6))
    header = f"{MNLI_START}{labels}\tgold_label\n"
    votes = "\tneutral" * 5
    write(tmp_path / "dev_matched.tsv", f"{header}{MNLI_ROW}{votes}\tcontradiction\n")
    write(tmp_path / "dev_mismatched.tsv", f"{header}{MNLI_ROW}{votes}\tentailment\n")
    assert read("mnli", "dev", tmp_path) == {
        "": [TextExample("He left.", "He is gone.", "contradiction")],
        "mismatched": [TextExample("He left.", "He is gone.", "entailment")],
    }
    one_file = read(
        "mnli", "dev", tmp_path, dev_file=str(tmp_path / "dev_mismatched.tsv")
    )
    assert [example.label for example in one_file[""]] == ["entailment"]
    assert set(one_file) == {""}


def test_short_rows_of_qqp_are_skipped_and_counted(tmp_path):
    header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
    rows = "1\t2\t3\tWhy?\tHow?\t1\n4\t5\t6\tWhat is\nthis?\tThat?\t0\n"
    write(tmp_path / "train.tsv", f"{header}{rows}\n7\t8\t9\tWho?\tMe?\t0\n")
    counts = RowCounts()
    assert read("qqp", "train", tmp_path, counts) == {
        "": [TextExample("Why?", "How?", "1"), TextExample("Who?", "Me?", "0")]
    }
    assert counts == {"short rows skipped": 2}


def test_labels_of_a_test_file_are_read_if_the_file_has_labels(tmp_path):
    header = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    path = write(
        tmp_path / "msr_paraphrase_test.txt", f"{header}1\t1\t2\ta\tb\n-1\t3\t4\tc\td\n"
    )
    examples = read("mrpc", "test", test_file=str(path))[""]
    assert examples == [TextExample("a", "b", "1"), TextExample("c", "d", None)]


def test_cola_predicts_a_file_without_header(tmp_path):
    path = write(tmp_path / "dev.tsv", "gj04\t1\t\tThe rope broke.\n")
    assert read("cola", "test", test_file=str(path))[""] == [
        TextExample("The rope broke.", None, "1")
    ]


AX_TEXT = "index\tsentence1\tsentence2\n0\tThe cat sat.\tThe cat did not sit.\n"


@pytest.mark.parametrize(
    "name", ["diagnostic/diagnostic.tsv", "AX/AX.tsv", "diagnostic.tsv", "AX.tsv"]
)
def test_ax_is_found_in_its_folder_and_in_the_folder_above(tmp_path, name):
    write(tmp_path / name, AX_TEXT)
    expected = {"ax": [TextExample("The cat sat.", "The cat did not sit.")]}
    assert read("ax", "test", tmp_path) == expected
    assert read("ax", "test", test_file=str(tmp_path / name)) == expected


def test_ax_reads_the_labelled_file(tmp_path):
    header = "Lexical Semantics\tLogic\tKnowledge\tDomain\tPremise\tHypothesis\tLabel\n"
    text = f"{header}\tNegation\t\tNews\tThe cat sat.\tIt did not.\tcontradiction\n"
    path = write(tmp_path / "diagnostic/diagnostic-full.tsv", text)
    # The suffix keeps the results apart from those of MNLI in the same folder.
    expected = {"ax": [TextExample("The cat sat.", "It did not.", "contradiction")]}
    assert read("ax", "dev", tmp_path) == expected
    assert read("ax", "dev", dev_file=str(path)) == expected


def test_ax_has_the_facts_of_mnli_and_no_train_file(tmp_path):
    assert glue_task("ax").facts == glue_task("mnli").facts
    with refused_with("AX has no train file", " task mnli"):
        glue_task("ax").splits("train", DataLocation(str(tmp_path)))


@pytest.mark.parametrize("name", GLUE_TASKS)
def test_each_official_test_file_has_a_submission_file(tmp_path, name):
    task = glue_task(name)
    for names in task.reader.files["test"].values():
        write(tmp_path / names[-1], "")
    splits = task.splits("test", DataLocation(str(tmp_path)))
    assert [split.suffix for split in splits] == list(task.submission.file_names)


def test_files_are_found_in_the_folder_above_the_task(tmp_path):
    write(tmp_path / "SST-2/dev.tsv", "sentence\tlabel\nfine\t1\n")
    (split,) = glue_task("sst-2").splits("dev", DataLocation(str(tmp_path)))
    assert split.source.name == f"{tmp_path}/SST-2/dev.tsv"


# A task, the kind of split, a file, and what is wrong with it. In a test file of QQP, a
# skipped row would shift the predictions of all later rows in the submission file.
SST2_LABELS = "line 2: the label '2' is not one of 0, 1."
NLI_LABELS = (
    "line 2: the label 'none' is not one of contradiction, entailment, neutral."
)
MRPC_COLUMNS = "dev.tsv has no column '#2 String'. Its columns are: Quality, #1 ID"
COLA_COLUMNS = "no column 'sentence'. Its columns are: index, text"
BAD = [
    ("sst-2", "dev", "sentence\tlabel\nfine\t2\n", SST2_LABELS),
    (
        "mnli",
        "dev",
        f"{MNLI_START}\tlabel1\tgold_label\n{MNLI_ROW}\tneutral\tnone\n",
        NLI_LABELS,
    ),
    ("mrpc", "dev", "Quality\t#1 ID\t#2 ID\t#1 String\n1\t1\t2\ta\n", MRPC_COLUMNS),
    (
        "sst-2",
        "dev",
        "sentence\tlabel\nonly\n",
        "line 2 has too few columns: 'label' is missing",
    ),
    (
        "qqp",
        "test",
        "id\tquestion1\tquestion2\n0\tWhy?\n1\tWhy?\tHow?\n",
        "test.tsv, line 2 has too few columns: 'question2' is missing",
    ),
    (
        "sts-b",
        "dev",
        f"{STSB_HEADER}{STSB_ROW}high\n",
        "line 2: the score 'high' is not a",
    ),
    (
        "sts-b",
        "dev",
        f"{STSB_HEADER}{STSB_ROW}5.001\n",
        "'5.001' is not a number from 0 to 5",
    ),
    ("rte", "dev", "", "dev.tsv is empty"),
    ("cola", "test", "index\ttext\n0\tBill left.\n", COLA_COLUMNS),
]


@pytest.mark.parametrize(("name", "kind", "text", "message"), BAD)
def test_malformed_files_are_reported_with_the_line(
    tmp_path, name, kind, text, message
):
    def read_file(path):
        return read(name, kind, **{f"{kind}_file": path})

    path = write(tmp_path / f"{kind}.tsv", text)
    found = check(read_file, path, refused(message))
    assert "Did you mean" not in found


def test_missing_files_are_named(tmp_path):
    words = refused(f"no file dev_matched.tsv in {tmp_path}, nor MNLI/dev_m")
    check(lambda path: read("mnli", "dev", path), tmp_path, words)


def test_names_and_aliases():
    assert list(GLUE_TASKS) == [
        "cola", "sst-2", "mrpc", "qqp", "sts-b", "mnli", "qnli", "rte", "wnli", "ax",
    ]  # fmt: skip
    assert glue_task("sst2") is glue_task("SST-2") is GLUE_TASKS["sst-2"]
    assert glue_task("stsb") is GLUE_TASKS["sts-b"]
    with refused_with("'mnil' is not one of cola, ", "Did you mean mnli?"):
        glue_task("mnil")


def test_labels_and_metrics_of_each_task():
    # The order of the labels is that of `get_labels` in google-research/bert.
    nli, entailment = "contradiction entailment neutral", "entailment not_entailment"
    matthews = "matthews_correlation, best by matthews_correlation"
    assert {
        name: f"{task.task_type} of {'pairs' if task.pair else 'texts'}: "
        f"{' '.join(task.labels)}; {' '.join(task.metric_names)}, best by "
        f"{task.best_by[0]}"
        for name, task in GLUE_TASKS.items()
    } == {
        "cola": f"classification of texts: 0 1; {matthews}",
        "sst-2": "classification of texts: 0 1; , best by accuracy",
        "mrpc": "classification of pairs: 0 1; f1, best by f1",
        "qqp": "classification of pairs: 0 1; f1, best by f1",
        "sts-b": "regression of pairs: ; pearson spearman, best by spearman",
        "mnli": f"classification of pairs: {nli}; , best by accuracy",
        "qnli": f"classification of pairs: {entailment}; , best by accuracy",
        "rte": f"classification of pairs: {entailment}; , best by accuracy",
        "wnli": "classification of pairs: 0 1; , best by accuracy",
        "ax": f"classification of pairs: {nli}; {matthews}",
    }
    assert {task.best_by[1] for task in GLUE_TASKS.values()} == {1}


# The number of examples in the official files.
COUNTS = {
    "CoLA-train": 8551, "CoLA-dev": 1043, "CoLA-test": 1063,
    "MRPC-train": 3668, "MRPC-dev": 408, "MRPC-test": 1725,
    "RTE-train": 2490, "RTE-dev": 277, "RTE-test": 3000,
    "SST-2-train": 67349, "SST-2-dev": 872, "SST-2-test": 1821,
    "STS-B-train": 5749, "STS-B-dev": 1500, "STS-B-test": 1379,
}  # fmt: skip


@pytest.mark.parametrize("case", COUNTS)
def test_example_counts_are_the_official_ones(test_data, case):
    folder, _, kind = case.rpartition("-")
    counts = RowCounts()
    examples = read(folder, kind, test_data / "data/glue" / folder, counts)[""]
    assert len(examples) == COUNTS[case] and not counts
    assert all(example.text_a.strip() for example in examples)
    task = glue_task(folder)
    assert all((example.text_b is not None) == task.pair for example in examples)
    labels = {example.label for example in examples}
    if kind == "test":
        assert labels == {None}
    elif task.labels:
        assert labels == set(task.labels)
    else:
        assert min(labels) == 0 and max(labels) == 5 and len(labels) > 50
