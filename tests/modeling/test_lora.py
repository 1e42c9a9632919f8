"""LoRA of `Dense`, compared with `keras.layers.Dense`."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from refusals import refused
from tiny_bert import small_config

from bert_tf.modeling import BertClassifier, Dense, arrays_by_name, variables_by_name

CONFIG = small_config(30, initializer_range=0.3)
INPUTS = {
    "input_ids": np.random.default_rng(0).integers(1, 30, (4, 6)).astype(np.int32)
}


def pair(rank, alpha):
    """Our layer and that of Keras, with LoRA and the same random values."""
    ours, peer = Dense(6, 5, "tanh"), keras.layers.Dense(5, "tanh")
    peer.build((None, 6))
    for layer in (ours, peer):
        layer.enable_lora(rank, alpha)
    generator = np.random.default_rng(1)
    for name in ("bias", "lora_kernel_a", "lora_kernel_b"):
        value = generator.normal(size=getattr(ours, name).shape)
        getattr(ours, name).assign(value)
        getattr(peer, name).assign(value)
    peer._kernel.assign(ours.kernel)
    return ours, peer


@pytest.mark.parametrize(
    ("rank", "alpha"), [(1, None), (3, None), (3, 6), (2, 1), (2, 0)]
)
def test_outputs_and_gradients_are_those_of_keras(rank, alpha):
    ours, peer = pair(rank, alpha)
    x = tf.constant(np.random.default_rng(2).normal(size=(7, 6)), tf.float32)
    results = []
    for layer, arguments in ((ours, {"training": True}), (ours, {}), (peer, {})):
        variables = [layer.bias, layer.lora_kernel_a, layer.lora_kernel_b]
        assert {id(v) for v in layer.trainable_variables} == {id(v) for v in variables}
        with tf.GradientTape() as tape:
            y = layer(x, **arguments)
            loss = tf.reduce_sum(y * tf.range(1.0, 6.0))
        results.append([y, *tape.gradient(loss, [v.value for v in variables])])
    for result in results[:2]:
        for own, expected in zip(result, results[2], strict=True):
            np.testing.assert_allclose(own, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "bfloat16"])
def test_enabling_lora_does_not_change_outputs(dtype):
    layer = Dense(6, 5, dtype=dtype)
    x = tf.constant(np.random.default_rng(2).normal(size=(7, 6)), tf.float32)
    before = layer(x)
    layer.enable_lora(2)
    assert layer.lora_kernel_a.dtype == layer.lora_kernel_b.dtype == "float32"
    assert np.abs(layer.lora_kernel_a).max() > 0
    after = layer(x)
    assert after.dtype == before.dtype
    np.testing.assert_array_equal(np.float32(after), np.float32(before))


def adapted_classifier():
    """A classifier whose encoder is frozen except for LoRA on query and value."""
    model = BertClassifier(CONFIG, num_labels=2, seed=0, name="model")
    for weight in model.bert.weights:
        weight.trainable = False
    for block in model.bert.blocks:
        block.attention.query.enable_lora(2)
        block.attention.value.enable_lora(2, lora_alpha=4)
    return model


def test_fit_changes_only_lora_and_the_head():
    model = adapted_classifier()
    added = {
        f"model/bert/layer_{i}/attention/{name}/lora_kernel_{letter}"
        for i in range(2)
        for name in ("query", "value")
        for letter in "ab"
    }
    trained = {*added, "model/head/output_weights", "model/head/output_bias"}
    assert {weight.path for weight in model.trainable_variables} == trained
    before = {weight.path: np.array(weight) for weight in model.weights}
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.1), {"logits": loss})
    losses = model.fit(
        INPUTS, {"logits": np.arange(4) % 2}, epochs=8, verbose=0
    ).history["loss"]
    assert losses[-1] < 0.7 * losses[0]
    changed = {w.path for w in model.weights if np.abs(w - before[w.path]).max() > 0}
    assert changed == trained


def test_files_contain_the_merged_kernel(tmp_path):
    model = adapted_classifier()
    generator = np.random.default_rng(3)
    for block in model.bert.blocks:
        for layer in (block.attention.query, block.attention.value):
            layer.lora_kernel_b.assign(generator.normal(size=layer.lora_kernel_b.shape))
    expected = model(INPUTS)["logits"]
    model.save(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")
    plain = BertClassifier(CONFIG, num_labels=2, seed=1)
    plain.load_weights(tmp_path / "model.weights.h5")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    written = BertClassifier(CONFIG, num_labels=2, seed=2)
    for name, variable in variables_by_name(written).items():
        variable.assign(arrays_by_name(model)[name])
    adapted = adapted_classifier()
    adapted.load_weights(tmp_path / "model.weights.h5")
    for other in (plain, loaded, written, adapted):
        np.testing.assert_allclose(other(INPUTS)["logits"], expected, atol=1e-5)
    # LoRA must stay trainable after loading: not both of its factors may be 0.
    assert np.abs(adapted.bert.layer_0.attention.query.lora_kernel_a).max() > 0


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_arrays_are_the_float32_values_of_the_variables(dtype):
    model = BertClassifier(CONFIG, num_labels=2, dtype=dtype)
    arrays, variables = arrays_by_name(model), variables_by_name(model)
    assert list(arrays) == list(variables)
    for name, array in arrays.items():
        assert array.dtype == np.float32
        np.testing.assert_array_equal(array, np.float32(variables[name]))


def test_wrong_use_is_refused():
    layer = Dense(6, 5, name="query")
    layer.enable_lora(2)
    with refused(r"already enabled on the layer query, with rank=2\. Call"):
        layer.enable_lora(2)
    model = BertClassifier(CONFIG, num_labels=2, name="model")
    model.bert.trainable = False
    with refused("The layer model/bert/layer_0/attention/key is frozen"):
        model.bert.layer_0.attention.key.enable_lora(2)
