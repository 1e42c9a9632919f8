"""Steps whose gradient is not finite."""

import keras
import linear_runs as runs
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.errors import InputError
from bert_tf.modeling import BertPretrainer
from bert_tf.pretraining.objective import PretrainingObjective
from bert_tf.training import nans
from bert_tf.training.config import RuntimeConfig
from bert_tf.training.objective import ORIGIN

PREDICTED = ("masked_lm_positions", "masked_lm_ids", "next_sentence_labels")
LAST_OF = {  # a variable of each layer
    "embeddings/norm": "embeddings/LayerNorm/gamma",
    "layer_0/attention/query": "layer_0/attention/self/query/kernel",
    "layer_1/output": "layer_1/output/dense/kernel",
}


def poisoned(*steps):
    """The data, with an infinite target in these steps, and where each example came from."""

    def poison(step, batch):
        bad = tf.reduce_any(tf.equal(step, steps))
        origin = tf.stack([tf.fill([8], step), tf.range(8, dtype=tf.int64)], axis=1)
        return {**batch, "y": tf.where(bad, np.inf, batch["y"]), ORIGIN: origin}

    return runs.data().enumerate().map(poison)


def test_a_bad_step_changes_nothing_and_is_counted(tmp_path):
    run = runs.trainer(tmp_path, num_train_steps=2)
    before = {name: v.numpy() for name, v in run.objective.variables.items()}
    run.train(poisoned(0, 1))
    for name, value in before.items():
        np.testing.assert_array_equal(run.objective.variables[name].numpy(), value)
    assert [entry["skipped_steps"] for entry in runs.entries(tmp_path)] == [1, 1]
    assert runs.entries(tmp_path)[-1]["loss"] is None


def test_two_bad_steps_in_a_row_are_passed_over(tmp_path):
    assert runs.trainer(tmp_path).train(poisoned(3, 4, 6, 7)) == 20
    skipped = [entry["step"] for entry in runs.entries(tmp_path) if entry["skipped_steps"]]
    assert skipped == [4, 5, 7, 8]


@pytest.mark.parametrize("steps_in_graph", [1, 20])
def test_three_in_a_row_stop_the_run_and_say_which(tmp_path, steps_in_graph):
    every = 1 if steps_in_graph == 1 else 20
    runtime = RuntimeConfig(log_steps=every, save_checkpoints_steps=every)
    run = runs.trainer(tmp_path, runtime=runtime)
    with pytest.raises(InputError) as refused:
        run.train(poisoned(5, 6, 7, 8), describe=lambda origin: f"file {origin[0, 0]}")
    message = str(refused.value)
    assert "3 steps in a row are not finite, the last of them step 8, of file 7." in message
    if every == 1:
        assert f"The newest checkpoint is {tmp_path}/checkpoints/step-00000007." in message


def test_three_in_a_row_count_over_a_restart(tmp_path):
    run = runs.trainer(tmp_path, num_train_steps=20)
    with pytest.raises(InputError, match="the last of them step 8"):
        run.train(poisoned(5, 6, 7))
    with pytest.raises(InputError, match="the last of them step 8"):
        runs.trainer(tmp_path).train(poisoned(5, 6, 7))


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
        (
            TwoLayers,
            "gradient is not finite: .*output .* of the layer root. It was in step 1",
        ),
        (InfiniteSlope, "all outputs are finite; the gradient .* next to the loss, is of bias"),
    ],
)
def test_debug_nans_names_the_layer(tmp_path, objective, words):
    runtime = RuntimeConfig(debug_nans=True)
    with pytest.raises(InputError, match=words):
        runs.trainer(tmp_path, objective, runtime).train(poisoned(), describe=lambda o: "file 7")


@pytest.mark.parametrize("layer", ["embeddings/norm", "layer_0/attention/query", "layer_1/output"])
def test_debug_nans_names_the_layer_of_a_bert(layer):
    config = BertConfig(
        vocab_size=20, hidden_size=8, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=8, max_position_embeddings=8, type_vocab_size=2,
    )  # fmt: skip
    objective = PretrainingObjective(BertPretrainer(config))
    (kernel,) = [
        weight.value
        for name, weight in objective.variables.items()
        if name.endswith(LAST_OF[layer])
    ]
    kernel.assign(tf.fill(kernel.shape, np.nan))
    batch = {name: tf.ones([2, 8], tf.int32) for name in ("input_ids", "input_mask", "segment_ids")}
    batch |= {name: tf.ones([2, 1], tf.int32) for name in PREDICTED}
    batch["masked_lm_weights"] = tf.ones([2, 1])
    said = nans.explain(objective, batch, tf.constant([1, 2]))
    assert said.endswith(f"/bert/{layer}")


def test_a_run_that_breaks_off_leaves_what_it_logged(tmp_path):
    with pytest.raises(InputError, match="are not finite"):
        runs.trainer(tmp_path, runtime=RuntimeConfig(log_steps=1)).train(poisoned(5, 6, 7))
    assert [entry["step"] for entry in runs.entries(tmp_path)] == [1, 2, 3, 4, 5, 6, 7]


def test_debug_nans_gives_the_same_weights(tmp_path):
    plain, watched = (
        runs.trainer(tmp_path / str(watch), runtime=RuntimeConfig(debug_nans=watch))
        for watch in (False, True)
    )
    for run in (plain, watched):
        run.train(runs.data())
    for name, variable in plain.objective.variables.items():
        np.testing.assert_array_equal(watched.objective.variables[name].numpy(), variable.numpy())
