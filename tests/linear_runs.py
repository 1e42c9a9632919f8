"""Runs of a linear model: quick, with noise from the seed, for tests of the training loop."""

import json
import math
import os
import signal

import keras
import numpy as np
import tensorflow as tf

from bert_tf.training.config import RuntimeConfig, TrainingConfig
from bert_tf.training.loop import Trainer
from bert_tf.training.state import ModelDescription

CONFIG = {"vocab_size": 5, "hidden_size": 4, "num_attention_heads": 2}


class Regression:
    """A linear model with noise from the seed, and weighted examples."""

    best_by = ("loss", -1)

    def __init__(self):
        self.layer = keras.layers.Dense(1)
        self.layer.build([None, 3])
        self.variables = {"kernel": self.layer.kernel, "bias": self.layer.bias}
        self.depths = {"kernel": 0, "bias": 1}

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
        return {"loss": sums["loss"] / (counts["weight"] or math.nan)}


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


def trainer(folder, objective=Regression, runtime=None, **training):
    """Of an objective, logging and saving each step."""
    runtime = runtime or RuntimeConfig(log_steps=1, save_checkpoints_steps=1)
    config = training_config(**training)
    return Trainer(objective, ModelDescription(CONFIG), config, runtime, str(folder))


def entries(folder):
    """What was logged."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
