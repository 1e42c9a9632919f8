"""The layers between encoder and output layer: BiLSTM, combined states, pooling."""

import numpy as np
import pytest
from reference.bilstm import bilstm
from refusals import refused
from tiny_bert import random_inputs, small_config

from bert_tf import BertClassifier, BertSpanPredictor, BertTagger
from bert_tf.head_config import FEATURE_LAYERS, HeadConfig
from bert_tf.modeling.heads import HeadLayers

CONFIG = small_config(50, num_hidden_layers=5, initializer_range=0.5)
LENGTHS = [9, 1, 5]
INPUTS = random_inputs(LENGTHS, 9)
MASK = INPUTS["input_mask"]
MODELS = {
    BertTagger: {"num_labels": 3},
    BertClassifier: {"num_labels": 3},
    BertSpanPredictor: {},
}


def layers(pools=False, **settings):
    return HeadLayers(CONFIG, HeadConfig(**settings), pools)


def random_states(count):
    return np.random.default_rng(1).normal(size=(3, 9, count, 8)).astype(np.float32)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("embeddings", [0]),
        ("second_to_last", [11]),
        ("last", [12]),
        ("weighted_sum_last_four", [9, 10, 11, 12]),
        ("concat_last_four", [9, 10, 11, 12]),
        ("weighted_sum_all", list(range(1, 13))),
    ],
)
def test_the_rows_of_table_7_have_these_hidden_states_of_base(name, expected):
    assert list(HeadConfig(feature_layers=name).states(12)) == expected


@pytest.mark.parametrize("name", ["weighted_sum_last_four", "weighted_sum_all"])
def test_a_sum_with_one_weight_at_1_is_that_layer(name):
    head = layers(feature_layers=name)
    states = random_states(len(head.head.states(5)))
    # The initial weights give the mean.
    np.testing.assert_allclose(head(states, MASK), states.mean(axis=2), atol=1e-6)
    for chosen in range(states.shape[2]):
        head.layer_weights.assign(np.eye(states.shape[2])[chosen])
        np.testing.assert_array_equal(head(states, MASK), states[:, :, chosen])


def test_concat_puts_the_layers_next_to_each_other():
    states = random_states(4)
    found = layers(feature_layers="concat_last_four")(states, MASK)
    np.testing.assert_array_equal(found, states.reshape(*states.shape[:2], -1))


@pytest.mark.parametrize("pools", [False, True])
def test_two_lstm_layers_agree_with_numpy_for_padded_sequences(pools):
    head = layers(pools, kind="bilstm", lstm_layers=2, lstm_size=6)
    states = random_states(1)
    found = np.asarray(head(states, MASK))
    weights = [np.asarray(each) for each in head.variables_by_name().values()]
    assert found.shape == ((3, 6) if pools else (3, 9, 6))
    for row, length in enumerate(LENGTHS):
        first = bilstm(states[row, :length, 0], weights[0:3], weights[3:6])
        expected = bilstm(first, weights[6:9], weights[9:12])
        values = found[row]
        if pools:  # the last output of each direction
            expected = np.concatenate([expected[-1, :3], expected[0, 3:]])
        else:
            values = values[:length]
        np.testing.assert_allclose(values, expected, atol=1e-6)


def test_a_linear_classifier_takes_the_mean_over_the_tokens():
    states = random_states(1)
    found = layers(True, feature_layers="last")(states, MASK)
    expected = [
        states[row, :length, 0].mean(axis=0) for row, length in enumerate(LENGTHS)
    ]
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("model_class", "kind", "feature_layers"),
    [
        *((BertTagger, "linear", name) for name in (None, *FEATURE_LAYERS)),
        (BertTagger, "bilstm", None),
        (BertTagger, "bilstm", "concat_last_four"),
        # Of these models, only this one combines the tokens of a text.
        (BertClassifier, "linear", None),
        (BertClassifier, "linear", "concat_last_four"),
        (BertClassifier, "linear", "weighted_sum_all"),
        (BertClassifier, "bilstm", None),
        (BertClassifier, "bilstm", "weighted_sum_all"),
        (BertSpanPredictor, "linear", None),
        (BertSpanPredictor, "bilstm", "weighted_sum_all"),
    ],
)
def test_the_outputs_are_those_of_the_hidden_states(model_class, kind, feature_layers):
    head = HeadConfig(kind, 2, 6, feature_layers)
    model = model_class(CONFIG, head=head, seed=1, **MODELS[model_class])
    outputs = model(INPUTS)
    again = model_class.from_config(model.get_config())
    variables, others = (each.variables_by_name() for each in (model, again))
    for name in variables.keys() | others.keys():
        assert others[name].shape == variables[name].shape
    if head.is_default:
        with refused("no layers that take hidden states"):
            model.features(INPUTS)
        return
    states, mask = model.features(INPUTS), MASK
    if states.shape[1] == 1:
        assert (model_class, kind) == (BertClassifier, "linear")
        mask = np.ones([3, 1], np.int32)
    found = model.outputs_of_features(states, mask)
    for name, value in outputs.items():
        np.testing.assert_allclose(found[name], value, atol=1e-5)
        assert np.abs(np.asarray(value)).max() > 1e-3
    padded = {name: np.pad(each, [[0, 0], [0, 3]]) for name, each in INPUTS.items()}
    longer = model(padded)
    for name, value in outputs.items():
        for row, length in enumerate(LENGTHS):
            part = slice(None if model_class is BertClassifier else length)
            expected = np.asarray(value)[row, part]
            np.testing.assert_allclose(
                np.asarray(longer[name])[row, part], expected, atol=1e-5
            )


def test_heads_are_saved_with_a_model(tmp_path):
    import keras

    head = HeadConfig("bilstm", 1, 4, "weighted_sum_all")
    model = BertTagger(CONFIG, num_labels=3, head=head, seed=1)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(INPUTS)["logits"], model(INPUTS)["logits"])


def test_a_seed_determines_the_weights_of_the_lstm():
    def kernels(seed):
        head = HeadConfig("bilstm", 2, 4)
        model = BertTagger(CONFIG, num_labels=3, head=head, seed=seed)
        variables = model.head_layers.variables_by_name()
        return [np.asarray(variables[n]).tobytes() for n in variables if "kernel" in n]

    first, same, other = map(kernels, (1, 1, 2))
    assert first == same and len({*first}) == 8 and not {*first} & {*other}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "lstm"}, "head must be one of linear, bilstm"),
        ({"lstm_layers": 0}, "lstm_layers must be from 1 to 20. Received: 0."),
        ({"lstm_size": 0}, "lstm_size must be from 2 to 8192. Received: 0."),
        ({"lstm_size": 7}, "lstm_size must be even"),
        ({"feature_layers": "first"}, "feature_layers must be one of embeddings"),
    ],
)
def test_invalid_settings_are_refused(settings, message):
    with refused(message):
        HeadConfig.from_dict(settings)


def test_a_model_with_too_few_blocks_is_refused():
    with refused("needs more blocks than the 3 of this model"):
        HeadConfig(feature_layers="concat_last_four").states(3)
    assert HeadConfig(feature_layers="concat_last_four").states(4) == (1, 2, 3, 4)
    assert HeadConfig(feature_layers="second_to_last").states(2) == (1,)
