"""Models that skip padding compute the same as models that do not, at real tokens."""

import numpy as np
import pytest
import tensorflow as tf
from model_file_checks import lite_runner
from tiny_bert import random_inputs, small_config

from bert_tf import modeling

S = 14
LENGTHS = {
    "mixed": [3, 14, 9],
    "without_tokens": [6, 0, 14],
    "one": [5],
    "full": [14, 14],
    "no_tokens": [0, 0],
    "empty": [],
}
MODELS = {
    "encoder": modeling.BertEncoder,
    "pretrainer": modeling.BertPretrainer,
    "classifier": lambda config, **options: modeling.BertClassifier(
        config, 3, **options
    ),
    "tagger": lambda config, **options: modeling.BertTagger(config, 5, **options),
    "span": modeling.BertSpanPredictor,
    "choice": modeling.BertMultipleChoice,
}


def config(num_hidden_layers=1, attention="bidirectional"):
    return small_config(
        30, hidden_size=16, num_hidden_layers=num_hidden_layers, attention=attention,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip


def batch(name, lengths):
    inputs = random_inputs(lengths, S, 30)
    mask = inputs["input_mask"]
    if name == "choice":
        inputs = {key: np.stack([each, each], axis=1) for key, each in inputs.items()}
    if name == "pretrainer":
        rng = np.random.default_rng(0)
        positions = [sorted(rng.integers(0, max(length, 1), 3)) for length in lengths]
        inputs["masked_lm_positions"] = np.array(positions, np.int32).reshape(-1, 3)
    return inputs, mask


def weights_of(name, outputs, mask):
    """Returns random weights for the sum of each output, 0 at padding."""
    rng = np.random.default_rng(7)
    found = {}
    for key, value in outputs.items():
        if isinstance(value, list) or key == "embedding_output":
            continue
        weights = rng.normal(size=value.shape).astype(np.float32)
        if len(value.shape) > 1 and value.shape[1] == S:
            weights *= mask.reshape(*mask.shape, *[1] * (len(value.shape) - 2))
        has_tokens = mask.any(axis=1).reshape(-1, *[1] * (len(value.shape) - 1))
        found[key] = weights * has_tokens
    return found


def compiled(model, inputs, weights):
    """Returns a function for batches of any size; it traces the model once.

    The function returns the weighted sum, the weighted outputs and the gradients of all
    variables.
    """
    variables = [variable.value for variable in model.trainable_variables]

    def specs(arrays):
        return {k: tf.TensorSpec([None] * v.ndim, v.dtype) for k, v in arrays.items()}

    @tf.function(autograph=False, input_signature=[specs(inputs), specs(weights)])
    def call(inputs, weights):
        with tf.GradientTape() as tape:
            outputs = model(inputs, training=True)
            used = {key: outputs[key] * value for key, value in weights.items()}
            loss = tf.add_n([tf.reduce_sum(each) for each in used.values()])
        gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
        return loss, used, [tf.convert_to_tensor(each) for each in gradients]

    return call


@pytest.mark.parametrize(
    ("name", "attention", "recompute"),
    [
        *((name, "bidirectional", False) for name in MODELS),
        pytest.param("encoder", "causal", True, marks=pytest.mark.medium),
    ],
)
def test_outputs_and_gradients_are_those_of_padded_batches(name, attention, recompute):
    num_layers = 2 if name == "encoder" else 1
    model = MODELS[name](config(num_layers, attention), seed=1, recompute=recompute)
    if hasattr(model, "dropout"):
        model.dropout.rate = 0.0  # that of the head is not in the config
    batches = {case: batch(name, lengths) for case, lengths in LENGTHS.items()}
    weights = {
        case: weights_of(name, model(each[0]), each[1])
        for case, each in batches.items()
    }
    results = []
    for skips in (False, True):
        model.skip_padding = skips
        call = compiled(model, batches["mixed"][0], weights["mixed"])
        results.append(
            {case: call(batches[case][0], weights[case]) for case in LENGTHS}
        )
    for case in LENGTHS:
        (loss, outputs, gradients), found = (each[case] for each in results)
        found_loss, found_outputs, found_gradients = found
        assert abs(found_loss - loss) <= 1e-5 * max(1.0, abs(float(loss))), case
        for key, value in outputs.items():
            scale = np.abs(value).max(initial=1e-30)
            np.testing.assert_allclose(
                found_outputs[key], value, atol=1e-5 * scale, err_msg=key
            )
        norm = float(tf.linalg.global_norm(gradients))
        for one, two in zip(gradients, found_gradients, strict=True):
            assert float(tf.norm(one - two)) <= 1e-5 * norm, case


def test_hidden_states_at_padding_are_zero():
    inputs, mask = batch("encoder", LENGTHS["mixed"])
    model = modeling.BertEncoder(config(num_hidden_layers=2), seed=1)
    assert np.abs(model(inputs)["sequence_output"][mask == 0]).min() > 0
    model.skip_padding = True
    outputs = model(inputs)
    for states in outputs["encoder_outputs"]:
        assert not np.any(states[mask == 0])
    # Attention maps have the released values, so padding is computed for them.
    assert np.any(model(inputs, attention_maps=True)["sequence_output"][mask == 0])


@pytest.mark.medium
@pytest.mark.parametrize("kind", ["encoder", "tagger"])
def test_the_property_acts_after_a_prediction_and_not_on_files_for_litert(
    kind, tmp_path
):
    inputs, mask = batch(kind, LENGTHS["mixed"])
    model = MODELS[kind](config())
    name = "sequence_output" if kind == "encoder" else "logits"
    released = model.predict(inputs, verbose=0)[name]
    assert np.any(released[mask == 0])
    model.skip_padding = True
    assert not np.any(model.predict(inputs, verbose=0)[name][mask == 0])
    model.export(tmp_path / "model.tflite", format="litert", verbose=False)
    assert model.skip_padding
    model.skip_padding = False
    np.testing.assert_array_equal(model.predict(inputs, verbose=0)[name], released)

    pytest.importorskip("ai_edge_litert.interpreter", reason="needs the [lite] extra")
    found = lite_runner(str(tmp_path / "model.tflite"))(inputs)
    np.testing.assert_allclose(found[name], released, atol=1e-4)


def test_dropout_masks_depend_only_on_the_seed():
    model = MODELS["classifier"](small_config(30))
    model.skip_padding = True
    inputs, _ = batch("classifier", LENGTHS["mixed"])

    @tf.function(autograph=False)
    def call(seed):
        with model.dropout_seeds.use(seed):
            return model(inputs, training=True)["logits"]

    one, same, other = (call(tf.constant(seed)) for seed in ([1, 0], [1, 0], [2, 0]))
    np.testing.assert_array_equal(one, same)
    assert np.abs(np.subtract(one, other)).max() > 0
