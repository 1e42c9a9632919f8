"""Objectives with a tiny BERT, whose outputs differ between examples."""

import tensorflow as tf
from tiny_bert import small_config

from bert_tf.training.step.objective import loss_and_metrics

CONFIG = small_config(
    30,
    num_hidden_layers=1,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)


def make_objective(task, factor=20, seed=3):
    """Returns the objective of a task without dropout.

    Its weights are multiplied by a factor.
    """
    objective = task.make_objective(CONFIG, seed=seed, dtype="float32")
    if hasattr(objective.model, "dropout"):
        objective.model.dropout.rate = 0.0
    for variable in objective.variables.values():
        variable.assign(factor * variable)
    return objective


def evaluate(objective, batch):
    """Returns the loss and the metrics of a batch of tensors or arrays."""
    batch = tf.nest.map_structure(tf.convert_to_tensor, batch)
    sums = objective.sums(batch, training=False)
    return loss_and_metrics(objective, sums, objective.counts(batch))


def gradients(objective, batch):
    """Returns loss and metrics of a batch in training, and the gradients of all."""
    batch = tf.nest.map_structure(tf.convert_to_tensor, batch)
    with tf.GradientTape() as tape:
        sums = objective.sums(batch, training=True, seed=tf.constant([1, 2]))
        counts = objective.counts(batch)
        loss = objective.loss(sums, counts)
    values = {name: variable.value for name, variable in objective.variables.items()}
    found = tape.gradient(loss, values, unconnected_gradients="zero")
    arrays = {name: tf.convert_to_tensor(each).numpy() for name, each in found.items()}
    return float(loss), objective.metrics(sums, counts), arrays
