"""Training runs of a linear model, for fast tests of the training engine."""

import functools
import json
import os
import signal
import tempfile

import keras
import numpy as np
import tensorflow as tf
from golden_checkpoints import assert_same_arrays
from keras import ops

from bert_tf.training.callbacks import HeldOutData
from bert_tf.training.lifecycle.error_messages import RecordLookup
from bert_tf.training.lifecycle.run_folder import CheckpointMetadata, RunFolder
from bert_tf.training.trainer import Trainer, TrainingData
from bert_tf.training.training_config import RuntimeConfig, TrainingConfig

CONFIG = {"inputs": 3, "outputs": 1}


class Seed(keras.random.SeedGenerator):
    """Passes the seed of a step to `keras.random`."""

    def __init__(self, seed):
        self._seed = seed

    def next(self, ordered=True):
        return self._seed


class Regression:
    """Linear regression with example weights.

    Training adds noise, seeded for each step.
    """

    best_by = ("loss", -1)

    def __init__(self, seed, dtype):
        initializer = keras.initializers.GlorotUniform(seed)
        self.layer = keras.layers.Dense(1, kernel_initializer=initializer, dtype=dtype)
        self.layer.build([None, 3])
        self.variables = {"kernel": self.layer.kernel, "bias": self.layer.bias}
        self.depths = {"kernel": 0, "bias": 1}

    def counts(self, batch):
        return {"weight": ops.sum(batch["w"])}

    def sums(self, batch, training, seed=None):
        error = self.layer(batch["x"])[:, 0] - batch["y"]
        if training:
            error += NOISE * keras.random.normal([], seed=Seed(seed))
        return {"loss": ops.sum(batch["w"] * error**2)}

    def loss(self, sums, counts):
        return sums["loss"] / counts["weight"]

    def metrics(self, sums, counts):
        return {}


NOISE = 0.1


def data(batch_size=8):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 3)).astype(np.float32)
    columns = {"x": x, "y": x.sum(axis=1), "w": rng.uniform(size=50).astype(np.float32)}
    dataset = tf.data.Dataset.from_tensor_slices(columns)
    return (
        dataset.shuffle(50, seed=3, reshuffle_each_iteration=True)
        .repeat()
        .batch(batch_size)
    )


def training_config(**changes):
    fields = {
        "seed": 7,
        "global_batch_size": 8,
        "num_train_steps": 20,
        "num_warmup_steps": 2,
    }
    return TrainingConfig(**{**fields, "learning_rate": 0.1, **changes})


def run_folder(path, overwrite=False, config=CONFIG):
    return RunFolder(str(path), CheckpointMetadata(config), overwrite)


def run(folder, stop_at=None, overwrite=False, **changes):
    """Trains and returns the weights.

    If `stop_at` is set, SIGTERM ends the run at that step.
    """
    config = training_config(**changes)
    runtime = RuntimeConfig(
        save_checkpoints_steps=7,
        log_steps=1,
        eval_steps=stop_at or 0,
        stop_on_signals=True,
    )
    trainer = Trainer(Regression, run_folder(folder, overwrite), config, runtime)
    held_out = HeldOutData({"eval": send_sigterm}) if stop_at else None
    trainer.train(TrainingData(data()), held_out)
    return weights(trainer)


@functools.cache
def uninterrupted():
    """Returns the weights of `run` in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        return run(folder)


def weights(trainer):
    """Returns the present weights by name."""
    variables = trainer.objective.variables
    return {name: variable.numpy() for name, variable in variables.items()}


def assert_same(found, expected):
    """Checks that arrays, or the weights of trainers, have the same bits."""
    found, expected = (
        weights(each) if isinstance(each, Trainer) else each
        for each in (found, expected)
    )
    assert_same_arrays(found, expected)


def send_sigterm():
    """Sends a stop signal during an evaluation, and returns a batch for it."""
    os.kill(os.getpid(), signal.SIGTERM)
    return data().take(1)


def make_trainer(folder, objective=Regression, runtime=None, config=CONFIG, **changes):
    """Returns a trainer.

    By default, every step is logged and followed by a checkpoint.
    """
    runtime = runtime or RuntimeConfig(log_steps=1, save_checkpoints_steps=1)
    training = training_config(**changes)
    return Trainer(objective, run_folder(folder, config=config), training, runtime)


def train(trainer, batches=None, describe=lambda origin: "", held_out=None):
    """Trains on `batches`, or on the data of this module if `batches` is None."""
    lookup = RecordLookup(describe=describe)
    return trainer.train(
        TrainingData(data() if batches is None else batches, lookup), held_out
    )


def log_entries(folder, kind=None):
    """Returns the entries of metrics.jsonl, or those of a kind."""
    entries = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [each for each in entries if kind in (None, each["kind"])]


def entries_without_rates(folder, kind="train"):
    """Returns the entries of a kind, without the fields that depend on the clock."""
    return [
        {name: value for name, value in entry.items() if "_per_sec" not in name}
        for entry in log_entries(folder, kind)
    ]
