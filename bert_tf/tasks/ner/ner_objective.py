"""Loss and metrics of tagging. Shape letters: B batch, S sequence, C tags."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from bert_tf.tasks.head_objective import HeadObjective, weighted
from bert_tf.training.step.losses import correct_predictions, cross_entropy, divergence


class NerObjective(HeadObjective):
    """The mean cross entropy over the words of a batch that have a label.

    Source: paper, section 5.3: the first sub-token of each word has the label. The
    other positions
    ([CLS], [SEP], further sub-tokens, document context and padding) are ignored.
    """

    def counts(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the number of words with a label; each record has at least one."""
        return {"words": tf.reduce_sum(_has_label(batch))}

    def sums_of_outputs(
        self, outputs: Mapping[str, Any], batch: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Returns the sum of the losses, and the numerators of the metrics."""
        logits, has_label = outputs["logits"], _has_label(batch)
        labels = tf.maximum(batch["label_ids"] - 1, 0)
        return {
            "loss": tf.reduce_sum(
                has_label * weighted(cross_entropy(logits, labels), batch)
            ),
            "correct": tf.reduce_sum(has_label * correct_predictions(logits, labels)),
        }

    def logits_to_learn(self, outputs: Mapping[str, Any]) -> Any:
        """Returns the logits of all positions, float32 [B, S, C]."""
        return outputs["logits"]

    def teacher_losses(
        self,
        outputs: Mapping[str, Any],
        teacher: Any,
        batch: Mapping[str, Any],
        temperature: float,
    ) -> Any:
        """Returns the sums of the divergences of the softmaxes over the tags of words: [B]."""
        losses = divergence(teacher, outputs["logits"], temperature)
        return tf.reduce_sum(_has_label(batch) * losses, axis=-1)

    def loss(self, sums: Mapping[str, Any], counts: Mapping[str, Any]) -> Any:
        """Returns the mean loss per word."""
        return sums["loss"] / counts["words"]

    def metrics(
        self, sums: Mapping[str, float], counts: Mapping[str, float]
    ) -> dict[str, float]:
        """Returns the share of words with the correct tag."""
        return {"accuracy": sums["correct"] / counts["words"]}

    def outputs(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Returns `predictions`, the index of the best tag, and `label_ids`: int32 [B, S] each."""
        logits = self._run_model(batch)["logits"]
        predictions = tf.argmax(logits, axis=-1, output_type=tf.int32)
        return {"predictions": predictions, "label_ids": batch["label_ids"]}


def _has_label(batch: Mapping[str, Any]) -> Any:
    """Returns 1.0 at positions with a label, else 0.0: float32 [B, S]."""
    return tf.cast(batch["label_ids"] > 0, tf.float32)
