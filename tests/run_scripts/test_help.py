"""`--help` of each program, and the time before an error in the flags."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent.parent
MAINS = {
    "data_prep/make_sample_data.py": "output_dir",
    "data_prep/train_vocabulary.py": "output_file",
    "data_prep/create_pretraining_data.py": "output_file vocab_file",
    "data_prep/inspect_records.py": "input_file vocab_file",
    "run_scripts/run_pretraining.py": "output_dir",
    "run_scripts/run_classifier.py": "task_name output_dir",
    "run_scripts/run_squad.py": "output_dir",
    "run_scripts/run_swag.py": "output_dir",
    "run_scripts/run_embedding.py": "output_dir",
    "run_scripts/run_ner.py": "output_dir",
    "run_scripts/sweep.py": "grid output_dir",
    "run_scripts/make_glue_submission.py": "input_dirs output_file",
    "run_scripts/extract_features.py": "input_file output_file",
    "run_scripts/convert_checkpoint.py": "from to",
    "run_scripts/adapt_vocabulary.py": "init_checkpoint output_dir",
    "run_scripts/export_model.py": "checkpoint export_dir",
    "run_scripts/predict.py": "model",
    "run_scripts/demo.py": "model",
    "run_scripts/quickstart.py": "",
}
TRAINING = {
    f"run_scripts/run_{name}.py"
    for name in ("pretraining", "classifier", "squad", "ner")
}
# Flags whose values are text and no paths.
TEXTS = """
master tpu_zone tpu_name gcp_project profile_steps tfds_name text_feature
feature_layers xnli_language tflite_precisions text_a_column text_b_column text
task_name question layers labels label_separator label_column grid format context
choice beam_options dask_scheduler precision scheme class_weights init_layers
encoding title host prompt_name coordinator_address
negative_columns score_column prompt_a prompt_b dimensions
"""
WITHOUT_OPTIONAL_FLAGS = {"run_scripts/make_glue_submission.py"}
# The import of each of these packages takes half a second or more.
SLOW_PACKAGES = """
tensorflow tensorflow_text tensorflow_datasets keras tensorboard scipy sklearn
"""
# Runs a program as Python does, and prints the flags that are marked as paths.
WITH_PATHS = """
import atexit, runpy, sys
from bert_tf.program.config_flags import PATHS
atexit.register(lambda: print("PATHS", *PATHS, file=sys.stderr))
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
SECTIONS = [
    "Required flags:", "Main flags:", "Further flags:",
]  # fmt: skip


def run(*words):
    """Runs Python in the root of the repository.

    Returns the result and the imported packages.
    """
    command = [sys.executable, "-X", "importtime", *words]
    result = subprocess.run(
        command,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    imported = set(re.findall(r"^import time:.*\| +(\w+)", result.stderr, re.M))
    return result, imported


def test_all_programs_are_in_the_list():
    assert set(MAINS) == {
        str(path.relative_to(ROOT))
        for folder in ("data_prep", "run_scripts")
        for path in (ROOT / folder).glob("*.py")
        if re.search(r"^def main\(", path.read_text("utf-8"), re.M)
    }


@pytest.mark.parametrize("script", MAINS)
def test_help_imports_no_slow_package_and_describes_each_flag(script):
    result, imported = run("-c", WITH_PATHS, ROOT / script, "--help")
    assert result.returncode == 0, result.stderr
    assert "absl" in imported and not imported & {*SLOW_PACKAGES.split()}

    lines = result.stdout.splitlines()
    assert lines[0].endswith(".") and len(lines[0]) < 100
    assert max(map(len, lines)) <= 100
    program = (
        "bash run_scripts/quickstart.sh"
        if "quickstart" in script
        else f"python {script} "
    )
    assert f"    {program}" in result.stdout.split(" flags:")[0], "there is no example"

    titles = [line for line in lines if line in SECTIONS]
    assert titles == sorted(titles, key=SECTIONS.index)
    sections = dict(re.findall(r"^(\S[\w ]+:)\n((?:  .+\n?)+)", result.stdout, re.M))
    flags = {
        title: re.findall(r"^  --(\w+)=", sections.get(title, ""), re.M)
        for title in SECTIONS
    }
    assert flags["Required flags:"] == MAINS[script].split()
    assert (
        flags["Main flags:"] + flags["Further flags:"]
        or script in WITHOUT_OPTIONAL_FLAGS
    )
    if script in TRAINING:
        first = "do_train init_checkpoint vocab_file learning_rate train_batch_size"
        first = first.split()
        assert [name for name in flags["Main flags:"] if name in first] == first
        assert {"lstm_size", "use_tpu"} & set(flags["Further flags:"])
    assert len(flags["Main flags:"]) <= 25
    texts = set(
        re.findall(r"^  --(\w+)=(?:text|comma separated list)$", result.stdout, re.M)
    )
    paths = set(re.search(r"^PATHS (.+)", result.stderr, re.M)[1].split())
    assert texts - paths == texts & {*TEXTS.split()}
    for description in re.findall(
        r"^  --\w+=.*\n((?:      .+\n?)*)", result.stdout, re.M
    ):
        assert len(description.strip()) > 15, description


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("no_such_flag=1", "Unknown command line flag 'no_such_flag'. See --help."),
        (
            "num_train_epochs=nan",
            "--num_train_epochs must be above 0 and at most 1,000,000. Received: nan.",
        ),
    ],
)
def test_error_in_a_flag_imports_no_slow_package(flag, message):
    required = "--task_name=mrpc", "--output_dir=out", "--data_dir=.", "--do_train=true"
    result, imported = run(
        ROOT / "run_scripts/run_classifier.py", *required, f"--{flag}"
    )
    assert result.returncode == 2
    assert not imported & {*SLOW_PACKAGES.split()}
    assert result.stderr.splitlines()[-1] == f"error: {message}"


def test_version_is_that_of_the_project():
    result, imported = run(ROOT / "run_scripts/predict.py", "--version")
    assert re.fullmatch(
        r"bert-tf \d+\.\d+\.\d+ \(tensorflow [\d.]+, keras [\d.]+, "
        r"tensorflow-text [\d.]+\)\n",
        result.stdout,
    )
    assert result.returncode == 0 and not imported & {*SLOW_PACKAGES.split()}


def test_examples_in_the_docstring_give_the_required_flags():
    for script, required in MAINS.items():
        text = (ROOT / script).read_text("utf-8").split('"""')[1].replace("\\\\", "\\")
        examples = re.findall(rf"python {script} ((?:.*\\\n)*.*)", text)
        for example in examples:
            if " ..." not in example:
                given = re.findall(r"--(\w+)=", example)
                assert {*required.split()} <= {*given}, example


def test_console_scripts_show_their_own_names(tmp_path):
    setup = (ROOT / "setup.py").read_text("utf-8")
    targets = dict(re.findall(r'"(bert-tf-[\w-]+)": "([\w.]+)"', setup))
    assert len(targets) == len(MAINS) - 1  # the quickstart is not installed
    for name, module in targets.items():
        folder, program = module.removeprefix("bert_tf.").split(".")
        assert (
            f"{folder}/{program}.py" in MAINS and name[8:].replace("-", "_") == program
        )
    script = tmp_path / "bert-tf-run-squad"
    script.write_text("from bert_tf.run_scripts.run_squad import run\nrun()\n")
    result, _ = run(script, "--help")
    assert result.returncode == 0, result.stderr
    assert re.search(r"^    bert-tf-run-squad ", result.stdout, re.M)
    assert "python " not in result.stdout.split(" flags:")[0]
