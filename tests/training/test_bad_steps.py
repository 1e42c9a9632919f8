"""Training skips and reports steps whose gradient is not finite."""

import importlib
from typing import ClassVar

import keras
import linear_runs as runs
import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from refusals import refused, refused_with
from tiny_bert import small_config

from bert_tf.errors import TrainingInterrupted
from bert_tf.modeling import BertPretrainer
from bert_tf.pretraining.pretraining_objective import PretrainingObjective
from bert_tf.training.callbacks import HeldOutData
from bert_tf.training.lifecycle.error_messages import NO_LOOKUP, FailureMessages
from bert_tf.training.lifecycle.run_folder import RunFolder
from bert_tf.training.step import debug_nans
from bert_tf.training.step.objective import ORIGIN
from bert_tf.training.training_config import RuntimeConfig

TARGETS = ("masked_lm_positions", "masked_lm_ids", "next_sentence_labels")


def batches_with_infinity(*steps):
    """Returns batches; targets at `steps` are infinite.

    An origin is (step, number in batch).
    """

    def add_infinity(step, batch):
        bad = tf.reduce_any(tf.equal(step, steps))
        origin = tf.stack([tf.fill([8], step), tf.range(8, dtype=tf.int64)], axis=1)
        return {**batch, "y": tf.where(bad, np.inf, batch["y"]), ORIGIN: origin}

    return runs.data().enumerate().map(add_infinity)


def test_a_bad_step_is_counted_and_changes_no_weight(tmp_path):
    run = runs.make_trainer(tmp_path, num_train_steps=2)
    before = runs.weights(run)
    runs.train(run, batches_with_infinity(0, 1))
    runs.assert_same(run, before)
    assert [entry["skipped_steps"] for entry in runs.log_entries(tmp_path)] == [1, 1]
    assert runs.log_entries(tmp_path)[-1]["loss"] is None


def test_two_bad_steps_in_a_row_are_skipped(tmp_path):
    assert (
        runs.train(runs.make_trainer(tmp_path), batches_with_infinity(3, 4, 6, 7)) == 20
    )
    skipped = [
        entry["step"] for entry in runs.log_entries(tmp_path) if entry["skipped_steps"]
    ]
    assert skipped == [4, 5, 7, 8]


@pytest.mark.parametrize("steps_in_graph", [1, 20])
def test_three_bad_steps_in_a_row_stop_the_run_and_are_named(tmp_path, steps_in_graph):
    every = 1 if steps_in_graph == 1 else 20
    runtime = RuntimeConfig(log_steps=every, save_checkpoints_steps=every)
    run = runs.make_trainer(tmp_path, runtime=runtime)
    checkpoint = f"The newest checkpoint is {tmp_path}/checkpoints/step-00000005."
    with refused_with(
        "3 steps in a row are not finite, the last of them step 8 (file 7).",
        checkpoint if every == 1 else "There is no checkpoint yet.",
    ):
        batches = batches_with_infinity(5, 6, 7, 8)
        runs.train(run, batches, describe=lambda origin: f"file {origin[0, 0]}")
    last = runs.log_entries(tmp_path)[-1]
    assert (last["step"], last["skipped_steps"]) == (8, 1 if every == 1 else 3)
    assert every == 1 or 0 < last["loss"] < 100  # of the five good steps
    assert len(runs.log_entries(tmp_path)) == (8 if every == 1 else 1)


def test_bad_steps_before_and_after_a_restart_are_added(tmp_path):
    batches = batches_with_infinity(5, 6, 7)
    runtime = RuntimeConfig(
        eval_steps=7, save_checkpoints_steps=5, stop_on_signals=True
    )
    with pytest.raises(TrainingInterrupted):
        run = runs.make_trainer(tmp_path, runtime=runtime)
        runs.train(run, batches, held_out=HeldOutData({"eval": runs.send_sigterm}))
    message = "the last of them step 8. .*step-00000007."
    with refused(message):
        runs.train(runs.make_trainer(tmp_path), batches)


def test_a_checkpoint_waits_for_a_good_step(tmp_path):
    runtime = RuntimeConfig(log_steps=1, save_checkpoints_steps=5, stop_at_step=9)
    runs.train(
        runs.make_trainer(tmp_path, runtime=runtime), batches_with_infinity(3, 4)
    )
    names = [folder.name for folder in sorted((tmp_path / "checkpoints").iterdir())]
    assert names == ["step-00000006", "step-00000009"]


class ConstantSlope(runs.Regression):
    """A model whose gradient is finite, whatever the weights are."""

    def sums(self, batch, training, seed=None):
        return {"loss": ops.sum(self.layer(ops.abs(batch["x"])))}

    def loss(self, sums, counts):
        return sums["loss"]


def test_weights_that_are_not_finite_are_not_saved(tmp_path):
    runtime = RuntimeConfig(log_steps=1, save_checkpoints_steps=1)
    run = runs.make_trainer(tmp_path, ConstantSlope, runtime, learning_rate=3e38)
    words = (
        r"kernel.* contains values that are not finite.*step-0000000\d\. Try a lower"
    )
    with refused(words):
        runs.train(run)
    run = runs.make_trainer(tmp_path, ConstantSlope, runtime, learning_rate=3e38)
    assert run.load_result() > 0
    assert all(np.isfinite(value).all() for value in runs.weights(run).values())


def test_the_message_of_a_lost_worker_ends_with_a_word(tmp_path):
    class Writer:
        def wait(self):
            pass

    failures = FailureMessages(
        NO_LOOKUP, RunFolder(str(tmp_path)), Writer(), (tf.errors.UnavailableError,)
    )
    cause = "Failed to connect to remote host:\n" + "refused " * 40
    words = (
        "After step 7: another worker has ended (Failed to connect to remote host: r",
        "refused refused ...). Start all workers again to resume.",
    )
    with refused_with(*words) as raised, failures.explain(7):
        raise tf.errors.UnavailableError(None, None, cause)
    message = str(raised.value)
    assert len(message) < 400 and message.startswith(words[0])


class TwoLayers(runs.Regression):
    """A model with the square root of values that may be negative."""

    def __init__(self, seed, dtype):
        super().__init__(seed, dtype)
        self.layer.name = "first"
        self.root = keras.layers.Lambda(ops.sqrt, name="root")

    def sums(self, batch, training, seed=None):
        value = self.root(self.layer(batch["x"])[:, 0])
        return {"loss": ops.sum(batch["w"] * value)}


class InfiniteSlope(runs.Regression):
    """A model with a finite loss and an infinite gradient."""

    def sums(self, batch, training, seed=None):
        return {"loss": ops.sum(ops.sqrt(0.0 * self.layer(batch["x"])))}


@pytest.mark.parametrize(
    ("objective", "words"),
    [
        (
            TwoLayers,
            r"The gradient of step 1 \(file 7\) is not finite: .*of the layer root\.",
        ),
        (
            InfiniteSlope,
            "all outputs are finite; .* gradient of bias is closest to the loss",
        ),
    ],
)
def test_debug_nans_names_the_layer(tmp_path, objective, words):
    runtime = RuntimeConfig(debug_nans=True)
    run = runs.make_trainer(tmp_path, objective, runtime)
    with refused(words):
        runs.train(run, batches_with_infinity(), describe=lambda origin: "file 7")


class SeedsKept(runs.Regression):
    """An objective that keeps the seeds of its calls."""

    seeds: ClassVar[list] = []

    def sums(self, batch, training, seed=None):
        def keep(value):
            self.seeds.append(np.asarray(value).tolist())

        if keras.backend.backend() == "jax":
            importlib.import_module("jax").debug.callback(keep, seed)
        else:
            tf.py_function(keep, [seed], [])
        return super().sums(batch, training, seed)


def test_debug_nans_computes_with_the_dropout_masks_of_the_step(tmp_path):
    run = runs.make_trainer(tmp_path, SeedsKept, RuntimeConfig(debug_nans=True))
    with refused("The gradient of step 1 is not finite"):
        runs.train(run, batches_with_infinity(0))
    assert len(SeedsKept.seeds) > 1
    assert all(seed == SeedsKept.seeds[0] for seed in SeedsKept.seeds)


def test_debug_nans_names_the_layer_of_a_bert_model():
    objective = PretrainingObjective(BertPretrainer(small_config(20)))
    kernel = objective.variables["bert/encoder/layer_0/attention/self/query/kernel"]
    kernel.assign(tf.fill(kernel.shape, np.nan))
    batch = {
        name: tf.ones([2, 8], tf.int32)
        for name in ("input_ids", "input_mask", "segment_ids")
    }
    batch |= {name: tf.ones([2, 1], tf.int32) for name in TARGETS}
    batch["masked_lm_weights"] = tf.ones([2, 1])
    cause = debug_nans.find_cause(
        objective, batch, tf.constant([1, 2]), gradients_of=None
    )
    assert cause.endswith("/bert/layer_0/attention/query")


def test_debug_nans_gives_the_same_weights(tmp_path):
    plain, checked = (
        runs.make_trainer(
            tmp_path / str(debug), runtime=RuntimeConfig(debug_nans=debug)
        )
        for debug in (False, True)
    )
    for run in (plain, checked):
        runs.train(run)
    runs.assert_same(checked, plain)
