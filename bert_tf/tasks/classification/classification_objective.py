"""Loss and metrics of a classifier."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from bert_tf.modeling import BertClassifier, depths_by_name, variables_by_name
from bert_tf.training.step.losses import correct_predictions, cross_entropy


class ClassificationObjective:
    """Mean cross entropy over the labels.

    Args:
        model: The encoder with a classification head.

    Source: google-research/bert `run_classifier.create_model`.
    """

    best_by = ("accuracy", 1)

    def __init__(self, model: BertClassifier) -> None:
        self.model = model
        self.variables: Mapping[str, Any] = variables_by_name(model)
        self.depths: Mapping[str, int] = depths_by_name(model)

    def counts(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the number of examples in the batch."""
        return {"examples": tf.cast(tf.shape(batch["label_ids"])[0], tf.float32)}

    def sums(self, batch: Mapping[str, Any], training: bool, seed: Any = None) -> dict[str, Any]:
        """Returns the sum of the losses and the number of correct predictions."""
        if training:
            with self.model.dropout_seeds.use(seed):
                logits = self.model(batch, training=True)["logits"]
        else:
            logits = self.model(batch, training=False)["logits"]
        labels = batch["label_ids"]
        return {
            "loss": tf.reduce_sum(cross_entropy(logits, labels)),
            "correct": tf.reduce_sum(correct_predictions(logits, labels)),
        }

    def loss(self, sums: Mapping[str, Any], counts: Mapping[str, Any]) -> Any:
        """Returns the mean loss per example."""
        return sums["loss"] / counts["examples"]

    def metrics(self, sums: Mapping[str, float], counts: Mapping[str, float]) -> dict[str, float]:
        """Returns the accuracy."""
        return {"accuracy": sums["correct"] / counts["examples"]}

    def outputs(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Returns `logits` and `probabilities`, float32 [B, labels]."""
        logits = self.model(batch, training=False)["logits"]
        return {"logits": logits, "probabilities": tf.nn.softmax(logits)}
