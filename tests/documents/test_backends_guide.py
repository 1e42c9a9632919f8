"""The commands of docs/backends.md run as they are written there, at a tiny size."""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import pytest

import bert_tf

ROOT = pathlib.Path(__file__).parents[2]
SENTENCES = ["a bad bed.", "a good bed.", "a bad dog.", "a good dog."]
# The parts of the guide that make the computation long.
TINY = {
    '"base", 200, 256': '"tiny", 12, 16',
    "--vocab_size=30522": "--vocab_size=110",
    "--vocab_file=vocab.txt ": "--vocab_file=vocab.txt --max_seq_length=32 ",
    "--do_eval=true": "--do_eval=true --max_seq_length=32 --num_train_epochs=1",
}


def program():
    """Returns the commands of the guide."""
    guide = (ROOT / "docs/backends.md").read_text("utf-8")
    (block,) = re.findall(r"^```bash\n(.*?)^```", guide, re.M | re.S)
    assert len(block.splitlines()) <= 60
    for text, smaller in TINY.items():
        assert text in block
        block = block.replace(text, smaller)
    return block


@pytest.mark.slow
def test_the_commands_lead_from_text_over_eight_devices_to_predictions(tmp_path):
    folder = ROOT / ".venv/backends"  # where run_scripts/test.sh installs JAX
    if importlib.util.find_spec("jax") is None and not folder.exists():
        pytest.skip("needs JAX: pip install -e '.[backends]'")
    (tmp_path / "text").mkdir()
    (tmp_path / "labelled").mkdir()
    text = "\n\n".join("\n".join(SENTENCES[n % 3 :]) for n in range(200))
    (tmp_path / "text/one.txt").write_text(text)
    rows = [f"{text},{'good' in text}" for text in SENTENCES * 16]
    for name in ("train", "dev"):
        table = "\n".join(["text,label", *rows])
        (tmp_path / f"labelled/{name}.csv").write_text(table)
    for name in ("data_prep", "run_scripts"):
        (tmp_path / name).symlink_to(ROOT / name)

    environment = {
        **os.environ,
        "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}",
        "PYTHONPATH": str(folder),
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "NPROC": "32",
    }
    done = subprocess.run(
        ["bash", "-euc", program()],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "12/12" in done.stdout
    assert bert_tf.load(tmp_path / "pretrained").config.hidden_size == 128
    lines = (tmp_path / "predictions.csv").read_text().splitlines()
    assert len(lines) == 1 + len(SENTENCES) * 16
