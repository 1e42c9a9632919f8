"""Interrupts and resumes the smoke version of the quickstart."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest
from json_files import read_json

ROOT = pathlib.Path(__file__).parent.parent.parent
STAGES = [
    "sample data",
    "vocabulary",
    "records",
    "pretraining",
    "fine-tuning",
    "export",
    "answers",
]


def start(folder, log):
    command = [
        sys.executable,
        ROOT / "run_scripts/quickstart.py",
        "--smoke",
        f"--output_dir={folder}",
    ]
    return subprocess.Popen(
        command,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        cwd=folder,
    )


def finish(folder):
    with open(folder / "log", "w+") as log:
        assert start(folder, log).wait(timeout=600) == 0, pathlib.Path(
            log.name
        ).read_text()[-3000:]
        log.seek(0)
        return log.read()


@pytest.mark.slow
def test_quickstart_resumes_after_an_interrupt_and_skips_complete_stages(tmp_path):
    saved = tmp_path / "smoke/pretrained/checkpoints"
    with open(tmp_path / "first_log", "w") as log:
        process, deadline = start(tmp_path, log), time.monotonic() + 600
        while not (saved.exists() and list(saved.glob("step-*"))):
            assert process.poll() is None, (tmp_path / "first_log").read_text()[-3000:]
            if time.monotonic() > deadline:
                os.killpg(process.pid, signal.SIGKILL)
            time.sleep(0.2)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(timeout=60) == 130
    assert not (tmp_path / "smoke/classifier").exists()

    text = finish(tmp_path)
    assert [
        name for name in STAGES if f"== {name}: already complete" in text
    ] == STAGES[:3]
    first = (tmp_path / "first_log").read_text()
    assert not re.search(r"^[IWEF]\d{4} |^WARNING: ", first + text, re.M)
    assert re.search(r"Continuing from step \d+", text)
    for name in STAGES:
        assert re.search(rf"^{name} +\d+ s", text, re.M), name
    answers = read_json(tmp_path / "smoke/answers.json")
    labels = [line.split("\t")[1] for line in lines_of_test_split(tmp_path)]
    assert answers["texts"] == len(labels)
    majority = max(labels.count(label) for label in labels) / len(labels)
    assert answers["accuracy"] > majority + 0.1
    assert "tensorboard --logdir" in text

    again = finish(tmp_path)
    assert [
        name for name in STAGES if f"== {name}: already complete" in again
    ] == STAGES
    assert again.split("stage ")[1] == text.split("stage ")[1]


def lines_of_test_split(folder):
    text = (folder / "smoke/sample/classification/test.tsv").read_text()
    return [line for line in text.split("\n")[1:] if line]
