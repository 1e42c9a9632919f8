"""Computed costs: parameters of models, FLOPs of graphs, memory of processes."""

import os

import numpy as np
import pytest
import tensorflow as tf
from run_programs import run_python
from tiny_bert import small_config

from bert_tf.config import BertConfig
from bert_tf.modeling import BertPretrainer, costs, variables_by_name

SMALL = small_config(50, hidden_size=16, intermediate_size=48)


def test_parameter_counts_equal_the_sizes_of_the_variables():
    weights = variables_by_name(BertPretrainer(SMALL)).values()
    assert sum(costs.parameter_counts(SMALL).values()) == sum(
        np.prod(w.shape) for w in weights
    )


def product_flops(graph):
    """Yields the 2nkm FLOPs of each matrix product [n, k] @ [k, m] in a graph."""
    for op in graph.get_operations():
        if op.type not in ("MatMul", "BatchMatMulV2"):
            continue
        left, right = (list(tensor.shape) for tensor in op.inputs)
        transposed_left = op.get_attr("transpose_a" if op.type == "MatMul" else "adj_x")
        transposed_right = op.get_attr(
            "transpose_b" if op.type == "MatMul" else "adj_y"
        )
        rows, inner = left[-2:][::-1] if transposed_left else left[-2:]
        columns = right[-2] if transposed_right else right[-1]
        # Row and column sums are implemented as products with a vector, and the lookup
        # of segment embeddings is a product with one-hot rows. The project's FLOPs
        # exclude both by definition.
        if 1 in (rows, columns) or "one_hot" in op.inputs[0].op.name:
            continue
        yield 2 * int(np.prod(left[:-2])) * rows * inner * columns


@pytest.mark.parametrize("predictions", [0, 3])
def test_flops_equal_those_of_the_products_in_the_graph(predictions):
    batch, length = 4, 8
    model = BertPretrainer(SMALL, seed=0)
    inputs = {
        name: tf.ones((batch, length), tf.int32)
        for name in ("input_ids", "input_mask", "segment_ids")
    }
    if predictions:
        inputs["masked_lm_positions"] = tf.ones((batch, predictions), tf.int32)
        run, weights = model, variables_by_name(model)
    else:
        run, weights = model.bert, variables_by_name(model.bert)

    @tf.function
    def forward_pass():
        return list(run(inputs, training=True).values())

    @tf.function
    def training_step():
        with tf.GradientTape() as tape:
            outputs = run(inputs, training=True)
            loss = tf.add_n(
                [
                    tf.reduce_sum(outputs[name] ** 2)
                    for name in outputs
                    if name.endswith(("logits", "pooled_output"))
                ]
            )
        return tape.gradient(loss, [weight.value for weight in weights.values()])

    shape = (batch, length, predictions, bool(predictions))
    for function, factor in ((forward_pass, 3), (training_step, 1)):
        traced = product_flops(function.get_concrete_function().graph)
        assert factor * sum(traced) == costs.training_step_flops(SMALL, *shape)


def test_memory_depends_on_precision_recomputation_and_averaging():
    base = BertConfig.named("base", 30522)
    default = costs.training_step_memory(base, 32, 512, 76)
    recomputed = costs.training_step_memory(base, 32, 512, 76, recompute=True)
    half = costs.training_step_memory(base, 32, 512, 76, "bfloat16")
    assert default["weights"] == 4 * 110_106_428
    assert default["moments"] == 8 * 110_106_428
    assert recomputed["activations"] < default["activations"] / 4
    assert half["activations"] < 0.6 * default["activations"]
    assert (
        costs.training_step_memory(base, 64, 512, 76)["logits"] == 2 * default["logits"]
    )
    averaged = costs.training_step_memory(base, 32, 512, 76, averaged=True)
    assert averaged["moments"] == 12 * 110_106_428


MEASURE = r"""
import pathlib, re, sys
import keras, numpy as np, tensorflow as tf
from bert_tf.config import BertConfig
from bert_tf.modeling import BertPretrainer, variables_by_name
size, vocabulary, batch, length, predictions, precision, recompute = eval(sys.argv[1])
if precision == "bfloat16":
    keras.config.set_dtype_policy("mixed_bfloat16")
tf.matmul(tf.ones((8, 8)), tf.ones((8, 8)))
# ru_maxrss would include the memory that the process used before exec.
status = pathlib.Path("/proc/self/status")
peak = lambda: int(re.search(r"VmHWM:\s+(\d+) kB", status.read_text())[1]) * 1024
before = peak()
model = BertPretrainer(BertConfig.named(size, vocabulary), seed=0, recompute=recompute)
weights = [weight.value for weight in variables_by_name(model).values()]
moments = [[tf.Variable(tf.zeros(w.shape)) for w in weights] for _ in range(2)]
ones = tf.ones((batch, length), tf.int32)
inputs = {"input_ids": ones, "input_mask": ones, "segment_ids": ones}
inputs["masked_lm_positions"] = tf.ones((batch, predictions), tf.int32)

@tf.function
def step(inputs, seed):
    with tf.GradientTape() as tape, model.dropout_seeds.use(seed):
        outputs = model(inputs, training=True)
        loss = -tf.reduce_mean(tf.nn.log_softmax(outputs["masked_lm_logits"])[..., 5])
        next_sentence = tf.nn.log_softmax(outputs["next_sentence_logits"])
        loss -= tf.reduce_mean(next_sentence[..., 0])
    gradients = [tf.convert_to_tensor(g) for g in tape.gradient(loss, weights)]
    gradients, _ = tf.clip_by_global_norm(gradients, 1.0)
    for w, m, v, g in zip(weights, *moments, gradients):
        tf.raw_ops.ResourceApplyAdam(
            var=w.handle, m=m.handle, v=v.handle,
            beta1_power=0.0, beta2_power=0.0, lr=1e-4,
            beta1=0.9, beta2=0.999, epsilon=1e-6, grad=g)
    return loss

for number in range(3):
    step(inputs, tf.constant([number, 0])).numpy()
print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        ("small", 30522, 16, 128, 20, "float32", False),
        ("small", 30522, 16, 128, 20, "bfloat16", False),
        ("mini", 8000, 16, 512, 76, "float32", True),
        ("small", 30522, 16, 512, 76, "bfloat16", True),
    ],
)
def test_memory_estimate_is_near_the_peak_of_a_process(case):
    size, vocabulary, *shape, precision, recompute = case
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    run = run_python("-c", MEASURE, repr(case), env=environment)
    config = BertConfig.named(size, vocabulary)
    memory = costs.training_step_memory(config, *shape, precision, recompute)
    assert sum(memory.values()) == pytest.approx(int(run.stdout), rel=0.25)
