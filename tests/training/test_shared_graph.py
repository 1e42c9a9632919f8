"""One graph for all blocks gives the values and gradients of a graph for each."""

import numpy as np
import pytest
import tensorflow as tf
from tiny_bert import random_inputs, small_config

from bert_tf.modeling import BertClassifier, variables_by_name
from bert_tf.training.step.tensorflow_functions import share_graph

CONFIG = small_config(50, num_hidden_layers=2)


def values_and_gradients(model, share_graph, jit_compile=False):
    """Returns the logits, the gradients by name, and how often a block was traced."""
    inputs = random_inputs([7, 12, 1], 12)
    variables = variables_by_name(model)
    traced = []
    for block in model.bert.blocks:
        call = block.call
        block.call = lambda *args, call=call, **kwargs: (
            traced.append(1) or call(*args, **kwargs)
        )

    @tf.function(autograph=False, jit_compile=jit_compile)
    def step():
        seed = tf.constant([3, 4])
        with tf.GradientTape() as tape, model.dropout_seeds.use(seed, share_graph):
            logits = model(inputs, training=True)["logits"]
            loss = tf.reduce_sum(logits * [[1.0, -2.0]])
        gradients = tape.gradient(loss, [v.value for v in variables.values()])
        return logits, [tf.convert_to_tensor(each) for each in gradients]

    logits, gradients = step()
    found = {"logits": logits, **dict(zip(variables, gradients, strict=True))}
    return {name: value.numpy() for name, value in found.items()}, len(traced)


def change(model, kind):
    if kind == "skip_padding":
        model.skip_padding = True
    if kind == "lora":
        model.bert.layer_1.output_dense.enable_lora(2)
    if kind == "frozen":
        model.bert.layer_1.trainable = False


@pytest.mark.parametrize(
    ("kind", "traces"),
    [
        ("float32", 1),
        ("skip_padding", 1),
        ("lora", 2),
        pytest.param("recompute", 4, marks=pytest.mark.medium),
        *(
            pytest.param(kind, 1, marks=pytest.mark.medium)
            for kind in ("mixed_bfloat16", "frozen", "xla")
        ),
    ],
)
def test_a_shared_graph_gives_the_values_of_separate_ones(kind, traces):
    dtype = "mixed_bfloat16" if kind == "mixed_bfloat16" else "float32"
    results = []
    for sharing in (None, share_graph):
        model = BertClassifier(
            CONFIG, num_labels=2, seed=1, dtype=dtype, recompute=kind == "recompute"
        )
        change(model, kind)
        results.append(values_and_gradients(model, sharing, jit_compile=kind == "xla"))

    (expected, _), (found, count) = results
    assert count == traces
    # One rounding of each dtype, relative to the largest value of an array.
    tolerance = 2e-2 if dtype == "mixed_bfloat16" else 2e-6
    for name, value in expected.items():
        scale = np.abs(value).max() + 1e-6
        np.testing.assert_allclose(
            found[name], value, rtol=0, atol=tolerance * scale, err_msg=name
        )


def test_eager_execution_shares_no_graph():
    assert share_graph(lambda: None) is None
