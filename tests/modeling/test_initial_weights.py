"""Initial weights: their distribution, and how the seed determines them."""

import keras
import numpy as np
import pytest
from tiny_bert import small_config

from bert_tf.config import BertConfig
from bert_tf.modeling import BertEncoder, BertPretrainer, variables_by_name

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
        return [
            np.asarray(v)
            for v in variables_by_name(BertEncoder(CONFIG, **arguments)).values()
        ]

    for one, two in zip(initial_values(seed=3), initial_values(seed=3), strict=True):
        np.testing.assert_array_equal(one, two)
    assert not np.array_equal(initial_values(seed=3)[0], initial_values(seed=4)[0])
    keras.utils.set_random_seed(5)
    first = initial_values()
    keras.utils.set_random_seed(5)
    np.testing.assert_array_equal(first[0], initial_values()[0])
    query, key = first[5], first[7]
    assert not np.array_equal(query, key)
