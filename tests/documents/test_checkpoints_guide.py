"""The Python code of docs/checkpoints.md runs as it is written there."""

import pathlib
import shutil

import numpy as np
import pytest
from guide_program import program

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs/checkpoints.md"


@pytest.mark.medium
def test_the_calls_for_users_of_tensorflow_hub_run(test_data, tmp_path, monkeypatch):
    """The model has random weights, and at most 32 tokens instead of 512."""
    monkeypatch.chdir(tmp_path)
    encoder = test_data / "golden/foreign_checkpoints/tfhub/encoder"
    shutil.copytree(encoder, "bert_en_uncased")
    code = program(DOCUMENT, "For users of TensorFlow Hub")
    names = {}
    exec(compile(code.replace("=128", "=32"), "checkpoints.md", "exec"), names)
    logits = names["model"].predict(names["train_ds"])
    expected = 1 / (1 + np.exp(-logits))
    np.testing.assert_allclose(names["probabilities"], expected, atol=1e-6)
