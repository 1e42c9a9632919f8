"""Loss and metrics of pretraining: masked LM, next sentence, and left-to-right LM."""

import math
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from bert_tf.errors import InputError
from bert_tf.modeling import BertPretrainer, depths_by_name, variables_by_name
from bert_tf.training.losses import correct, cross_entropy

OBJECTIVES = ("mlm_nsp", "mlm", "causal")
# The released code adds this to the number of predictions, against division by zero.
_EPSILON = 1e-5


class PretrainingObjective:
    """The released pretraining loss, or that of one of the paper's ablations.

    mlm_nsp: masked-LM mean plus next-sentence mean, the released loss.
    mlm: the masked-LM mean alone ("No NSP" in the paper's table 5).
    causal: each token is predicted from those before it ("LTR & No NSP"), by the masked-LM head.
        The records' masks are not looked at: make them with `--objective=causal`, which has none.

    Args:
        model: The encoder with both heads; with causal attention for "causal".
        kind: One of `OBJECTIVES`.

    Raises:
        InputError: "causal" and a model that sees what it has to predict.

    Source: google-research/bert `run_pretraining.get_masked_lm_output`,
        `get_next_sentence_output`; paper, section 5.1.
    """

    best_by = ("loss", -1)

    def __init__(self, model: BertPretrainer, kind: str = "mlm_nsp") -> None:
        if kind == "causal" and model.config.attention != "causal":
            raise InputError(
                'The objective causal needs a model whose attention is "causal"; that of this one '
                f'is "{model.config.attention}", which sees the token it has to predict.'
            )
        self.model, self._kind = model, kind
        self.variables: Mapping[str, Any] = variables_by_name(model)
        self.depths: Mapping[str, int] = depths_by_name(model)

    def counts(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """The number of predictions and of sentence pairs in the batch."""
        counts = {"masked_lm": tf.reduce_sum(self._targets(batch)["masked_lm_weights"])}
        if self._kind == "mlm_nsp":
            pairs = tf.shape(batch["next_sentence_labels"])[0]
            counts["next_sentence"] = tf.cast(pairs, tf.float32)
        return counts

    def sums(self, batch: Mapping[str, Any], training: bool, seed: Any = None) -> dict[str, Any]:
        """Sums of the negative log likelihoods and of what was predicted right."""
        batch = {**batch, **self._targets(batch)}
        if training:
            with self.model.dropout_seeds.use(seed):
                outputs = self.model(batch, training=True)
        else:
            outputs = self.model(batch, training=False)
        masked = outputs["masked_lm_logits"]
        ids, weights = batch["masked_lm_ids"], batch["masked_lm_weights"]
        sums = {
            "masked_lm_loss": tf.reduce_sum(weights * cross_entropy(masked, ids)),
            "masked_lm_correct": tf.reduce_sum(weights * correct(masked, ids)),
        }
        if self._kind == "mlm_nsp":
            following = outputs["next_sentence_logits"]
            labels = batch["next_sentence_labels"][:, 0]
            sums["next_sentence_loss"] = tf.reduce_sum(cross_entropy(following, labels))
            sums["next_sentence_correct"] = tf.reduce_sum(correct(following, labels))
        return sums

    def _targets(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Positions, ids and weights of what is predicted: the records', or every next token."""
        if self._kind != "causal":
            names = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
            return {name: batch[name] for name in names}
        ids = batch["input_ids"]
        positions = tf.range(tf.shape(ids)[1] - 1)
        return {
            "masked_lm_positions": tf.broadcast_to(positions, tf.shape(ids[:, 1:])),
            "masked_lm_ids": ids[:, 1:],
            "masked_lm_weights": tf.cast(batch["input_mask"][:, 1:], tf.float32),
        }

    def loss(self, sums: Mapping[str, Any], counts: Mapping[str, Any]) -> Any:
        """Loss per prediction, plus next-sentence loss per pair."""
        loss = sums["masked_lm_loss"] / (counts["masked_lm"] + _EPSILON)
        if self._kind == "mlm_nsp":
            loss += sums["next_sentence_loss"] / counts["next_sentence"]
        return loss

    def metrics(self, sums: Mapping[str, float], counts: Mapping[str, float]) -> dict[str, float]:
        """Under the names of the released `eval_results.txt`."""
        predictions = counts["masked_lm"] or math.nan
        metrics = {
            "masked_lm_accuracy": sums["masked_lm_correct"] / predictions,
            "masked_lm_loss": sums["masked_lm_loss"] / predictions,
        }
        loss = sums["masked_lm_loss"] / (predictions + _EPSILON)
        if self._kind == "mlm_nsp":
            pairs = counts["next_sentence"] or math.nan
            metrics["next_sentence_accuracy"] = sums["next_sentence_correct"] / pairs
            metrics["next_sentence_loss"] = sums["next_sentence_loss"] / pairs
            loss += sums["next_sentence_loss"] / pairs
        return {"loss": loss, **metrics}
