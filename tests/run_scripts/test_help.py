"""`--help` of each program, and the time before an error in the flags."""

import pathlib
import re

import pytest
from run_programs import run_python

from bert_tf.program.command_line import _PATH_FLAG

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
# Flags whose values are text and no paths; the names of all others show that they are
# paths.
TEXTS = """
master tpu_zone tpu_name gcp_project profile_steps tfds_name text_feature
feature_layers xnli_language tflite_precisions text_a_column text_b_column text
task_name question layers labels label_separator label_column grid format context
choice beam_options dask_scheduler precision scheme class_weights init_layers
encoding title host
"""
WITHOUT_OPTIONAL_FLAGS = {"run_scripts/make_glue_submission.py"}
# The import of each of these packages takes half a second or more.
SLOW_PACKAGES = """
tensorflow tensorflow_text tensorflow_datasets keras tensorboard scipy sklearn
"""
SECTIONS = ["Required flags:", "Main flags:", "Further flags:"]


def run(*words, code=0):
    """Runs a program, which may not import a slow package; returns the result."""
    environment = {"PYTHONPATH": str(ROOT)}
    options = {"code": code, "env": environment, "timeout": 60}
    result = run_python("-X", "importtime", *words, **options)
    imported = set(re.findall(r"^import time:.*\| +(\w+)", result.stderr, re.M))
    assert "absl" in imported and not imported & {*SLOW_PACKAGES.split()}
    return result


def test_all_programs_are_in_the_list():
    assert set(MAINS) == {
        str(path.relative_to(ROOT))
        for folder in ("data_prep", "run_scripts")
        for path in (ROOT / folder).glob("*.py")
        if re.search(r"^def main\(", path.read_text("utf-8"), re.M)
    }


@pytest.mark.parametrize("script", MAINS)
def test_help_imports_no_slow_package_and_describes_each_flag(script):
    result = run(ROOT / script, "--help")
    lines = result.stdout.splitlines()
    assert lines[0].endswith(".") and len(lines[0]) < 100
    assert max(map(len, lines)) <= 100
    program = f"python {script} "
    if "quickstart" in script:
        program = "bash run_scripts/quickstart.sh"
    assert f"    {program}" in result.stdout.split(" flags:")[0], "there is no example"

    titles = [line for line in lines if line in SECTIONS]
    assert titles == sorted(titles, key=SECTIONS.index)
    sections = dict(re.findall(r"^(\S[\w ]+:)\n((?:  .+\n?)+)", result.stdout, re.M))
    flags = {
        title: re.findall(r"^  --(\w+)=", sections.get(title, ""), re.M)
        for title in SECTIONS
    }
    assert flags["Required flags:"] == MAINS[script].split()
    optional = flags["Main flags:"] + flags["Further flags:"]
    assert optional or script in WITHOUT_OPTIONAL_FLAGS
    if script in TRAINING:
        names = "do_train init_checkpoint vocab_file learning_rate train_batch_size"
        first = names.split()
        assert [name for name in flags["Main flags:"] if name in first] == first
        assert {"lstm_size", "use_tpu"} & set(flags["Further flags:"])
    assert len(flags["Main flags:"]) <= 25
    is_text = r"^  --(\w+)=(?:text|comma separated list)$"
    texts = re.findall(is_text, result.stdout, re.M)
    assert {name for name in texts if not _PATH_FLAG.search(name)} <= {*TEXTS.split()}
    assert not [name for name in TEXTS.split() if _PATH_FLAG.search(name)]
    description = r"^  --\w+=.*\n((?:      .+\n?)*)"
    for text in re.findall(description, result.stdout, re.M):
        assert len(text.strip()) > 15, text


def test_error_in_a_flag_imports_no_slow_package():
    flags = "--task_name=mrpc --output_dir=out --data_dir=. --do_train=true"
    wrong = "--num_train_epochs=nan"
    program = ROOT / "run_scripts/run_classifier.py"
    result = run(program, *flags.split(), wrong, code=2)
    message = "must be above 0 and at most 1,000,000. Received: nan."
    assert result.stderr.splitlines()[-1] == f"error: --num_train_epochs {message}"


def test_version_is_that_of_the_project():
    result = run(ROOT / "run_scripts/predict.py", "--version")
    assert re.fullmatch(
        r"bert-tf \d+\.\d+\.\d+ \(tensorflow [\d.]+, keras [\d.]+, "
        r"tensorflow-text [\d.]+\)\n",
        result.stdout,
    )


def test_examples_in_the_docstring_give_the_required_flags():
    for script, required in MAINS.items():
        text = (ROOT / script).read_text("utf-8").split('"""')[1].replace("\\\\", "\\")
        examples = re.findall(rf"python {script} ((?:.*\\\n)*.*)", text)
        for example in examples:
            if " ..." not in example:
                given = re.findall(r"--(\w+)=", example)
                assert {*required.split()} <= {*given}, example


def test_console_scripts_show_their_own_names(tmp_path):
    script = tmp_path / "bert-tf-run-squad"
    script.write_text("from bert_tf.run_scripts.run_squad import run\nrun()\n")
    result = run(script, "--help")
    assert re.search(r"^    bert-tf-run-squad ", result.stdout, re.M)
    assert "python " not in result.stdout.split(" flags:")[0]
