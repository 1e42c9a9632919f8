"""Runs that are killed, or whose disk becomes full, at each stage of writing files."""

import errno
import io
import itertools
import os
import shutil

import linear_runs as runs
import pytest
import tensorflow as tf
from refusals import refused
from valid_checkpoints import latest_valid_step

from bert_tf.storage import files
from bert_tf.training.callbacks import HeldOutData
from bert_tf.training.lifecycle import checkpoint
from bert_tf.training.lifecycle.run_folder import RunFolder
from bert_tf.training.training_config import RuntimeConfig


class FileChangeHook:
    """Calls `before` before every change of a file and in the middle of each write.

    All changes by TensorFlow's checkpoint writer count as one change.
    """

    def __init__(self, monkeypatch, before):
        is_active = False  # `before` itself may change files

        def call_before(kind):
            nonlocal is_active
            if not is_active:
                is_active = True
                try:
                    before(kind)
                finally:
                    is_active = False

        class File(io.FileIO):
            def write(self, content):
                call_before("create")
                super().write(content[: len(content) // 2])
                call_before("write")
                super().write(content[len(content) // 2 :])

        def with_hook(function, kind):
            def call(*args, **kwargs):
                call_before(kind)
                return function(*args, **kwargs)

            return call

        monkeypatch.setattr(files, "open_binary", File)
        for name in ("rename", "replace", "remove", "makedirs"):
            monkeypatch.setattr(os, name, with_hook(getattr(os, name), name))
        for module in (shutil, tf.io.gfile):
            monkeypatch.setattr(module, "rmtree", with_hook(module.rmtree, "rmtree"))
        write = tf.train.Checkpoint.write
        monkeypatch.setattr(tf.train.Checkpoint, "write", with_hook(write, "write"))


class SynchronousExecutor:
    """An executor that runs each call before `submit` returns."""

    def __init__(self, *_):
        pass

    def submit(self, call):
        future = checkpoint.concurrent.futures.Future()
        future.set_result(call())
        return future

    def shutdown(self):
        pass


def run(folder):
    """Trains 6 steps, evaluating and saving every 2 steps; returns the best weights."""
    runtime = RuntimeConfig(
        save_checkpoints_steps=2,
        eval_steps=2,
        keep_checkpoints=1,
        early_stopping_evals=9,
    )
    trainer = runs.make_trainer(folder, runtime=runtime, num_train_steps=6)
    runs.train(trainer, held_out=HeldOutData({"eval": lambda: runs.data().take(2)}))
    return runs.weights(trainer)


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """Returns the weights of a run, and copies of its folder before each change."""
    folder = tmp_path_factory.mktemp("run")
    copies = []

    def copy(kind):
        copies.append(tmp_path_factory.mktemp("killed"))
        shutil.copytree(folder, copies[-1], dirs_exist_ok=True)

    with pytest.MonkeyPatch.context() as monkeypatch:
        # If a background thread saved checkpoints, files would change during a copy of
        # the folder.
        monkeypatch.setattr(
            checkpoint.concurrent.futures,
            "ThreadPoolExecutor",
            SynchronousExecutor,
        )
        FileChangeHook(monkeypatch, copy)
        expected = run(folder)
    return expected, copies


def test_a_kill_at_any_stage_keeps_the_last_complete_checkpoint(killed):
    steps = [latest_valid_step(folder) for folder in killed[1]]
    assert [step for step, _ in itertools.groupby(steps)] == [None, 2, 4, 6]
    for folder, step in zip(killed[1], steps, strict=True):
        latest = RunFolder(str(folder)).latest_checkpoint()
        assert latest == (step and f"{folder}/checkpoints/step-{step:08d}")


@pytest.mark.slow
def test_a_run_killed_at_any_stage_resumes_to_the_same_weights(killed, caplog):
    caplog.set_level("INFO", "bert_tf")
    expected, folders = killed
    steps = [latest_valid_step(folder) for folder in folders]
    # Resume from the first 9 copies and from the copies between the saves of steps 2
    # and 4.
    chosen = [*range(9), *range(steps.index(2), steps.index(4) + 3)]
    for folder, step in [(folders[at], steps[at]) for at in chosen]:
        caplog.clear()
        found = run(folder)
        assert (f"Continuing from step {step} " in caplog.text) == bool(step)
        runs.assert_same(found, expected)
        assert not [*folder.rglob("*.tmp"), *folder.rglob("*.old")]


@pytest.mark.parametrize("change", [1, 4, 15, 33, 45])
def test_a_full_disk_stops_the_run_with_one_line(tmp_path, change):
    count = 0

    def refuse(kind):
        nonlocal count
        count += 1
        if count >= change and kind in ("create", "write", "makedirs"):
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.MonkeyPatch.context() as monkeypatch:
        FileChangeHook(monkeypatch, refuse)
        reason = r"cannot be (written|created): No space left on device"
        with refused(reason):
            run(tmp_path)
    step = latest_valid_step(tmp_path)
    latest = RunFolder(str(tmp_path)).latest_checkpoint()
    assert latest == (step and f"{tmp_path}/checkpoints/step-{step:08d}")
