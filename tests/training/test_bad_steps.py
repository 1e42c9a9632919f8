"""Steps whose gradient is not finite; float16; the best weights; the whole step under XLA."""

import json

import keras
import layout_runs
import linear_runs as runs
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.errors import InputError
from bert_tf.modeling import BertPretrainer
from bert_tf.pretraining.objective import PretrainingObjective
from bert_tf.training import state
from bert_tf.training.config import RuntimeConfig
from bert_tf.training.loop import Trainer
from bert_tf.training.objective import ORIGIN
from bert_tf.training.optimizer import make_optimizer
from bert_tf.training.state import ModelDescription
from bert_tf.training.step import Stepper


@pytest.fixture(autouse=True)
def plain_precision():
    yield
    keras.config.set_dtype_policy("float32")


def trainer(folder, objective=runs.Regression, runtime=None, **training):
    config = runs.training_config(**training)
    runtime = runtime or RuntimeConfig(log_steps=1, save_checkpoints_steps=1)
    return Trainer(objective, ModelDescription(runs.CONFIG), config, runtime, str(folder))


def poisoned(*steps):
    """The data, with an infinite target in these steps, and where each example came from."""

    def poison(step, batch):
        bad = tf.reduce_any(tf.equal(step, steps))
        origin = tf.stack([tf.fill([8], step), tf.range(8, dtype=tf.int64)], axis=1)
        return {**batch, "y": tf.where(bad, np.inf, batch["y"]), ORIGIN: origin}

    return runs.data().enumerate().map(poison)


def entries(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_a_bad_step_changes_nothing_and_is_counted(tmp_path):
    run = trainer(tmp_path, num_train_steps=2)
    before = {name: v.numpy() for name, v in run.objective.variables.items()}
    run.train(poisoned(0, 1))
    for name, value in before.items():
        np.testing.assert_array_equal(run.objective.variables[name].numpy(), value)
    assert [entry["skipped_steps"] for entry in entries(tmp_path)] == [1, 1]
    assert entries(tmp_path)[-1]["loss"] is None


def test_two_bad_steps_in_a_row_are_passed_over(tmp_path):
    assert trainer(tmp_path).train(poisoned(3, 4, 6, 7)) == 20
    skipped = [entry["step"] for entry in entries(tmp_path) if entry["skipped_steps"]]
    assert skipped == [4, 5, 7, 8]


@pytest.mark.parametrize("steps_in_graph", [1, 20])
def test_three_in_a_row_stop_the_run_and_say_which(tmp_path, steps_in_graph):
    every = 1 if steps_in_graph == 1 else 20
    runtime = RuntimeConfig(log_steps=every, save_checkpoints_steps=every)
    run = trainer(tmp_path, runtime=runtime)
    with pytest.raises(InputError) as refused:
        run.train(poisoned(5, 6, 7, 8), describe=lambda origin: f"file {origin[0, 0]}")
    message = str(refused.value)
    assert "3 steps in a row are not finite, the last of them step 8, of file 7." in message
    if every == 1:
        assert f"The newest checkpoint is {tmp_path}/checkpoints/step-00000007." in message


def test_three_in_a_row_count_over_a_restart(tmp_path):
    run = trainer(tmp_path, num_train_steps=20)
    with pytest.raises(InputError, match="the last of them step 8"):
        run.train(poisoned(5, 6, 7))
    with pytest.raises(InputError, match="the last of them step 8"):
        trainer(tmp_path).train(poisoned(5, 6, 7))


class TwoLayers(runs.Regression):
    """Its second layer takes the root of what may be negative."""

    def __init__(self):
        super().__init__()
        self.layer.name = "first"
        self.root = keras.layers.Lambda(tf.sqrt, name="root")

    def sums(self, batch, training, seed=None):
        value = self.root(self.layer(batch["x"])[:, 0])
        return {"loss": tf.reduce_sum(batch["w"] * value)}


class InfiniteSlope(runs.Regression):
    """Its loss is finite, its slope is not."""

    def sums(self, batch, training, seed=None):
        return {"loss": tf.reduce_sum(tf.sqrt(0.0 * self.layer(batch["x"])))}


@pytest.mark.parametrize(
    ("objective", "words"),
    [
        (TwoLayers, "gradient of step 1 is not finite: .*output .* of the layer root"),
        (InfiniteSlope, "all outputs are finite; the gradient .* next to the loss, is of bias"),
    ],
)
def test_debug_nans_names_the_layer(tmp_path, objective, words):
    runtime = RuntimeConfig(debug_nans=True)
    with pytest.raises(InputError, match=words):
        trainer(tmp_path, objective, runtime).train(runs.data())


def test_debug_nans_gives_the_same_weights(tmp_path):
    plain, watched = (
        trainer(tmp_path / str(watch), runtime=RuntimeConfig(debug_nans=watch))
        for watch in (False, True)
    )
    for run in (plain, watched):
        run.train(runs.data())
    for name, variable in plain.objective.variables.items():
        np.testing.assert_array_equal(watched.objective.variables[name].numpy(), variable.numpy())


def bert(precision="float32", dropout=0.1):
    keras.config.set_dtype_policy("float32" if precision == "float32" else f"mixed_{precision}")
    keras.utils.set_random_seed(1)
    config = BertConfig(
        vocab_size=layout_runs.VOCABULARY, hidden_size=16, num_hidden_layers=2,
        num_attention_heads=2, intermediate_size=32, type_vocab_size=2,
        max_position_embeddings=layout_runs.LENGTH, hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )  # fmt: skip
    objective = PretrainingObjective(BertPretrainer(config))
    training = runs.training_config(learning_rate=0.01, num_train_steps=30, precision=precision)
    optimizer = make_optimizer(objective.variables, training, {})
    return objective, optimizer, training


def test_float16_learns_as_float32_does():
    losses = {}
    for precision in ("float32", "bfloat16", "float16"):
        objective, optimizer, training = bert(precision)
        run = Stepper(objective, optimizer, training, tf.distribute.get_strategy())
        iterator = iter(layout_runs.batches())
        results = [run.train(iterator, step, 10) for step in (0, 10, 20)]
        assert sum(result.skipped for result in results) == 0
        losses[precision] = [objective.metrics(r.sums, r.counts)["loss"] for r in results]
    assert losses["float32"][0] - losses["float32"][2] > 0.2
    np.testing.assert_allclose(losses["float16"], losses["float32"], rtol=0.02)
    np.testing.assert_allclose(losses["bfloat16"], losses["float32"], rtol=0.04)


def test_too_high_a_loss_scale_is_no_bad_step():
    objective, optimizer, training = bert("float16")
    optimizer.slots["loss_scale"].assign(2.0**40)
    run = Stepper(objective, optimizer, training, tf.distribute.get_strategy())
    result = run.train(iter(layout_runs.batches()), 0, 30)
    assert 3 < result.skipped < 30 and result.steps == 30 and result.bad_in_a_row == 0
    assert float(optimizer.loss_scale) == 2.0 ** (40 - result.skipped)


def test_the_whole_step_compiles_with_xla():
    """The nearest check to a TPU: forward, backward, clipping and update as one XLA program."""
    results = []
    for compiled in (False, True):
        objective, optimizer, training = bert(dropout=0.0)  # XLA draws others
        run = Stepper(objective, optimizer, training, tf.distribute.get_strategy())
        step = tf.function(run._step, jit_compile=compiled)
        for number, batch in enumerate(layout_runs.batches().take(5)):
            sums, counts, _ = step(batch, tf.constant(number, tf.int64))
        loss = objective.metrics(*({n: float(v) for n, v in d.items()} for d in (sums, counts)))
        results.append((loss["loss"], np.asarray(objective.model.bert.pooler.kernel)))
    np.testing.assert_allclose(results[1][0], results[0][0], rtol=1e-4)
    np.testing.assert_allclose(results[1][1], results[0][1], atol=1e-4)


def test_the_best_weights_are_kept_and_handed_on(tmp_path, capsys):
    """The held-out targets fit after some steps, and ever less after that."""
    runtime = RuntimeConfig(eval_steps=2, early_stopping_evals=3, log_steps=2)
    run = trainer(tmp_path, runtime=runtime, num_train_steps=60)

    def held_out():
        return runs.data().take(2).map(lambda batch: {**batch, "y": 0.3 * batch["y"]})

    step = run.train(runs.data(), {"eval": held_out})
    evals = {e["step"]: e["loss"] for e in entries(tmp_path) if e["kind"] == "eval"}
    best = min(evals, key=evals.get)
    assert step == max(evals) == best + 2 * 3 < 60
    assert f"The best weights are those of step {best}." in capsys.readouterr().err
    np.testing.assert_allclose(run.evaluate(held_out())["loss"], evals[best], rtol=1e-6)
    kept = trainer(tmp_path / "other", num_train_steps=60)
    assert state.restore_weights(str(tmp_path / "best"), kept.objective.variables) == best
    # The same command again has nothing left to do.
    again = trainer(tmp_path, runtime=runtime, num_train_steps=60)
    assert again.train(runs.data(), {"eval": held_out}) == step


def test_a_run_with_an_average_goes_on_to_the_bit(tmp_path):
    expected = runs.run(tmp_path / "whole", ema_decay=0.9, optimizer="adamw", schedule="cosine")
    with pytest.raises(SystemExit):
        runs.run(tmp_path / "parts", stop_at=9, ema_decay=0.9, optimizer="adamw", schedule="cosine")
    found = runs.run(tmp_path / "parts", ema_decay=0.9, optimizer="adamw", schedule="cosine")
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)
    newest = trainer(tmp_path / "parts", ema_decay=0.9, optimizer="adamw", schedule="cosine")
    newest.load_newest()
    for name, value in expected.items():
        np.testing.assert_array_equal(newest.objective.variables[name].numpy(), value)


def test_a_profile_is_written(tmp_path):
    trainer(tmp_path, runtime=RuntimeConfig(profile_steps=(3, 5))).train(runs.data())
    assert list(tmp_path.rglob("*.xplane.pb"))
