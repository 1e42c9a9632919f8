"""The Python code of the documents runs as it is written there."""

import os
import pathlib
import shutil
import subprocess
import sys

import forked_checks
import pytest
import tensorflow as tf
from guide_program import program, write_checkpoints, write_records

from bert_tf.export import check

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.medium
def test_the_example_of_the_readme_trains_and_exports_a_classifier(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    initialize = forked_checks.initialize
    monkeypatch.setattr(check.CheckProcess, "__init__", initialize)
    write_checkpoints(tmp_path)
    exec(compile(program(ROOT / "README.md"), "README.md", "exec"), {})
    served = tf.saved_model.load("served/1").signatures["serving_default"]
    labels = served(text=tf.constant(["A good film.", "Too long."]))["label"]
    assert labels.numpy().tolist() == [b"positive", b"negative"]


@pytest.mark.slow
def test_the_program_has_the_described_results_with_an_installed_wheel(tmp_path):
    python, packages = environment_with_wheel(tmp_path)
    folder = tmp_path / "guide"
    folder.mkdir()
    write_checkpoints(folder)
    write_records(folder)
    (folder / "guide.py").write_text(program(), "utf-8")
    environment = {name: v for name, v in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [python, ROOT / "tests/guide_checks.py"],
        cwd=folder, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    package = packages / "bert_tf"
    files = [
        package / name / "__init__.py" for name in ("", "data_prep", "run_scripts")
    ]
    assert done.stdout.splitlines()[-1] == " ".join(map(str, files))


def environment_with_wheel(folder):
    """Returns the interpreter and site-packages of a new environment with only bert_tf.

    The environment uses the dependencies of the present environment. The path file does
    not make the present installation of bert_tf visible if that is an editable one.
    """
    # Building in the repository could pick up older files in build/.
    source = folder / "source"
    for name in ("bert_tf", "data_prep", "run_scripts"):
        shutil.copytree(
            ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    for path in ROOT.glob("*.*"):
        if path.is_file():
            shutil.copy(path, source)
    shutil.copy(ROOT / "LICENSE", source)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    options = ["--no-deps", "--no-build-isolation", f"--wheel-dir={folder}"]
    subprocess.run([*pip, "wheel", *options, str(source)], check=True)
    (wheel,) = folder.glob("bert_tf-*.whl")
    environment = folder / "environment"
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", environment], check=True
    )
    (packages,) = environment.glob("lib/python*/site-packages")
    dependencies = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "dependencies.pth").write_text("\n".join(dependencies))
    subprocess.run(
        [*pip, "install", "--no-deps", f"--target={packages}", str(wheel)], check=True
    )
    return environment / "bin/python", packages
