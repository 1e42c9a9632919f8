"""Resumed runs give the weights of uninterrupted runs; damaged files are reported."""

import dataclasses
import os
import signal
import subprocess
import sys

import keras
import linear_runs as runs
import numpy as np
import pytest
import tensorflow as tf
from json_files import read_json, write_json
from refusals import refused

from bert_tf.errors import TrainingInterrupted
from bert_tf.training.lifecycle.run_folder import CheckpointMetadata, RunFolder
from bert_tf.training.trainer import Trainer
from bert_tf.training.training_config import RuntimeConfig, TrainingConfig


@pytest.mark.parametrize(
    ("stop_at", "place"), [(1, ""), (7, ""), (10, ""), (10, "ram://")]
)
def test_a_resumed_run_gives_the_same_weights(tmp_path, stop_at, place):
    expected = runs.uninterrupted()
    parts = f"{place}{tmp_path}/lr=[1e-5]"  # TensorFlow would read this path as a glob
    with pytest.raises(TrainingInterrupted) as stopped:
        runs.run(parts, stop_at=stop_at)
    assert (stopped.value.signal_number, stopped.value.step) == (
        signal.SIGTERM,
        stop_at,
    )
    assert str(stopped.value) == (
        f"SIGTERM stopped training at step {stop_at}. To resume, train again with the "
        "same arguments."
    )
    assert RunFolder(parts).latest_checkpoint().endswith(f"step-{stop_at:08d}")
    resumed = runs.run(parts)
    runs.assert_same(resumed, expected)


def test_a_run_stops_before_the_end_of_its_schedule_and_resumes(tmp_path):
    expected = runs.uninterrupted()
    for stop_at in (6, 11, 0):
        runtime = RuntimeConfig(stop_at_step=stop_at)
        trainer = runs.make_trainer(tmp_path / "parts", runtime=runtime)
        assert runs.train(trainer) == trainer.load_result() == (stop_at or 20)
    runs.assert_same(trainer, expected)


def test_a_damaged_checkpoint_is_ignored_with_a_warning(tmp_path, caplog):
    expected = runs.run(tmp_path)
    newest = RunFolder(str(tmp_path)).latest_checkpoint()
    with open(f"{newest}/optimizer.safetensors", "r+b") as file:
        file.truncate(20)
    assert runs.make_trainer(tmp_path).load_result() == 14
    assert (
        caplog.text.count("optimizer.safetensors is damaged") == 1
    )  # it is checked once
    resumed = runs.run(tmp_path)
    runs.assert_same(resumed, expected)


def test_damaged_checkpoints_are_removed_before_valid_ones(tmp_path):
    runs.run(tmp_path)
    for folder in RunFolder(str(tmp_path)).checkpoints():
        with open(f"{folder}/model.safetensors", "r+b") as file:
            file.truncate(20)
    with pytest.raises(TrainingInterrupted):
        runs.run(tmp_path, stop_at=10)
    names = [folder[-8:] for folder in RunFolder(str(tmp_path)).checkpoints()]
    assert names == ["00000007", "00000010"]
    assert RunFolder(str(tmp_path)).latest_checkpoint().endswith("step-00000010")


def test_a_different_setting_is_refused_with_both_values(tmp_path):
    runs.run(tmp_path)
    with refused(r"learning_rate=0.1, but this run has learning_rate=0.2"):
        runs.run(tmp_path, learning_rate=0.2)
    runs.run(tmp_path, learning_rate=0.2, overwrite=True)
    steps = [entry["step"] for entry in runs.log_entries(tmp_path)]
    assert steps == list(range(1, 21))


def test_a_run_of_an_older_version_is_resumed(tmp_path):
    """Older versions lack the newer settings, and used their present defaults."""
    expected = runs.uninterrupted()
    with pytest.raises(TrainingInterrupted):
        runs.run(tmp_path / "parts", stop_at=7)
    path = tmp_path / "parts/training_config.json"
    settings = read_json(path)
    for name in ("adam_beta_1", "adam_beta_2", "time_budget_secs"):
        del settings[name]
    write_json(path, settings)
    state_path = tmp_path / "parts/checkpoints/step-00000007/state.json"
    state = read_json(state_path)
    for name in ("elapsed_secs", "time_is_up", "unlogged", "facts_sha256"):
        del state[name]
    write_json(state_path, state)
    for name, value, default in (
        ("adam_beta_2", 0.98, 0.999),
        ("time_budget_secs", 60.0, 0.0),
    ):
        with refused(rf"{name}={default}, but this run has {name}={value}"):
            runs.run(tmp_path / "parts", **{name: value})
    resumed = runs.run(tmp_path / "parts")
    runs.assert_same(resumed, expected)


def test_only_the_newest_checkpoints_are_kept(tmp_path):
    runs.run(tmp_path)
    assert sorted(os.listdir(tmp_path / "checkpoints")) == [
        "step-00000014",
        "step-00000020",
    ]


def test_a_checkpoint_of_another_model_is_refused(tmp_path):
    runs.run(tmp_path)
    metadata = CheckpointMetadata(runs.CONFIG)
    for other, message in (
        (CheckpointMetadata({**runs.CONFIG, "inputs": 8}), "inputs=3, but inputs=8"),
        (
            dataclasses.replace(metadata, facts={"labels": ["b"]}),
            r"labels=None, but labels=\['b'\]",
        ),
    ):
        folder = RunFolder(str(tmp_path), other)
        trainer = Trainer(
            runs.Regression, folder, runs.training_config(), RuntimeConfig()
        )
        with refused(message):
            trainer.load_result()
    assert runs.make_trainer(tmp_path).load_result() == 20


def test_a_damaged_record_is_reported_with_the_step(tmp_path):
    path = str(tmp_path / "records")
    with tf.io.TFRecordWriter(path) as writer:
        for _ in range(100):
            writer.write(np.ones(3, np.float32).tobytes())
    with open(path, "r+b") as file:
        file.seek(2010)
        file.write(b"damage")

    def parse(record):
        x = tf.io.decode_raw(record, tf.float32)
        return {"x": tf.reshape(x, [-1, 3]), "y": x[:, 0], "w": x[:, 0]}

    dataset = tf.data.TFRecordDataset(path).repeat().batch(8).map(parse)
    trainer = runs.make_trainer(tmp_path / "run", runtime=RuntimeConfig())
    with refused(
        r"After step 2: .*: corrupted record at 2000\. There is no checkpoint"
    ):
        runs.train(trainer, dataset)


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        (TrainingConfig, "global_batch_size", 0),
        (TrainingConfig, "learning_rate", float("nan")),
        (TrainingConfig, "num_warmup_steps", 21),
        (TrainingConfig, "adam_beta_2", 1.0),
        (TrainingConfig, "schedule", None),
        (RuntimeConfig, "log_steps", 0),
        (RuntimeConfig, "profile_steps", (5, 5)),
    ],
)
def test_values_out_of_range_are_refused(kind, field, value):
    make = runs.training_config if kind is TrainingConfig else RuntimeConfig
    with refused(f"{field} must be"):
        make(**{field: value})


TWO_REPLICAS = """
import json, sys, numpy as np, tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
devices = [tf.config.LogicalDeviceConfiguration()] * 2
tf.config.set_logical_device_configuration(cpu, devices)
sys.path.insert(0, sys.argv[1])
import linear_runs as t
from bert_tf.training.training_config import RuntimeConfig

def train(objective, kind, name=""):
    runtime = RuntimeConfig(distribution_strategy=kind, log_steps=1)
    folder = f"{sys.argv[2]}/{kind}{name}"
    trainer = t.make_trainer(folder, objective, runtime)
    t.train(trainer)
    lines = [json.loads(line) for line in open(f"{folder}/metrics.jsonl")]
    return trainer.objective.variables["kernel"].numpy(), lines

# The same result as on one device.
t.NOISE = 0.0
(one, one_lines), (two, two_lines) = (
    train(t.Regression, kind) for kind in ("one_device", "mirrored")
)
np.testing.assert_allclose(one, two, rtol=1e-5)
for a, b in zip(one_lines, two_lines, strict=True):
    np.testing.assert_allclose(a["loss"], b["loss"], rtol=1e-4)
    np.testing.assert_allclose(a["gradient_norm"], b["gradient_norm"], rtol=1e-4)

# Different seeds.
class Noise(t.Regression):
    def sums(self, batch, training, seed=None):
        drawn = tf.random.stateless_normal([], seed)
        more = {"sum": drawn, "squares": drawn**2}
        return {**super().sums(batch, training, seed), **more}

    def metrics(self, sums, counts):
        # The squared difference between the random numbers of the two replicas.
        return {"difference": 2 * sums["squares"] - sums["sum"] ** 2}

differences = [line["difference"] for line in train(Noise, "mirrored", "noise")[1]]
assert len(differences) == 20 and min(differences) > 0, differences
assert len(set(differences)) == 20, differences
"""


@pytest.mark.medium
@pytest.mark.skipif(keras.backend.backend() == "jax", reason="MirroredStrategy")
def test_two_replicas_have_the_result_of_one_and_different_seeds(tmp_path):
    here = os.path.dirname(os.path.dirname(__file__))
    command = [sys.executable, "-c", TWO_REPLICAS, here, str(tmp_path)]
    subprocess.run(command, check=True)
