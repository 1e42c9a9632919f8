"""The reports of interrupted runs are those of a whole run, except for the rates."""

import json
import os
import signal
import subprocess
import sys
import time

import event_files
import linear_runs as runs
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from valid_checkpoints import latest_valid_step

from bert_tf.errors import TrainingInterrupted
from bert_tf.training.callbacks import HeldOutData
from bert_tf.training.trainer import TrainingData
from bert_tf.training.training_config import RuntimeConfig

pytestmark = pytest.mark.medium
STEPS, LOG_STEPS, SAVE_STEPS, EVAL_STEPS, STOP_AT = 50, 10, 25, 11, 33
# This program imports TensorFlow once. For each line on stdin, the arguments of
# `train`, it forks a process that trains, and prints the exit code of the process.
DRIVER = """
import json, os, sys
sys.path[:0] = sys.argv[1:3]
import test_reports as t

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        folder, stop_signal, runtime = json.loads(line)
        t.train(folder, stop_signal, **runtime)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def train(folder, stop_signal=None, **runtime):
    """Trains.

    With `stop_signal`, the process gets this signal in the evaluation at `STOP_AT`.
    """
    runtime = RuntimeConfig(
        log_steps=LOG_STEPS,
        save_checkpoints_steps=SAVE_STEPS,
        stop_on_signals=True,
        eval_steps=EVAL_STEPS,
        **runtime,
    )
    evaluations = 0

    def held_out():
        nonlocal evaluations
        evaluations += 1
        if stop_signal and evaluations * EVAL_STEPS == STOP_AT:
            # Checkpoints are written in the background.
            deadline = time.monotonic() + 60
            while latest_valid_step(folder) != SAVE_STEPS:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            os.kill(os.getpid(), stop_signal)
        return runs.data().take(1)

    trainer = runs.make_trainer(folder, runtime=runtime, num_train_steps=STEPS)
    try:
        trainer.train(
            TrainingData(runs.data()),
            HeldOutData({"eval": held_out}),
            {"examples_per_sec": 8},
        )
    except TrainingInterrupted as stopped:
        assert stopped.step == STOP_AT


@pytest.fixture(scope="module")
def start():
    """Returns a function that trains in a new process, and returns the exit code."""
    here = os.path.dirname(__file__)
    command = [sys.executable, "-c", DRIVER, os.path.dirname(here), here]
    driver = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )

    def run(folder, stop_signal=None, **runtime):
        driver.stdin.write(json.dumps([str(folder), stop_signal, runtime]) + "\n")
        driver.stdin.flush()
        return int(driver.stdout.readline())

    yield run
    driver.kill()
    driver.wait()


@pytest.fixture(scope="module")
def folders(tmp_path_factory, start):
    """Returns the folders of three runs, of which two are interrupted and resumed.

    SIGTERM leaves a checkpoint of step 33; SIGKILL leaves a checkpoint of step 25, and
    a log entry of step 30. The uninterrupted run has one step in each call of the
    graph.
    """
    names = ("whole", "terminated", "killed")
    folders = {name: tmp_path_factory.mktemp(name) for name in names}
    assert start(folders["whole"], iterations_per_loop=1) == 0
    assert start(folders["terminated"], signal.SIGTERM) == 0
    assert start(folders["killed"], signal.SIGKILL) == -signal.SIGKILL
    steps = [latest_valid_step(folders[name]) for name in names[1:]]
    assert steps == [STOP_AT, SAVE_STEPS]
    logged = runs.log_entries(folders["killed"], "train")
    assert [entry["step"] for entry in logged] == [10, 20, 30]
    assert [start(folders[name]) for name in names[1:]] == [0, 0]
    return folders


@pytest.mark.parametrize("name", ["terminated", "killed"])
def test_the_log_entries_are_those_of_an_uninterrupted_run(folders, name):
    for kind, steps in (
        ("train", [10, 20, 30, 40, 50]),
        ("eval", [11, 22, 33, 44, 50]),
    ):
        expected = runs.entries_without_rates(folders["whole"], kind)
        assert [entry["step"] for entry in expected] == steps
        assert runs.entries_without_rates(folders[name], kind) == expected  # every bit
    for entry in runs.log_entries(folders[name], "train"):
        assert 0 < entry["examples_per_sec_wall_clock"] < entry["examples_per_sec"]


@pytest.mark.parametrize("name", ["terminated", "killed"])
def test_the_curves_of_tensorboard_have_each_step_once(folders, name):
    folder, expected = folders[name] / "train", [10, 20, 30, 40, 50]
    steps = event_files.steps_by_tag(folder)
    assert steps.pop("_hparams_/session_start_info") == [0]
    assert set(steps) > {"loss", "learning_rate", "gradient_norm"}
    assert all(each == expected for each in steps.values()), steps
    for purge in (True, False):
        shown = EventAccumulator(str(folder), purge_orphaned_data=purge).Reload()
        assert sorted(event.step for event in shown.Tensors("loss")) == expected
    for kind in ("train", "eval"):
        assert curve(folders[name] / kind) == curve(folders["whole"] / kind)


def curve(folder):
    """Returns the steps and values of the loss in TensorBoard."""
    events = EventAccumulator(str(folder), purge_orphaned_data=False).Reload()
    return {
        event.step: event.tensor_proto.SerializeToString()
        for event in events.Tensors("loss")
    }
