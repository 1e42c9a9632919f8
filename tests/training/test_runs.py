"""Runs: batches cut in any way give the same, continued runs end as undisturbed ones."""

import json
import os
import signal
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.errors import InputError
from bert_tf.training import state
from bert_tf.training.config import RuntimeConfig, TrainingConfig
from bert_tf.training.loop import Trainer
from bert_tf.training.state import ModelDescription

CONFIG = {"vocab_size": 5, "hidden_size": 4, "num_attention_heads": 2}


class Regression:
    """A linear model with noise from the seed, and weighted examples."""

    def __init__(self):
        self.layer = keras.layers.Dense(1)
        self.layer.build([None, 3])
        self.variables = {"kernel": self.layer.kernel, "bias": self.layer.bias}

    def counts(self, batch):
        return {"weight": tf.reduce_sum(batch["w"])}

    def sums(self, batch, training, seed=None):
        error = self.layer(batch["x"])[:, 0] - batch["y"]
        if training:
            error += NOISE * tf.random.stateless_normal([], seed)
        return {"loss": tf.reduce_sum(batch["w"] * error**2)}

    def loss(self, sums, counts):
        return sums["loss"] / counts["weight"]

    def metrics(self, sums, counts):
        return {"loss": sums["loss"] / counts["weight"]}


NOISE = 0.1


def data(batch_size=8):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 3)).astype(np.float32)
    columns = {"x": x, "y": x.sum(axis=1), "w": rng.uniform(size=50).astype(np.float32)}
    dataset = tf.data.Dataset.from_tensor_slices(columns)
    return dataset.shuffle(50, seed=3, reshuffle_each_iteration=True).repeat().batch(batch_size)


def training_config(**changes):
    fields = {"seed": 7, "global_batch_size": 8, "num_train_steps": 20, "num_warmup_steps": 2}
    return TrainingConfig(**{**fields, "learning_rate": 0.1, **changes})


def run(folder, stop_at=None, overwrite=False, **changes):
    """Trains; with `stop_at`, the process is asked to stop when it has done that many steps."""
    config = training_config(**changes)
    model = ModelDescription(CONFIG)
    runtime = RuntimeConfig(save_checkpoints_steps=7, log_steps=1, eval_steps=stop_at or 0)
    trainer = Trainer(Regression, model, config, runtime, str(folder), overwrite=overwrite)

    def held_out():
        os.kill(os.getpid(), signal.SIGTERM)
        return data().take(1)

    trainer.train(data(), {"eval": held_out} if stop_at else None)
    return {name: variable.numpy() for name, variable in trainer.objective.variables.items()}


@pytest.mark.parametrize("stop_at", [1, 7, 10])
def test_a_stopped_run_ends_as_an_undisturbed_one(tmp_path, stop_at):
    expected = run(tmp_path / "whole")
    with pytest.raises(SystemExit) as stopped:
        run(tmp_path / "parts", stop_at=stop_at)
    assert stopped.value.code == 128 + signal.SIGTERM
    assert state.latest(str(tmp_path / "parts")).endswith(f"step-{stop_at:08d}")
    found = run(tmp_path / "parts")
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)


def test_a_damaged_checkpoint_is_passed_over(tmp_path, capsys):
    expected = run(tmp_path)
    newest = state.latest(str(tmp_path))
    with open(f"{newest}/optimizer.safetensors", "r+b") as file:
        file.truncate(20)
    found = run(tmp_path)
    assert "optimizer.safetensors is damaged" in capsys.readouterr().err
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)


def test_another_config_is_refused_with_both_values(tmp_path):
    run(tmp_path)
    with pytest.raises(InputError, match=r"learning_rate=0.1, but this one has learning_rate=0.2"):
        run(tmp_path, learning_rate=0.2)
    run(tmp_path, learning_rate=0.2, overwrite=True)
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == list(range(1, 21))


def test_only_the_newest_checkpoints_stay(tmp_path):
    run(tmp_path)
    assert sorted(os.listdir(tmp_path / "checkpoints")) == ["step-00000014", "step-00000020"]


def test_a_step_without_finite_gradient_changes_nothing(tmp_path, capsys):
    def poisoned():
        return data().map(lambda batch: {**batch, "y": batch["y"] / 0.0})

    config = training_config(num_train_steps=3)
    trainer = Trainer(Regression, ModelDescription(CONFIG), config, RuntimeConfig(), str(tmp_path))
    before = trainer.objective.variables["kernel"].numpy()
    trainer.train(poisoned())
    np.testing.assert_array_equal(trainer.objective.variables["kernel"].numpy(), before)
    last = json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["skipped_steps"] == 3


REPLICAS = """
import sys, numpy as np, tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
sys.path[:0] = sys.argv[1:2]
import test_runs as t
t.NOISE = 0.0
from bert_tf.training.config import RuntimeConfig
from bert_tf.training.loop import Trainer
model, found = t.ModelDescription(t.CONFIG), []
for kind in ("one_device", "mirrored"):
    runtime = RuntimeConfig(distribution_strategy=kind)
    trainer = Trainer(t.Regression, model, t.training_config(), runtime, f"{sys.argv[2]}/{kind}")
    trainer.train(t.data())
    found.append(trainer.objective.variables["kernel"].numpy())
np.testing.assert_allclose(found[0], found[1], rtol=1e-5)
"""


def test_two_replicas_give_what_one_gives(tmp_path):
    here = os.path.dirname(__file__)
    subprocess.run([sys.executable, "-c", REPLICAS, here, str(tmp_path)], check=True)
