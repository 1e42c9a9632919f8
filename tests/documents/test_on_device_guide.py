"""The commands and programs of docs/on_device.md run as they are written there."""

import os
import pathlib
import re
import subprocess
import sys

import export_models
import pytest

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.slow
def test_the_commands_lead_from_a_checkpoint_to_predictions(tmp_path):
    pytest.importorskip("ai_edge_litert.interpreter", exc_type=ImportError)
    folder, _ = export_models.write_checkpoint("classification", tmp_path)
    (tmp_path / "classifier").symlink_to(folder)
    (tmp_path / "run_scripts").symlink_to(ROOT / "run_scripts")
    text = (ROOT / "docs/on_device.md").read_text("utf-8")
    (commands,) = re.findall(r"^```bash\n(.*?)^```", text, re.M | re.S)
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    done = run(["bash", "-euc", commands], tmp_path, PATH=path)
    lines = [line.split("\t") for line in done.splitlines()]
    assert [line[2] for line in lines[-2:]] == ["A good film.", "Too long."]
    programs = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    predicted, outputs = (
        run([sys.executable, "-c", each], tmp_path) for each in programs
    )
    assert f"'label': '{lines[-2][0]}'" in predicted
    assert re.search(r"\[\[0\.\d+ +0\.\d+ +0\.\d+\]\]", outputs)


def run(command, folder, **environment):
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
