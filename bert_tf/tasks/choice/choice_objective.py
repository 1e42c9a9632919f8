"""Loss and metrics of multiple choice. Shape letters: B batch, C choices."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from bert_tf.tasks.head_objective import HeadObjective
from bert_tf.training.step.losses import correct_predictions, cross_entropy

# The score of a choice that an example does not have. Its softmax is 0 in float32.
MISSING_CHOICE = -1e9


class ChoiceObjective(HeadObjective):
    """Mean cross entropy of the softmax over the choices of each example.

    The score of a choice is the dot product of a vector with the pooled output of its sequence.

    Args:
        model: The encoder with one output for each choice.
        best_by: The metric that selects the best weights, and 1 if higher values are better, else
            -1.

    Source: the paper "BERT: Pre-training of Deep Bidirectional Transformers", section 4.4.
    """

    def _sums(self, outputs: Mapping[str, Any], batch: Mapping[str, Any]) -> dict[str, Any]:
        logits, labels = _without_missing(outputs["logits"], batch), batch["label_ids"]
        return {
            "loss": tf.reduce_sum(cross_entropy(logits, labels)),
            "correct": tf.reduce_sum(correct_predictions(logits, labels)),
        }

    def metrics(self, sums: Mapping[str, float], counts: Mapping[str, float]) -> dict[str, float]:
        """Returns the accuracy."""
        return {"accuracy": sums["correct"] / counts["examples"]}

    def outputs(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Returns `logits` and `probabilities`, float32 [B, C]; 0.0 is that of a missing choice."""
        logits = _without_missing(self.model(batch, training=False)["logits"], batch)
        return {"logits": logits, "probabilities": tf.nn.softmax(logits)}


def _without_missing(logits: Any, batch: Mapping[str, Any]) -> Any:
    """Replaces the scores of choices that an example does not have, float32 [B, C]."""
    exists = tf.sequence_mask(batch["num_choices"], logits.shape[-1])
    return tf.where(exists, logits, MISSING_CHOICE)
