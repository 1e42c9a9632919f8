"""`setup.sh`: the output of pip goes to a log file, which is named after a failure."""

import itertools
import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parent.parent.parent
# A Python interpreter that creates virtual environments with a copy of itself. Its pip
# writes a warning to each stream, and fails if the file "no_network" exists.
FAKE_PYTHON = """#!/usr/bin/env bash
case "$*" in
    "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
    "-m pip install"*)
        echo "Collecting $*"
        echo "WARNING: setup.py install is deprecated" >&2
        if [ -f "$(dirname "$0")/../../no_network" ]; then
            echo "ERROR: No matching distribution found for tensorflow" >&2
            exit 1
        fi ;;
esac
"""


@pytest.fixture
def clone(tmp_path):
    """A folder with the files that `setup.sh` reads, and a fake Python interpreter."""
    (tmp_path / "tools").mkdir()
    for name in ("tools/setup.sh", "setup.py", "requirements.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    python = tmp_path / "python"
    python.write_text(FAKE_PYTHON)
    python.chmod(0o755)
    return tmp_path


def set_up(clone, lock=""):
    command = f"set -euo pipefail; source {clone}/tools/setup.sh; "
    command += "set_up ''; echo $PYTHON"
    settings = {"BERT_TF_PYTHON": f"{clone}/python", "BERT_TF_LOCK": lock}
    options = {"capture_output": True, "text": True, "env": {**os.environ, **settings}}
    return subprocess.run(["bash", "-c", command], **options)


def test_installation_shows_one_line_and_logs_the_rest(clone):
    result = set_up(clone)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == f"{clone}/.venv/bin/python"
    (line,) = result.stderr.splitlines()
    assert line.startswith("Setting up ") and f"{clone}/.venv/install.log" in line
    log = (clone / ".venv/install.log").read_text()
    assert log.count("WARNING: setup.py install is deprecated") == 2
    assert f"pip install -e {clone}" in log

    again = set_up(clone)
    assert (again.returncode, again.stderr) == (0, "")


def test_failed_installation_names_the_log_and_is_repeated(clone):
    (clone / "no_network").touch()
    result = set_up(clone)
    assert result.returncode == 1
    lines = result.stderr.splitlines()
    assert "ERROR: No matching distribution found for tensorflow" in lines
    assert lines[-1].startswith("error: ") and f"{clone}/.venv/install.log" in lines[-1]

    (clone / "no_network").unlink()
    assert set_up(clone).returncode == 0


def test_a_lock_replaces_the_requirements(clone):
    lock = clone / "requirements.lock"
    lock.write_text("name==1 --hash=sha256:0\n")
    assert set_up(clone, lock.name).returncode == 0
    installed = [
        line for line in (clone / ".venv/install.log").read_text().splitlines()
        if line.startswith("$") and " install " in line and "--upgrade pip" not in line
    ]  # fmt: skip
    assert [line.split(" install ")[1] for line in installed] == [
        f"--require-hashes -r {lock}", f"--no-deps --no-build-isolation -e {clone}"
    ]  # fmt: skip
    assert set_up(clone, lock.name).stderr == ""
    lock.write_text("name==2 --hash=sha256:1\n")
    assert set_up(clone, lock.name).stderr.startswith("Setting up ")


def test_the_lock_has_a_hash_for_each_package_of_the_requirements():
    lines = (ROOT / "requirements.lock").read_text("utf-8").splitlines()
    packages = set()
    for line, following in itertools.pairwise(lines):
        if "==" in line:
            assert line.endswith(" \\") and "--hash=sha256:" in following
            packages.add(line.split("==")[0])
    requirements = (ROOT / "requirements.txt").read_text("utf-8")
    required = re.findall(r"^[\w-]+", requirements, re.M)
    assert {name.replace("_", "-").lower() for name in required} <= packages
