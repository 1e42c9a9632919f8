"""Loss and metrics of span prediction. Shape letters: B batch, S sequence."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from bert_tf.modeling import BertSpanPredictor
from bert_tf.tasks.head_objective import HeadObjective, weighted
from bert_tf.training.step.losses import correct_predictions, divergence

_PADDING_LOGIT = -1e9


class SquadObjective(HeadObjective):
    """The mean of the cross entropies of the first and of the last position of the answer.

    The answer of a window without the answer is position 0, [CLS].

    Args:
        model: The encoder with the head for spans.
        best_by: The metric that selects the best weights, and 1 if higher values are
            better, else -1.
        padding_as_released: Whether padding positions are classes of both softmaxes, as
            in google-research/bert. All batches then have the full length.

    Source: google-research/bert `run_squad.model_fn_builder`.
    """

    def __init__(
        self,
        model: BertSpanPredictor,
        best_by: tuple[str, int] = ("f1", 1),
        padding_as_released: bool = False,
    ) -> None:
        super().__init__(model, best_by)
        self.full_length = padding_as_released

    def sums_of_outputs(
        self, outputs: Mapping[str, Any], batch: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Returns the sum of the losses, and the numerators of the metrics."""
        sums = {"loss": 0.0}
        for name in ("start", "end"):
            logits, positions = outputs[f"{name}_logits"], batch[f"{name}_positions"]
            if not self.full_length:
                logits = tf.where(batch["input_mask"] > 0, logits, _PADDING_LOGIT)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(positions, logits)
            sums["loss"] += tf.reduce_sum(weighted(losses, batch)) / 2
            sums[f"{name}_correct"] = tf.reduce_sum(
                correct_predictions(logits, positions)
            )
        return sums

    def logits_to_learn(self, outputs: Mapping[str, Any]) -> Any:
        """Returns the start and end logits of all positions, float32 [B, S, 2]."""
        return tf.stack([outputs["start_logits"], outputs["end_logits"]], axis=-1)

    def teacher_losses(
        self,
        outputs: Mapping[str, Any],
        teacher: Any,
        batch: Mapping[str, Any],
        temperature: float,
    ) -> Any:
        """Returns the mean divergences of the softmaxes over the start and end tokens, [B].

        Padding positions are never classes, because the teacher's logits there are not
        cached.
        """
        is_token = batch["input_mask"][..., None] > 0
        both = self.logits_to_learn(outputs), teacher
        own, given = (
            tf.transpose(tf.where(is_token, x, _PADDING_LOGIT), [0, 2, 1]) for x in both
        )
        return tf.reduce_mean(divergence(given, own, temperature), axis=-1)

    def metrics(
        self, sums: Mapping[str, float], counts: Mapping[str, float]
    ) -> dict[str, float]:
        """Returns the shares of correct first and last positions."""
        return {
            f"{name}_accuracy": sums[f"{name}_correct"] / counts["examples"]
            for name in ("start", "end")
        }

    def outputs(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Returns `start_logits` and `end_logits`, float32 [B, S], and the inputs of the model."""
        inputs = {
            name: batch[name] for name in ("input_ids", "input_mask", "segment_ids")
        }
        return {**self.model(inputs, training=False), **inputs}
