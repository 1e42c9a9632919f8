"""Loss and metrics of multiple choice. Shape letters: B batch, C choices."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from bert_tf.tasks.head_objective import HeadObjective

# The score of a choice that an example does not have. Its softmax is 0 in float32.
MISSING_CHOICE = -1e9


class ChoiceObjective(HeadObjective):
    """Mean cross entropy of the softmax over the choices of each example.

    The score of a choice is the dot product of a vector with the pooled output of its
    sequence.

    Args:
        model: The encoder with one output for each choice.
        best_by: The metric that selects the best weights, and 1 if higher values are
            better, else -1.

    Source: the paper "BERT: Pre-training of Deep Bidirectional Transformers", section
    4.4.
    """

    def _run_model(
        self, batch: Mapping[str, Any], training: bool = False
    ) -> dict[str, Any]:
        logits = super()._run_model(batch, training)["logits"]
        exists = tf.sequence_mask(batch["num_choices"], logits.shape[-1])
        return {"logits": tf.where(exists, logits, MISSING_CHOICE)}
