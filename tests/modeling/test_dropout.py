"""Dropout masks: their distribution, and their dependence on seed and layer."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from refusals import refused
from tiny_bert import random_inputs, small_config

from bert_tf.modeling import (
    BertClassifier,
    BertPretrainer,
    Dropout,
    DropoutSeeds,
    variables_by_name,
)

CONFIG = small_config(50, hidden_size=32, num_attention_heads=4, intermediate_size=64)


@pytest.fixture(scope="module")
def inputs():
    arrays = random_inputs([10, 10, 10], 10)
    return {name: tf.constant(values) for name, values in arrays.items()}


def seed(*numbers):
    return tf.constant(numbers, tf.int32)


def dropped_ones(layer, given_seed):
    """Returns the layer's output for a tensor of ones; dropped elements are 0."""
    with layer.dropout_seeds.use(given_seed):
        return np.asarray(layer(tf.ones((64, 1024)), training=True))


def test_masks_depend_only_on_seed_and_layer():
    seeds = DropoutSeeds(0)
    first, second = Dropout(0.1, seeds), Dropout(0.1, seeds)
    one = dropped_ones(first, seed(1, 2))
    np.testing.assert_array_equal(one, dropped_ones(first, seed(1, 2)))
    for layer, *numbers in ((second, 1, 2), (first, 1, 3), (first, 2, 2)):
        other = dropped_ones(layer, seed(*numbers))
        # Two independent masks agree with probability 0.9**2 + 0.1**2 = 0.82.
        assert np.mean(one == other) == pytest.approx(0.82, abs=0.01)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_dropped_share_and_scale_match_the_rate(rate, dtype):
    layer = Dropout(rate, dtype=dtype)
    with layer.dropout_seeds.use(seed(5, 7)):
        output = layer(tf.ones((512, 1024), dtype), training=True)
    output = np.asarray(output, np.float64)
    kept = output != 0
    deviation = np.sqrt(rate * (1 - rate) / output.size)
    assert kept.mean() == pytest.approx(1 - rate, abs=5 * deviation)
    np.testing.assert_allclose(output[kept], 1 / (1 - rate), rtol=4e-3)
    # The mean of each row and column is within six standard deviations of the expected
    # share.
    for axis in (0, 1):
        spread = deviation * np.sqrt(output.shape[1 - axis])
        assert np.abs(kept.mean(axis) - (1 - rate)).max() < 6 * spread


@pytest.mark.parametrize(
    ("rate", "dropped"), [(1 / 3000, 1), (0.1, 205), (0.99999, 2047)]
)
def test_the_rate_is_rounded_to_a_multiple_of_1_in_2048(rate, dropped):
    output = np.asarray(Dropout(rate)(np.ones((300, 400), np.float32), training=True))
    np.testing.assert_allclose(output[output > 0], 2048 / (2048 - dropped), rtol=1e-6)


@pytest.mark.parametrize("rate", [-0.1, 1.0, float("nan")])
def test_a_rate_out_of_range_is_refused(rate):
    with refused(f"at least 0 and below 1. Received: {rate}"):
        Dropout(rate)


def test_neighboring_mask_elements_are_independent():
    kept = dropped_ones(Dropout(0.5), seed(3, 4)) != 0
    for step in (1, 2, 3, 4, 8, 512):
        shifted = kept[:, step:] == kept[:, :-step]
        assert shifted.mean() == pytest.approx(0.5, abs=5 * 0.5 / np.sqrt(shifted.size))


def test_gradient_has_the_same_mask_as_the_output():
    layer = Dropout(0.3)
    x = tf.ones((8, 64))
    with layer.dropout_seeds.use(seed(1, 1)), tf.GradientTape() as tape:
        tape.watch(x)
        y = layer(x, training=True)
    np.testing.assert_array_equal(tape.gradient(y, x), y)


def test_rate_0_and_inference_return_the_input():
    x = tf.random.normal((4, 4))
    assert Dropout(0.0)(x, training=True) is x
    np.testing.assert_array_equal(Dropout(0.5)(x, training=False), x)


def logits_of(model, inputs, given_seed):
    with model.dropout_seeds.use(given_seed):
        return model(inputs, training=True)["masked_lm_logits"]


@pytest.fixture(scope="module")
def call(inputs):
    """Returns a function from a seed to the logits of a model."""
    return functools.partial(logits_of, BertPretrainer(CONFIG, seed=0), inputs)


def test_graph_and_eager_mode_use_the_same_masks(call):
    compiled = tf.function(call)
    for numbers in ((1, 2), (3, 4)):
        np.testing.assert_allclose(
            compiled(seed(*numbers)), call(seed(*numbers)), atol=1e-5
        )


def test_masks_under_xla_depend_on_the_seed(call):
    """From the same seed, XLA generates other random numbers than TensorFlow."""
    compiled = tf.function(call, jit_compile=True)
    np.testing.assert_array_equal(compiled(seed(1, 2)), compiled(seed(1, 2)))
    assert not np.array_equal(compiled(seed(1, 2)), compiled(seed(1, 3)))


def test_without_a_given_seed_every_call_has_another_mask(inputs):
    models = [BertClassifier(CONFIG, num_labels=2, seed=0) for _ in range(3)]
    call = tf.function(lambda: models[0](inputs, training=True)["logits"])
    assert not np.array_equal(call(), call())
    one, two = (model(inputs, training=True)["logits"] for model in models[1:])
    np.testing.assert_array_equal(one, two)


def training_function(recompute, logits_operations=None, **options):
    """Returns a function from inputs and a seed to the loss and 20 gradients."""
    model = BertPretrainer(CONFIG, seed=0, recompute=recompute)
    variables = [v.value for v in variables_by_name(model).values()][:20]

    @tf.function(**options)
    def loss_and_gradients(inputs, given_seed):
        with tf.GradientTape() as tape:
            logits = logits_of(model, inputs, given_seed)
            loss = tf.reduce_sum(tf.square(logits))
        if logits_operations is not None:
            logits_operations.append(logits.op)
        gradients = tape.gradient(loss, variables)
        return [loss, *map(tf.convert_to_tensor, gradients)]

    return loss_and_gradients


@pytest.mark.parametrize("jit", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_recomputation_repeats_the_masks(inputs, jit):
    """With dropout, recomputation does not change the losses and gradients."""
    results = [
        training_function(recompute, jit_compile=jit)(inputs, seed(1, 2))
        for recompute in (False, True)
    ]
    for one, two in zip(*results, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-4)


def ancestors(operation):
    """Returns all operations that must run before `operation`."""
    found, queue = set(), [operation]
    while queue:
        current = queue.pop()
        earlier = {*current.control_inputs, *(tensor.op for tensor in current.inputs)}
        queue += earlier - found
        found |= earlier
    return found


def test_recomputed_masks_depend_on_the_input_of_their_block(inputs):
    """Otherwise, all masks could take memory early, which recomputation should save."""
    head = []
    function = training_function(True, head)
    graph = function.get_concrete_function(inputs, seed(1, 2)).graph
    operations = graph.get_operations()
    random = [op for op in operations if op.type == "StatelessRandomUniformV2"]
    dependencies = [ancestors(op) for op in random]
    lookup = next(op for op in operations if "Gather" in op.type)
    block_masks = 3 * CONFIG.num_hidden_layers
    # The embeddings have one mask. Each block creates three masks in the forward pass
    # and again in the backward pass.
    assert len(random) == 1 + 2 * block_masks
    assert sum(lookup in found for found in dependencies) == 2 * block_masks
    assert sum(head[0] in found for found in dependencies) == block_masks
