"""Training with a time budget: the schedule follows the clock, also after a stop."""

import json

import layout_runs
import linear_runs as runs
import numpy as np
import pytest
from reference import optimization as reference
from refusals import refused

from bert_tf.training.lifecycle.run_folder import RunFolder
from bert_tf.training.training_config import RuntimeConfig

# Far above the expected value, because a machine can stand still for a minute.
MAX_OVERSHOOT_SECS = 600.0


def saved_state(folder):
    """Returns the path and the content of the state in the newest checkpoint."""
    path = f"{RunFolder(str(folder)).latest_checkpoint()}/state.json"
    with open(path) as file:
        return path, json.load(file)


def change_state(folder, **changes):
    path, state = saved_state(folder)
    del state["facts_sha256"]
    with open(path, "w") as file:
        json.dump({**state, **changes}, file)


def make_trainer(folder, time_budget_secs, **runtime):
    runtime = RuntimeConfig(
        **{"log_steps": 50, "save_checkpoints_steps": 1000, **runtime}
    )
    return runs.make_trainer(folder, runtime=runtime, time_budget_secs=time_budget_secs)


def assert_ended_at_0(folder, budget):
    """Checks the end of a run, and each logged learning rate."""
    entries = runs.log_entries(folder, "train")
    assert entries[-1]["learning_rate"] == 0
    used = [entry["time_budget_used"] for entry in entries]
    assert used[-1] == 1 and used.count(1) == 1  # no later entry
    state = saved_state(folder)[1]
    assert state["time_is_up"]
    assert budget <= state["elapsed_secs"] < budget + MAX_OVERSHOOT_SECS
    for entry in entries:
        expected = reference.learning_rate(20 * entry["time_budget_used"], 0.1, 20, 2)
        np.testing.assert_allclose(
            entry["learning_rate"], expected, rtol=1e-4, atol=1e-7
        )
    return entries


@pytest.mark.medium
def test_training_ends_in_time_with_the_learning_rate_0(tmp_path):
    steps = runs.train(make_trainer(tmp_path, 6.0))  # also if tracing takes seconds
    assert steps > 20  # num_train_steps does not end training
    entries = assert_ended_at_0(tmp_path, 6.0)
    assert entries[-1]["step"] == saved_state(tmp_path)[1]["step"] == steps
    used = [entry["time_budget_used"] for entry in entries]
    assert used == sorted(used)


def test_a_time_budget_is_not_deterministic(tmp_path):
    with refused("time_budget_secs contradicts deterministic=True"):
        make_trainer(tmp_path, 1.0, deterministic=True)


def test_debug_nans_keeps_to_the_time_budget(tmp_path):
    runs.train(make_trainer(tmp_path, 1.0, debug_nans=True))
    assert_ended_at_0(tmp_path, 1.0)


def test_the_seconds_continue_from_the_checkpoint(tmp_path):
    assert runs.train(make_trainer(tmp_path, 10000.0, stop_at_step=5)) == 5
    state = saved_state(tmp_path)[1]
    assert 0 < state["elapsed_secs"] < 1000 and not state["time_is_up"]
    change_state(tmp_path, elapsed_secs=9999.0)
    assert runs.train(make_trainer(tmp_path, 10000.0)) > 5
    entries = assert_ended_at_0(tmp_path, 10000.0)
    assert all(
        entry["time_budget_used"] >= 0.9999 for entry in entries if entry["step"] > 5
    )


def test_one_step_with_the_learning_rate_0_follows_a_long_evaluation(tmp_path):
    runs.train(make_trainer(tmp_path, 1000.0, stop_at_step=5))
    change_state(tmp_path, elapsed_secs=1005.0)
    assert runs.train(make_trainer(tmp_path, 1000.0)) == 6
    assert_ended_at_0(tmp_path, 1000.0)
    assert runs.train(make_trainer(tmp_path, 1000.0)) == 6  # the run is complete


@pytest.mark.slow
@pytest.mark.parametrize(
    "layout",
    [
        {"kind": "mirrored", "devices": 2},
        {"kind": "multi_worker_mirrored", "workers": 2},
    ],
    ids=["devices", "workers"],
)
def test_all_replicas_end_after_the_same_step(tmp_path, layout):
    budget = 20.0  # includes the time to build the graph
    spec = {**layout, "folder": tmp_path, "training": {"time_budget_secs": budget}}
    workers = layout.get("workers", 1)
    assert layout_runs.start([spec]) == [[0] * workers]
    entries = runs.log_entries(tmp_path)
    assert len(entries) > 1
    assert (entries[-1]["learning_rate"], entries[-1]["time_budget_used"]) == (0, 1)
    assert [entry["step"] for entry in entries] == list(range(1, len(entries) + 1))
    for worker in range(1, workers):
        runs.assert_same(
            layout_runs.weights(tmp_path, worker), layout_runs.weights(tmp_path)
        )
