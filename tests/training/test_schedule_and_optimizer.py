"""Schedules and updates, compared with a NumPy transcription of the rules."""

import numpy as np
import pytest
import tensorflow as tf
from golden_checkpoints import assert_same_arrays
from reference import optimization as reference

from bert_tf.config import BertConfig
from bert_tf.modeling import BertPretrainer, depths_by_name
from bert_tf.training.step.schedule import scheduled_rate
from bert_tf.training.tensorflow_step.optimizer import TensorFlowOptimizer
from bert_tf.training.training_config import OPTIMIZERS, SCHEDULES, TrainingConfig


def config(**fields):
    plain = {"learning_rate": 0.1, "num_train_steps": 10, "num_warmup_steps": 0}
    return TrainingConfig(seed=0, global_batch_size=1, **{**plain, **fields})


class Weight:
    """Replaces a Keras variable; has only the attributes that the optimizer uses."""

    trainable = True

    def __init__(self, value):
        self.value = tf.Variable(value)
        self.shape, self.assign = self.value.shape, self.value.assign


@pytest.mark.parametrize("kind", SCHEDULES)
@pytest.mark.parametrize(("total", "warmup"), [(100, 10), (10, 1), (7, 0), (5, 5)])
def test_schedules_at_steps_and_between_them(kind, total, warmup):
    for step in np.arange(0, total + 3, 0.5):
        found = scheduled_rate(tf.constant(step, tf.float32), 2e-5, total, warmup, kind)
        expected = reference.rate(kind, step, 2e-5, total, warmup)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-11)


# The rate of weight decay of each weight.
DECAYS = {
    "bert/encoder/layer_0/output/dense/kernel": 0.01,
    "cls/predictions/output_bias": 0.0,
    "bert/embeddings/LayerNorm/gamma": 0.0,
    "bert/embeddings/word_embeddings": 0.01,
}


@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.8, 0.98)])
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_updates_equal_those_of_the_released_program_and_of_the_papers(kind, betas):
    rng = np.random.default_rng(0)
    expected = {name: rng.normal(size=(5, 3)) for name in DECAYS}
    slots = {name: (np.zeros((5, 3)), np.zeros((5, 3))) for name in DECAYS}
    weights = {
        name: Weight(value.astype(np.float32)) for name, value in expected.items()
    }
    # The default must equal the released values.
    changes = {} if kind == "adam_weight_decay" else {"optimizer": kind}
    if betas != (0.9, 0.999):
        changes |= {"adam_beta_1": betas[0], "adam_beta_2": betas[1]}
    optimizer = TensorFlowOptimizer(weights, *([config(**changes)] if changes else []))
    for count in range(1, 6):
        gradients = {name: rng.normal(size=(5, 3)) for name in DECAYS}
        optimizer.apply(
            {name: tf.constant(g, tf.float32) for name, g in gradients.items()},
            tf.constant(0.01),
        )
        for name, decay in DECAYS.items():
            given = expected[name], gradients[name], slots[name], 0.01
            if kind == "adam_weight_decay":
                found = reference.adam_weight_decay(name, *given, betas)
            else:
                found = getattr(reference, kind)(*given, decay, count, betas)
            expected[name], slots[name] = found
    atol = 1e-5 if kind == "adam_weight_decay" else 1e-6
    for name, value in expected.items():
        np.testing.assert_allclose(weights[name].value, value, atol=atol)
        for slot, moment in zip(("adam_m", "adam_v"), slots[name], strict=True):
            np.testing.assert_allclose(
                optimizer.slots[f"{name}/{slot}"], moment, atol=1e-5
            )


def test_lamb_updates_a_weight_of_zeros():
    optimizer = TensorFlowOptimizer(
        {"kernel": Weight(np.zeros(3, np.float32))}, config(optimizer="lamb")
    )
    optimizer.apply({"kernel": tf.ones(3)}, tf.constant(0.1))
    np.testing.assert_allclose(
        optimizer.variables["kernel"].value, [-0.1] * 3, rtol=1e-5
    )


def test_layer_decay_reduces_the_rate_layer_by_layer():
    depths = {"embeddings": 0, "layer_0": 1, "layer_1": 2, "head": 3}
    weights = {name: Weight(np.ones(2, np.float32)) for name in depths}
    optimizer = TensorFlowOptimizer(
        weights, config(layer_decay=0.5, weight_decay_rate=0.0), depths
    )
    optimizer.apply({name: tf.ones(2) for name in depths}, tf.constant(0.1))
    moved = {name: 1 - float(weight.value[0]) for name, weight in weights.items()}
    for name, depth in depths.items():
        np.testing.assert_allclose(
            moved[name], moved["head"] * 0.5 ** (3 - depth), rtol=1e-4
        )


def test_depths_count_the_layers_below_a_variable():
    depths = depths_by_name(BertPretrainer(BertConfig.named("tiny", vocab_size=9)))
    assert depths["bert/embeddings/word_embeddings"] == 0
    assert depths["bert/encoder/layer_1/attention/self/query/kernel"] == 2
    assert (
        depths["bert/pooler/dense/kernel"] == depths["cls/predictions/output_bias"] == 3
    )


def test_the_average_of_the_weights_is_saved_and_restored():
    weights = {"w": Weight(np.array([1.0, 2.0], np.float32))}
    optimizer = TensorFlowOptimizer(weights, config(ema_decay=0.75))
    optimizer.start_average()
    average = weights["w"].value.numpy()
    for _ in range(4):
        optimizer.apply({"w": tf.ones(2)}, tf.constant(0.1))
        average = 0.75 * average + 0.25 * weights["w"].value.numpy()
    trained = weights["w"].value.numpy()
    with optimizer.averaged():
        np.testing.assert_allclose(weights["w"].value, average, rtol=1e-6)
    np.testing.assert_array_equal(weights["w"].value, trained)
    saved, slots = optimizer.state()
    np.testing.assert_allclose(saved["w"], average, rtol=1e-6)
    other = TensorFlowOptimizer(
        {"w": Weight(np.zeros(2, np.float32))}, config(ema_decay=0.75)
    )
    other.load(saved, slots)
    np.testing.assert_array_equal(other.variables["w"].value, trained)
    np.testing.assert_array_equal(other.state()[0]["w"], saved["w"])


def test_later_steps_do_not_change_saved_arrays():
    optimizer = TensorFlowOptimizer({"w": Weight(np.ones(1000, np.float32))}, config())
    step = tf.function(lambda: optimizer.apply({"w": tf.ones(1000)}, tf.constant(0.1)))
    step()
    weights, slots = optimizer.state()
    kept = {name: value.copy() for name, value in {**weights, **slots}.items()}
    step()
    assert_same_arrays({**weights, **slots}, kept)
    assert not np.array_equal(optimizer.state()[0]["w"], kept["w"])


def test_the_loss_scale_is_halved_by_a_skipped_step_and_doubled_after_2000_steps():
    optimizer = TensorFlowOptimizer(
        {"w": Weight(np.ones(1, np.float32))}, config(precision="float16")
    )
    assert float(optimizer.loss_scale) == 2**15
    optimizer.skip()
    assert float(optimizer.loss_scale) == 2**14
    step = tf.function(lambda: optimizer.apply({"w": tf.zeros(1)}, tf.constant(0.0)))
    for _ in range(2000):
        step()
    assert float(optimizer.loss_scale) == 2**15
    for _ in range(20):
        optimizer.skip()
    assert float(optimizer.loss_scale) == 1


def test_a_variable_without_gradient_is_not_changed():
    optimizer = TensorFlowOptimizer({"w": Weight(np.ones(3, np.float32))})
    optimizer.apply({}, tf.constant(0.1))
    np.testing.assert_array_equal(optimizer.variables["w"].value, [1, 1, 1])
