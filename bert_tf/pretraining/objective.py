"""Loss and metrics of masked-LM and next-sentence pretraining."""

import math
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from bert_tf.modeling import BertPretrainer, variables_by_name
from bert_tf.training.losses import correct, cross_entropy

# The released code adds this to the number of predictions, against division by zero.
_EPSILON = 1e-5


class PretrainingObjective:
    """The released pretraining loss: masked-LM mean plus next-sentence mean.

    Args:
        model: The encoder with both heads.

    Source: google-research/bert `run_pretraining.get_masked_lm_output`, `get_next_sentence_output`.
    """

    def __init__(self, model: BertPretrainer) -> None:
        self.model = model
        self.variables: Mapping[str, Any] = variables_by_name(model)

    def counts(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """The number of predictions and of sentence pairs in the batch."""
        return {
            "masked_lm": tf.reduce_sum(batch["masked_lm_weights"]),
            "next_sentence": tf.cast(tf.shape(batch["next_sentence_labels"])[0], tf.float32),
        }

    def sums(self, batch: Mapping[str, Any], training: bool, seed: Any = None) -> dict[str, Any]:
        """Sums of both negative log likelihoods and of what was predicted right."""
        if training:
            with self.model.dropout_seeds.use(seed):
                outputs = self.model(batch, training=True)
        else:
            outputs = self.model(batch, training=False)
        masked = outputs["masked_lm_logits"]
        ids, weights = batch["masked_lm_ids"], batch["masked_lm_weights"]
        following = outputs["next_sentence_logits"]
        labels = batch["next_sentence_labels"][:, 0]
        return {
            "masked_lm_loss": tf.reduce_sum(weights * cross_entropy(masked, ids)),
            "masked_lm_correct": tf.reduce_sum(weights * correct(masked, ids)),
            "next_sentence_loss": tf.reduce_sum(cross_entropy(following, labels)),
            "next_sentence_correct": tf.reduce_sum(correct(following, labels)),
        }

    def loss(self, sums: Mapping[str, Any], counts: Mapping[str, Any]) -> Any:
        """Masked-LM loss per prediction plus next-sentence loss per pair."""
        return (
            sums["masked_lm_loss"] / (counts["masked_lm"] + _EPSILON)
            + sums["next_sentence_loss"] / counts["next_sentence"]
        )

    def metrics(self, sums: Mapping[str, float], counts: Mapping[str, float]) -> dict[str, float]:
        """Under the names of the released `eval_results.txt`."""
        predictions = counts["masked_lm"] or math.nan
        pairs = counts["next_sentence"] or math.nan
        return {
            "loss": sums["masked_lm_loss"] / (predictions + _EPSILON)
            + sums["next_sentence_loss"] / pairs,
            "masked_lm_accuracy": sums["masked_lm_correct"] / predictions,
            "masked_lm_loss": sums["masked_lm_loss"] / predictions,
            "next_sentence_accuracy": sums["next_sentence_correct"] / pairs,
            "next_sentence_loss": sums["next_sentence_loss"] / pairs,
        }
