"""The commands and programs of docs/on_device.md run as they are written there."""

import re
import sys

import export_models
import pytest
from guide_program import code_blocks, run_in


@pytest.mark.slow
def test_the_commands_lead_from_a_checkpoint_to_predictions(tmp_path):
    pytest.importorskip("ai_edge_litert.interpreter", exc_type=ImportError)
    folder, _ = export_models.write_checkpoint("classification", tmp_path)
    (tmp_path / "classifier").symlink_to(folder)
    (commands,) = code_blocks("on_device.md", "bash")
    done = run_in(tmp_path, "bash", "-euc", commands)
    lines = [line.split("\t") for line in done.splitlines()]
    assert [line[2] for line in lines[-2:]] == ["A good film.", "Too long."]
    predicted, outputs = (
        run_in(tmp_path, sys.executable, "-c", each)
        for each in code_blocks("on_device.md", "python")
    )
    assert f"'label': '{lines[-2][0]}'" in predicted
    assert re.search(r"\[\[0\.\d+ +0\.\d+ +0\.\d+\]\]", outputs)
