"""A run whose process ends, or whose disk fills, at each stage of writing its files."""

import json
import os
import shutil
import subprocess
import sys

import linear_runs as runs
import numpy as np
import pytest
import tensorflow as tf
from valid_checkpoints import latest_valid_step

from bert_tf.errors import InputError
from bert_tf.training.callbacks.evaluation import HeldOutData
from bert_tf.training.config import RuntimeConfig
from bert_tf.training.lifecycle import checkpoint_writer
from bert_tf.training.lifecycle.run_folder import RunFolder


class Disk:
    """Calls `before` in front of every change that a run makes to its files, and amid each write.

    What TensorFlow's own checkpoint writer does counts as one change.
    """

    def __init__(self, monkeypatch, before):
        gfile, plain = tf.io.gfile, tf.io.gfile.GFile

        class File(plain):
            def write(self, content):
                before("create")
                super().write(content[: len(content) // 2])
                self.flush()
                before("write")
                super().write(content[len(content) // 2 :])

        def hooked(function, kind):
            def call(*args, **kwargs):
                before(kind)
                return function(*args, **kwargs)

            return call

        monkeypatch.setattr(gfile, "GFile", File)
        for name in ("rename", "remove", "rmtree", "makedirs"):
            monkeypatch.setattr(gfile, name, hooked(getattr(gfile, name), name))
        write = tf.train.Checkpoint.write
        monkeypatch.setattr(tf.train.Checkpoint, "write", hooked(write, "write"))


class AtOnce:
    """An executor that does what it is given before it goes on."""

    def __init__(self, *_):
        pass

    def submit(self, call):
        done = checkpoint_writer.concurrent.futures.Future()
        done.set_result(call())
        return done

    def shutdown(self):
        pass


def run(folder):
    """Three checkpoints, of which one stays, each after an evaluation; the best weights."""
    runtime = RuntimeConfig(
        save_checkpoints_steps=2, eval_steps=2, keep_checkpoints=1, early_stopping_evals=9
    )
    trainer = runs.make_trainer(folder, runtime=runtime, num_train_steps=6)
    runs.train(trainer, held_out=HeldOutData({"eval": lambda: runs.data().take(2)}))
    return {name: variable.numpy() for name, variable in trainer.objective.variables.items()}


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The weights of an undisturbed run, and its folder as it was before each change."""
    folder = tmp_path_factory.mktemp("run")
    copies = []

    def copy(kind):
        copies.append(tmp_path_factory.mktemp("killed"))
        shutil.copytree(folder, copies[-1], dirs_exist_ok=True)

    with pytest.MonkeyPatch.context() as monkeypatch:
        # Writing beside training, the folder would change while it is copied.
        monkeypatch.setattr(checkpoint_writer.concurrent.futures, "ThreadPoolExecutor", AtOnce)
        Disk(monkeypatch, copy)
        expected = run(folder)
    return expected, copies


def test_a_kill_at_any_stage_leaves_the_last_whole_checkpoint(killed):
    steps = [latest_valid_step(folder) for folder in killed[1]]
    assert list(dict.fromkeys(steps)) == [None, 2, 4, 6]
    assert [step or 0 for step in steps] == sorted(step or 0 for step in steps)
    for folder, step in zip(killed[1], steps, strict=True):
        found = RunFolder(str(folder)).latest_checkpoint()
        assert found == (step and f"{folder}/checkpoints/step-{step:08d}")


@pytest.mark.slow
def test_a_run_killed_at_any_stage_ends_as_an_undisturbed_one(killed, capsys):
    expected, folders = killed
    steps = [latest_valid_step(folder) for folder in folders]
    # The beginning, and all that happens from one checkpoint to the next.
    chosen = [*range(9), *range(steps.index(2), steps.index(4) + 3)]
    for folder, step in [(folders[at], steps[at]) for at in chosen]:
        found = run(folder)
        said = capsys.readouterr().err
        assert (f"Continuing from step {step} " in said) == bool(step)
        assert_same(found, expected)
        left = [path.name for path in folder.rglob("*") if path.suffix in (".tmp", ".old")]
        assert not left


def assert_same(found, expected):
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)


@pytest.mark.parametrize("change", [1, 4, 15, 33, 45])
def test_a_full_disk_stops_with_one_line(tmp_path, change):
    count = 0

    def refuse(kind):
        nonlocal count
        count += 1
        if count >= change and kind in ("create", "write", "makedirs"):
            raise tf.errors.ResourceExhaustedError(None, None, "x; No space left on device")

    with pytest.MonkeyPatch.context() as monkeypatch:
        Disk(monkeypatch, refuse)
        with pytest.raises(
            InputError, match=r"cannot be (written|created): No space left on device"
        ):
            run(tmp_path)
    step = latest_valid_step(tmp_path)
    found = RunFolder(str(tmp_path)).latest_checkpoint()
    assert found == (step and f"{tmp_path}/checkpoints/step-{step:08d}")


# In a mount namespace of its own, where anybody may mount a small disk.
FULL_DISK = """
import json, os, pathlib, subprocess, sys
sys.path[:0] = sys.argv[1:3]
import test_interrupted_saves as t
from bert_tf.errors import InputError

disk, undisturbed = sys.argv[3:]
expected = t.run(undisturbed)
for pages in range(2, 200, 2):
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={4 * pages}k", "tmpfs", disk], check=True)
    said = ""
    try:
        t.run(disk)
    except InputError as error:
        said = str(error)
    step = t.latest_valid_step(disk)
    left = [str(path) for path in pathlib.Path(disk).rglob(".*.tmp*")]
    subprocess.run(["mount", "-o", "remount,size=10m", disk], check=True)
    t.assert_same(t.run(disk), expected)
    subprocess.run(["umount", "--lazy", disk], check=True)
    print("RESULT", json.dumps([said, step, left]), flush=True)
    if not said:
        break
"""


@pytest.mark.slow
def test_a_disk_that_is_really_full(tmp_path):
    unshare = ["unshare", "--map-root-user", "--mount"]
    if subprocess.run(
        [*unshare, "mount", "-t", "tmpfs", "tmpfs", tmp_path], check=False
    ).returncode:
        pytest.skip("needs the right to mount a small disk (unshare --map-root-user --mount)")
    disk, here = tmp_path / "disk", os.path.dirname(__file__)
    disk.mkdir()
    command = [sys.executable, "-c", FULL_DISK, os.path.dirname(here), here]
    done = subprocess.run(
        [*unshare, *command, str(disk), str(tmp_path / "undisturbed")],
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    *refused, (said, step, _) = [json.loads(line.removeprefix("RESULT ")) for line in lines]
    assert len(refused) > 10 and not said and step == 6
    for said, _, left in refused:
        assert said.startswith(str(disk)) and said.endswith(
            "cannot be written: No space left on device."
        )
        assert not left
    steps = [step or 0 for _, step, _ in refused]
    assert steps == sorted(steps) and {0, 2} <= set(steps)
