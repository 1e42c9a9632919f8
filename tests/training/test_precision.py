"""A small BERT in float16 and bfloat16, and a complete training step under XLA."""

import layout_runs
import linear_runs as runs
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.modeling import BertPretrainer
from bert_tf.pretraining.pretraining_objective import PretrainingObjective
from bert_tf.training.step.objective import loss_and_metrics
from bert_tf.training.tensorflow_step.step_runner import TensorFlowStepRunner


def bert(precision="float32", dropout=0.1):
    dtype = "float32" if precision == "float32" else f"mixed_{precision}"
    config = BertConfig(
        vocab_size=layout_runs.VOCABULARY, hidden_size=16, num_hidden_layers=1,
        num_attention_heads=2, intermediate_size=32, type_vocab_size=2,
        max_position_embeddings=layout_runs.LENGTH, hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )  # fmt: skip
    objective = PretrainingObjective(BertPretrainer(config, seed=1, dtype=dtype))
    training = runs.training_config(
        learning_rate=0.01, num_train_steps=30, precision=precision
    )
    return objective, TensorFlowStepRunner(objective, training)


@pytest.mark.medium
def test_float16_learns_as_float32_does():
    losses = {}
    for precision in ("float32", "bfloat16", "float16"):
        objective, run = bert(precision)
        iterator = iter(layout_runs.batches())
        results = [run.train(iterator, step, 10) for step in (0, 10, 20)]
        assert sum(result.scalars["skipped_steps"] for result in results) == 0
        losses[precision] = [
            loss_and_metrics(objective, r.sums, r.counts)["loss"] for r in results
        ]
    assert losses["float32"][0] - losses["float32"][2] > 0.2
    np.testing.assert_allclose(losses["float16"], losses["float32"], rtol=0.02)
    np.testing.assert_allclose(losses["bfloat16"], losses["float32"], rtol=0.04)


@pytest.mark.medium
def test_steps_skipped_by_a_high_loss_scale_are_not_bad_steps():
    _, run = bert("float16")
    run.optimizer.slots["loss_scale"].assign(2.0**40)
    result = run.train(iter(layout_runs.batches()), 0, 30)
    skipped = result.scalars["skipped_steps"]
    assert 3 < skipped < 30 and result.steps == 30 and result.bad_in_a_row == 0
    assert float(run.optimizer.loss_scale) == 2.0 ** (40 - skipped)


@pytest.mark.medium
def test_a_complete_training_step_compiles_with_xla():
    """As on a TPU, one XLA program has gradients, clipping and update."""
    results = []
    for compiled in (False, True):
        # XLA generates other dropout masks.
        objective, run = bert(dropout=0.0)
        step = tf.function(run._step, jit_compile=compiled)
        # Each call of the compiled step takes seconds. This one is after the warm-up.
        batch = next(iter(layout_runs.batches()))
        arguments = batch, tf.constant(3, tf.int64), tf.constant(0.0, tf.float64)
        sums, counts, *_ = step(*arguments)
        loss = loss_and_metrics(objective, sums, counts)["loss"]
        results.append((loss, np.asarray(objective.model.bert.pooler.kernel)))
    np.testing.assert_allclose(results[1][0], results[0][0], rtol=1e-4)
    np.testing.assert_allclose(results[1][1], results[0][1], atol=1e-4)
