"""The files for the GLUE server: bytes of submission files, content of the zip file."""

import zipfile

import numpy as np
import pytest
from refusals import refused
from run_programs import assert_refused, run_main

from bert_tf.tasks.classification.sources.glue_tasks import GLUE_TASKS, glue_task
from bert_tf.tasks.classification.submission import (
    TEST_EXAMPLES,
    write_submission_zip,
)
from bert_tf.tasks.classification.text_examples import TextExample
from bert_tf.tasks.splits import FileSource, Split

# The official file names, the number of test examples, and a valid prediction.
OFFICIAL = {
    "CoLA.tsv": (1063, "1"),
    "SST-2.tsv": (1821, "0"),
    "MRPC.tsv": (1725, "1"),
    "QQP.tsv": (390965, "0"),
    "STS-B.tsv": (1379, "3.142"),
    "MNLI-m.tsv": (9796, "contradiction"),
    "MNLI-mm.tsv": (9847, "neutral"),
    "QNLI.tsv": (5463, "not_entailment"),
    "RTE.tsv": (3000, "entailment"),
    "WNLI.tsv": (146, "1"),
    "AX.tsv": (1104, "entailment"),
}


def submission_bytes(name, count=None):
    official_count, prediction = OFFICIAL[name]
    lines = (f"{index}\t{prediction}\n" for index in range(count or official_count))
    return ("index\tprediction\n" + "".join(lines)).encode()


def write_folder(folder, *names):
    folder.mkdir()
    for name in names:
        (folder / name).write_bytes(submission_bytes(name))
    return str(folder)


# The outputs of the model for each example, and the submission file.
WRITTEN = {
    "mrpc": ("", [[0.9, 0.1], [0.2, 0.8]], "MRPC.tsv", b"0\t0\n1\t1\n"),
    "rte": (
        "",
        [[0.9, 0.1], [0.2, 0.8]],
        "RTE.tsv",
        b"0\tentailment\n1\tnot_entailment\n",
    ),
    "mnli": (
        "mismatched",
        [[0.1, 0.2, 0.7], [0.8, 0.1, 0.1], [0.2, 0.6, 0.2]],
        "MNLI-mm.tsv",
        b"0\tneutral\n1\tcontradiction\n2\tentailment\n",
    ),
    "ax": ("ax", [[0.1, 0.7, 0.2]], "AX.tsv", b"0\tentailment\n"),
    "sts-b": (
        "",
        [5.25, -0.5, 2.71828, -0.0, 5.0],
        "STS-B.tsv",
        b"0\t5.000\n1\t0.000\n2\t2.718\n3\t0.000\n4\t5.000\n",
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_the_submission_file_has_the_official_name_and_bytes(tmp_path, name):
    suffix, outputs, file_name, expected = WRITTEN[name]
    task = glue_task(name)
    key = "score" if name == "sts-b" else "probabilities"
    source = {"mnli": "test_mismatched.tsv", "ax": "diagnostic.tsv"}.get(
        name, "test.tsv"
    )
    split = Split("test", FileSource(source), suffix)
    example = TextExample("a", "b" if task.pair else None)
    predictions = [(example, {key: np.array(values, np.float32)}) for values in outputs]
    task.make_results(split).write(str(tmp_path), predictions)
    assert (tmp_path / file_name).read_bytes() == b"index\tprediction\n" + expected
    assert (tmp_path / f"{split.with_suffix('test_results')}.tsv").exists()


def test_the_tasks_have_the_official_file_names():
    names = [
        name
        for task in GLUE_TASKS.values()
        for name in task.submission.file_names.values()
    ]
    assert sorted(names) == sorted(OFFICIAL)
    assert {name: count for name, (count, _) in OFFICIAL.items()} == TEST_EXAMPLES
    assert glue_task("mnli").submission.file_names == {
        "": "MNLI-m.tsv",
        "mismatched": "MNLI-mm.tsv",
    }


BAD = {
    "header": (
        b"0\t1\n1\t0\n",
        r"line 1: the columns index and prediction are required.*: 0, 1\.",
    ),
    "rows": (
        submission_bytes("WNLI.tsv", 145),
        r"145 predictions, but .* 146 examples",
    ),
    "index": (
        b"index\tprediction\n0\t1\n2\t1\n",
        r"line 3: the index 1 .* Received: 2 1\.",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_invalid_submission_files_are_refused(tmp_path, case):
    content, message = BAD[case]
    (tmp_path / "WNLI.tsv").write_bytes(content)
    with refused(message):
        write_submission_zip([str(tmp_path)], str(tmp_path / "out.zip"))
    assert [path.name for path in tmp_path.iterdir()] == ["WNLI.tsv"]


def test_the_program_writes_the_zip_file_or_reports_one_line(tmp_path):
    first = write_folder(tmp_path / "first", "WNLI.tsv", "RTE.tsv")
    second = write_folder(tmp_path / "second", "RTE.tsv")
    empty = write_folder(tmp_path / "empty")
    program = "bert_tf.run_scripts.make_glue_submission"
    output = tmp_path / "submission.zip"

    written, same_file, nothing = run_main(
        program,
        [f"--input_dirs={first}", f"--output_file={output}"],
        [f"--input_dirs={first},{second}", f"--output_file={tmp_path}/2.zip"],
        [f"--input_dirs={first},{empty}", f"--output_file={tmp_path}/2.zip"],
    )
    assert (written.code, written.out) == (
        0,
        f"{output} contains 2 of 11 submission files. Missing: CoLA.tsv, SST-2.tsv, "
        "MRPC.tsv, QQP.tsv, STS-B.tsv, MNLI-m.tsv, MNLI-mm.tsv, QNLI.tsv, AX.tsv. The "
        "GLUE server requires all 11.\n",
    )
    with zipfile.ZipFile(output) as archive:
        assert archive.namelist() == ["RTE.tsv", "WNLI.tsv"]
        assert archive.read("WNLI.tsv") == submission_bytes("WNLI.tsv")
    assert_refused(
        same_file, f"{first}/RTE.tsv and {second}/RTE.tsv are submission files of the"
    )
    assert_refused(nothing, f"{empty} contains no submission file such as CoLA.tsv")
    assert not (tmp_path / "2.zip").exists()
