"""On the original's path: SQuAD from its start, and pretraining from its step-10 checkpoint."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.conversion import assign, read_weights
from bert_tf.modeling import BertPretrainer, BertSpanPredictor, variables_by_name
from bert_tf.training import schedule
from bert_tf.training.optimizer import AdamWeightDecay

INPUTS = ("input_ids", "input_mask", "segment_ids")


@pytest.fixture(scope="module")
def golden(test_data):
    return test_data / "golden"


def cross_entropy(labels, logits):
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)


def span_loss(model, batch):
    outputs = model({name: batch[name] for name in INPUTS}, training=True)
    start = cross_entropy(batch["start_positions"], outputs["start_logits"])
    end = cross_entropy(batch["end_positions"], outputs["end_logits"])
    return (tf.reduce_mean(start) + tf.reduce_mean(end)) / 2


def pretraining_loss(model, batch):
    outputs = model(batch, training=True)
    losses = cross_entropy(batch["masked_lm_ids"], outputs["masked_lm_logits"])
    weights = batch["masked_lm_weights"]
    masked_lm = tf.reduce_sum(losses * weights) / (tf.reduce_sum(weights) + 1e-5)
    labels = batch["next_sentence_labels"][:, 0]
    return masked_lm + tf.reduce_mean(cross_entropy(labels, outputs["next_sentence_logits"]))


def train(model, optimizer, loss_of, trajectory, first):
    """Trains to the end of the trajectory from step `first`; returns the losses."""
    variables = variables_by_name(model)
    peak, steps, warmup = (
        trajectory[name].item() for name in ("learning_rate", "num_train_steps", "num_warmup_steps")
    )

    @tf.function
    def update(batch, step):
        with tf.GradientTape() as tape:
            loss = loss_of(model, batch)
        gradients = tape.gradient(loss, [v.value for v in variables.values()])
        # As the original: the lookup's gradient is not summed over repeated words before the norm
        # is taken, where the table has no other use.
        clipped, _ = tf.clip_by_global_norm(gradients, 1.0)
        rate = schedule.released(step, peak, steps, warmup)
        optimizer.apply(dict(zip(variables, clipped, strict=True)), rate)
        return loss

    names = [n for n in trajectory.files if trajectory[n].dtype in (np.int32, np.float32)]
    names = [n for n in names if not n.startswith("first_batch_")]
    batches = ({n: tf.constant(trajectory[n][i]) for n in names} for i in range(first, steps))
    return [update(b, tf.constant(i)).numpy() for i, b in enumerate(batches, start=first)]


def assert_reached(model, optimizer, prefix) -> None:
    reader = tf.train.load_checkpoint(str(prefix))
    held = {**variables_by_name(model), **optimizer.slots}
    for name, value in held.items():
        theirs = reader.get_tensor(name)
        np.testing.assert_allclose(np.asarray(value), theirs, atol=1e-4, err_msg=name)


def test_squad(golden):
    trajectory = np.load(golden / "google_squad/trajectory.npz")
    text = (golden / "google_pretraining/bert_config.json").read_text()
    model = BertSpanPredictor(BertConfig.from_json(text))
    assign(model, read_weights(str(golden / "google_squad/init")))
    optimizer = AdamWeightDecay(variables_by_name(model))
    losses = train(model, optimizer, span_loss, trajectory, 0)
    # Beyond step 11 this path is chaotic: a kernel changed by one part in 10 million moves the
    # loss of step 12 by 2e-3 and that of step 19 by 2e-2.
    np.testing.assert_allclose(losses[:11], trajectory["losses"][:11], atol=1e-4)
    np.testing.assert_allclose(losses, trajectory["losses"], atol=2e-2)
    # The pooler has no gradient: neither slots nor decay.
    pooler = model.bert.pooler.kernel.numpy()
    init = tf.train.load_checkpoint(str(golden / "google_squad/init/model.ckpt"))
    np.testing.assert_array_equal(pooler, init.get_tensor("bert/pooler/dense/kernel"))
    end = tf.train.load_checkpoint(str(golden / "google_squad/step20/model.ckpt-20"))
    np.testing.assert_array_equal(pooler, end.get_tensor("bert/pooler/dense/kernel"))
    assert not end.has_tensor("bert/pooler/dense/kernel/adam_m")


def test_pretraining_goes_on_from_the_originals_checkpoint(golden):
    trajectory = np.load(golden / "google_pretraining/trajectory.npz")
    text = (golden / "google_pretraining/bert_config.json").read_text()
    weights = read_weights(str(golden / "google_pretraining/step10"), slots=True)
    model = BertPretrainer(BertConfig.from_json(text))
    assign(model, weights)
    optimizer = AdamWeightDecay(variables_by_name(model))
    for name, slot in optimizer.slots.items():
        slot.assign(weights.slots[name])
    losses = train(model, optimizer, pretraining_loss, trajectory, weights.global_step)
    np.testing.assert_allclose(losses, trajectory["losses"][10:, 2], atol=1e-4)
    assert_reached(model, optimizer, golden / "google_pretraining/step30/model.ckpt-30")
