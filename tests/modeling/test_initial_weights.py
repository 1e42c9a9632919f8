"""Initial weights: their distribution, and how the seed determines them."""

import keras
import numpy as np
import pytest
from tiny_bert import small_config

from bert_tf.config import BertConfig
from bert_tf.modeling import BertEncoder, BertPretrainer, variables_by_name
from bert_tf.modeling.initial_weights import drawn_late

CONFIG = small_config(50, hidden_size=32, num_attention_heads=4, intermediate_size=64)


def test_initial_weights_have_a_truncated_normal_distribution():
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
                # A normal distribution truncated at two standard deviations has 0.8796
                # of its original standard deviation.
                assert values.std() == pytest.approx(0.02 * 0.8796, rel=0.02), name
                assert abs(values.mean()) < 5 * 0.02 / np.sqrt(values.size), name


def test_equal_seeds_give_equal_initial_weights():
    def initial_values(**arguments):
        variables = variables_by_name(BertEncoder(CONFIG, **arguments))
        return [np.asarray(variable) for variable in variables.values()]

    for one, two in zip(initial_values(seed=3), initial_values(seed=3), strict=True):
        np.testing.assert_array_equal(one, two)
    assert not np.array_equal(initial_values(seed=3)[0], initial_values(seed=4)[0])
    keras.utils.set_random_seed(5)
    first = initial_values()
    keras.utils.set_random_seed(5)
    np.testing.assert_array_equal(first[0], initial_values()[0])
    query, key = first[5], first[7]
    assert not np.array_equal(query, key)


def test_late_weights_are_those_that_nothing_set():
    def model():
        return variables_by_name(BertPretrainer(CONFIG, seed=3, dtype="bfloat16"))

    expected = {name: np.asarray(value) for name, value in model().items()}
    given = [name for name in expected if "layer_0" in name or "pooler" in name]
    with drawn_late() as waiting:
        variables = model()
        for name in given:
            variables[name].assign(np.full(expected[name].shape, 0.25))
        left = "cls/predictions/transform/dense/kernel"
        waiting[:] = [pair for pair in waiting if pair[0] is not variables[left]]

    for name, variable in variables.items():
        values = np.asarray(variable)
        if name in given:
            assert (values == 0.25).all(), name
        elif name != left:
            np.testing.assert_array_equal(values, expected[name], err_msg=name)
    assert np.isinf(np.asarray(variables[left]).astype("float32")).all()
    # Models that are created afterwards are drawn at once.
    np.testing.assert_array_equal(model()[left], expected[left])


def test_no_late_weights_are_drawn_after_an_error():
    with pytest.raises(KeyError), drawn_late():
        variables = variables_by_name(BertEncoder(CONFIG, seed=3))
        raise KeyError
    assert np.isinf(np.asarray(variables["bert/pooler/dense/kernel"])).all()
