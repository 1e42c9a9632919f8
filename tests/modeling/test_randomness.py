"""Dropout masks and initial weights: what they depend on, and their distribution."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.modeling import (
    BertClassifier,
    BertEncoder,
    BertPretrainer,
    Dropout,
    DropoutSeeds,
    variables_by_name,
)

CONFIG = BertConfig(
    vocab_size=50,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=64,
    max_position_embeddings=16,
    type_vocab_size=2,
)


@pytest.fixture(scope="module")
def inputs():
    generator = np.random.default_rng(0)
    return {
        "input_ids": tf.constant(generator.integers(0, 50, (3, 10)), tf.int32),
        "input_mask": tf.ones((3, 10), tf.int32),
        "segment_ids": tf.zeros((3, 10), tf.int32),
    }


def seed(*numbers) -> tf.Tensor:
    return tf.constant(numbers, tf.int32)


def mask(layer, given) -> np.ndarray:
    with layer.dropout_seeds.use(given):
        return np.asarray(layer(tf.ones((64, 1024)), training=True))


def test_a_mask_is_a_function_of_seed_and_layer():
    seeds = DropoutSeeds(0)
    first, second = Dropout(0.1, seeds), Dropout(0.1, seeds)
    one = mask(first, seed(1, 2))
    np.testing.assert_array_equal(one, mask(first, seed(1, 2)))
    others = [mask(second, seed(1, 2)), mask(first, seed(1, 3)), mask(first, seed(2, 2))]
    for other in others:
        # Independent masks agree where both keep or both drop: 0.9**2 + 0.1**2 = 0.82.
        assert np.mean(one == other) == pytest.approx(0.82, abs=0.01)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_share_and_scale(rate, dtype):
    layer = Dropout(rate, dtype=dtype)
    with layer.dropout_seeds.use(seed(5, 7)):
        found = np.asarray(layer(tf.ones((512, 1024), dtype), training=True)).astype(np.float64)
    kept = found != 0
    deviation = np.sqrt(rate * (1 - rate) / found.size)
    assert kept.mean() == pytest.approx(1 - rate, abs=5 * deviation)
    np.testing.assert_allclose(found[kept], 1 / (1 - rate), rtol=4e-3)
    # No structure along rows or columns: each mean stays within six of its own deviations.
    for axis in (0, 1):
        spread = deviation * np.sqrt(found.shape[1 - axis])
        assert np.abs(kept.mean(axis) - (1 - rate)).max() < 6 * spread


def test_neighbours_in_a_mask_are_independent():
    kept = mask(Dropout(0.5), seed(3, 4)) != 0
    for step in (1, 2, 3, 4, 8, 512):
        shifted = kept[:, step:] == kept[:, :-step]
        assert shifted.mean() == pytest.approx(0.5, abs=5 * 0.5 / np.sqrt(shifted.size))


def test_the_gradient_has_the_mask():
    layer = Dropout(0.3)
    x = tf.ones((8, 64))
    with layer.dropout_seeds.use(seed(1, 1)), tf.GradientTape() as tape:
        tape.watch(x)
        y = layer(x, training=True)
    np.testing.assert_array_equal(tape.gradient(y, x), y)


def test_rate_0_and_inference_do_nothing():
    x = tf.random.normal((4, 4))
    assert Dropout(0.0)(x, training=True) is x
    np.testing.assert_array_equal(Dropout(0.5)(x, training=False), x)


def with_seed(model, inputs):
    def call(given):
        with model.dropout_seeds.use(given):
            return model(inputs, training=True)["masked_lm_logits"]

    return call


def test_graph_repeats_eager(inputs):
    call = with_seed(BertPretrainer(CONFIG, seed=0), inputs)
    compiled = tf.function(call)
    for numbers in ((1, 2), (3, 4)):
        np.testing.assert_allclose(compiled(seed(*numbers)), call(seed(*numbers)), atol=1e-5)


def test_xla_follows_the_seed(inputs):
    """XLA draws other numbers than TensorFlow's kernels do from the same seed."""
    compiled = tf.function(with_seed(BertPretrainer(CONFIG, seed=0), inputs), jit_compile=True)
    np.testing.assert_array_equal(compiled(seed(1, 2)), compiled(seed(1, 2)))
    assert not np.array_equal(compiled(seed(1, 2)), compiled(seed(1, 3)))


def test_without_use_every_call_differs(inputs):
    model = BertClassifier(CONFIG, num_labels=2, seed=0)
    call = tf.function(lambda: model(inputs, training=True)["logits"])
    assert not np.array_equal(call(), call())
    again = BertClassifier(CONFIG, num_labels=2, seed=0)
    np.testing.assert_array_equal(
        again(inputs, training=True)["logits"],
        BertClassifier(CONFIG, num_labels=2, seed=0)(inputs, training=True)["logits"],
    )


def test_initial_weights_are_a_truncated_normal():
    model = BertPretrainer(BertConfig.named("tiny", 2000), seed=1)
    for name, variable in variables_by_name(model).items():
        values = np.asarray(variable)
        if name.endswith(("beta", "bias")):
            assert not values.any(), name
        elif name.endswith("gamma"):
            assert (values == 1).all(), name
        else:
            assert np.abs(values).max() <= 0.04 + 1e-7, name
            if values.size > 10_000:
                # A standard normal cut at two deviations has the deviation 0.8796.
                assert values.std() == pytest.approx(0.02 * 0.8796, rel=0.02), name
                assert abs(values.mean()) < 5 * 0.02 / np.sqrt(values.size), name


def test_initial_weights_follow_the_seed():
    def kernels(**arguments):
        return [np.asarray(v) for v in variables_by_name(BertEncoder(CONFIG, **arguments)).values()]

    for one, two in zip(kernels(seed=3), kernels(seed=3), strict=True):
        np.testing.assert_array_equal(one, two)
    assert not np.array_equal(kernels(seed=3)[0], kernels(seed=4)[0])
    keras.utils.set_random_seed(5)
    first = kernels()
    keras.utils.set_random_seed(5)
    np.testing.assert_array_equal(first[0], kernels()[0])
    query, key = first[5], first[7]
    assert not np.array_equal(query, key)


@pytest.mark.parametrize("jit", [False, True])
def test_recomputation_repeats_the_masks(inputs, jit):
    """The same losses and gradients as without, dropout on."""
    results = []
    for recompute in (False, True):
        model = BertPretrainer(CONFIG, seed=0, recompute=recompute)
        variables = [v.value for v in variables_by_name(model).values()][:20]

        @tf.function(jit_compile=jit)
        def gradients(given, model=model, variables=variables):
            with tf.GradientTape() as tape:
                with model.dropout_seeds.use(given):
                    logits = model(inputs, training=True)["masked_lm_logits"]
                loss = tf.reduce_sum(tf.square(logits))
            found = tape.gradient(loss, variables)
            return [loss, *map(tf.convert_to_tensor, found)]

        results.append(gradients(seed(1, 2)))
    for one, two in zip(*results, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-4)


def ancestors(operation):
    """All operations that must have run before it."""
    found, waiting = set(), [operation]
    while waiting:
        after = waiting.pop()
        for before in (*(tensor.op for tensor in after.inputs), *after.control_inputs):
            if before not in found:
                found.add(before)
                waiting.append(before)
    return found


def test_recomputed_masks_wait_for_their_input(inputs):
    """Made at once for all blocks, they would hold the memory that recomputation saves."""
    model = BertPretrainer(CONFIG, seed=0, recompute=True)
    variables = [v.value for v in variables_by_name(model).values()][:20]
    head = []

    @tf.function
    def gradients(inputs, given):
        with tf.GradientTape() as tape, model.dropout_seeds.use(given):
            logits = model(inputs, training=True)["masked_lm_logits"]
            loss = tf.reduce_sum(tf.square(logits))
        head.append(logits.op)
        return [tf.convert_to_tensor(g) for g in tape.gradient(loss, variables)]

    graph = gradients.get_concrete_function(inputs, seed(1, 2)).graph
    random = [op for op in graph.get_operations() if op.type == "StatelessRandomUniformV2"]
    before = [ancestors(op) for op in random]
    lookups = [op for op in graph.get_operations() if "Gather" in op.type][:1]
    blocks = 3 * CONFIG.num_hidden_layers
    # One mask of the embeddings; three a block, forward and on the way back.
    assert len(random) == 1 + 2 * blocks
    assert sum(lookups[0] in found for found in before) == 2 * blocks
    assert sum(head[0] in found for found in before) == blocks
