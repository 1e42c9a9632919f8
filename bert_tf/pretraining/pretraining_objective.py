"""Loss and metrics of pretraining: masked LM, next sentences, left-to-right LM.

The baselines are the accuracies of a model that always predicts the most frequent token
and label.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from keras import ops

from bert_tf.config import BertConfig
from bert_tf.errors import InputError
from bert_tf.modeling import BertPretrainer, depths_by_name, variables_by_name
from bert_tf.training.backend import has_dynamic_shapes
from bert_tf.training.step.losses import (
    correct_predictions,
    cross_entropy,
    share_graph,
)
from bert_tf.training.step.objective import Metrics, Tensors
from bert_tf.training.training_config import RuntimeConfig

# google-research/bert adds this value to the number of predictions, to avoid division
# by zero.
_EPSILON = 1e-5
_LOGGER = logging.getLogger(__name__)
_ANSWERS = {"masked_lm": "token", "next_sentence": "next-sentence label"}


class PretrainingObjective:
    """The pretraining loss of google-research/bert, or of an ablation in the paper.

    The argument `kind` selects the loss:

    mlm_nsp: the mean masked-LM loss plus the mean next-sentence loss, as in
        google-research/bert.
    mlm: the mean masked-LM loss only ("No NSP" in table 5 of the paper).
    causal: the masked-LM head predicts each token from the tokens before it ("LTR & No
        NSP"). The masked positions in the records are ignored. Records created with
        `--objective=causal` are required, because the tokens in other records are
        masked.

    Raises:
        InputError: `kind` is "causal", but the model has bidirectional attention.

    Source: google-research/bert `run_pretraining.get_masked_lm_output`,
        `get_next_sentence_output`; paper, section 5.1.
    """

    best_by = ("loss", -1)

    def __init__(self, model: BertPretrainer, kind: str = "mlm_nsp") -> None:
        if kind == "causal" and model.config.attention != "causal":
            raise InputError(
                'The objective "causal" needs a model with attention="causal". '
                f'Received: attention="{model.config.attention}", which sees the '
                "tokens to predict."
            )
        self.model = model
        self.kind = kind
        self.variables: Tensors = variables_by_name(model)
        self.depths: Mapping[str, int] = depths_by_name(model)
        self.predicts_next_sentence = kind == "mlm_nsp"

    def counts(self, batch: Tensors) -> Tensors:
        """Returns the number of tokens to predict and, for "mlm_nsp", of sentence pairs."""
        targets = masked_lm_targets(batch, self.kind)
        counts = {"masked_lm": ops.sum(targets["masked_lm_weights"])}
        if self.predicts_next_sentence:
            pairs = ops.shape(batch["next_sentence_labels"])[0]
            counts["next_sentence"] = ops.cast(pairs, "float32")
        return counts

    def sums(self, batch: Tensors, training: bool, seed: Any = None) -> Tensors:
        """Returns, for each head, the sum of its losses and its number of correct predictions."""
        batch = {**batch, **masked_lm_targets(batch, self.kind)}
        if training:
            with self.model.dropout_seeds.use(seed, share_graph):
                outputs = self.model(batch, training=True)
        else:
            outputs = self.model(batch, training=False)

        # The labels of each head, and their weights; padding has the weight 0.
        labels = {"masked_lm": (batch["masked_lm_ids"], batch["masked_lm_weights"])}
        if self.predicts_next_sentence:
            # [B, 1] -> [B]
            labels["next_sentence"] = batch["next_sentence_labels"][:, 0], 1.0

        sums = {}
        for name, (ids, weights) in labels.items():
            logits = outputs[f"{name}_logits"]  # [B, P, V] or [B, 2]
            losses = cross_entropy(logits, ids)
            correct = correct_predictions(logits, ids)
            sums[f"{name}_loss"] = ops.sum(weights * losses)
            sums[f"{name}_correct"] = ops.sum(weights * correct)
        return sums

    def loss(self, sums: Tensors, counts: Tensors) -> Any:
        """Returns the mean masked-LM loss plus, for "mlm_nsp", the mean next-sentence loss."""
        loss = sums["masked_lm_loss"] / (counts["masked_lm"] + _EPSILON)
        if self.predicts_next_sentence:
            loss += sums["next_sentence_loss"] / counts["next_sentence"]
        return loss

    def metrics(self, sums: Tensors, counts: Tensors) -> Metrics:
        """Returns the accuracy and mean loss of each head, named as in google-research/bert."""
        metrics = {}
        for name, count in counts.items():
            metrics[f"{name}_accuracy"] = sums[f"{name}_correct"] / count
            metrics[f"{name}_loss"] = sums[f"{name}_loss"] / count
        return metrics


def make_objective(
    architecture: BertConfig,
    kind: str,
    runtime: RuntimeConfig,
    *,
    seed: int,
    dtype: str,
) -> PretrainingObjective:
    """Builds a model, and returns its objective; `kind` is a `PretrainingConfig.objective`."""
    pretrainer = BertPretrainer(
        architecture,
        next_sentence=kind == "mlm_nsp",
        recompute=runtime.recompute,
        seed=seed,
        dtype=dtype,
    )
    pretrainer.skip_padding = has_dynamic_shapes(runtime)
    return PretrainingObjective(pretrainer, kind)


def masked_lm_targets(batch: Tensors, kind: str, arrays: Any = ops) -> Tensors:
    """Returns positions, ids and weights of the tokens to predict in a batch.

    If `kind` is "causal", all tokens of a sequence except the first are predicted.
    `arrays` has the functions of `keras.ops` for the library of the batch.
    """
    if kind != "causal":
        names = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
        return {name: batch[name] for name in names}
    ids = batch["input_ids"]
    positions = arrays.arange(arrays.shape(ids)[1] - 1, dtype="int32")
    return {
        "masked_lm_positions": arrays.broadcast_to(positions, arrays.shape(ids[:, 1:])),
        "masked_lm_ids": ids[:, 1:],
        "masked_lm_weights": arrays.cast(batch["input_mask"][:, 1:], "float32"),
    }


def majority_accuracies(objective: Any, batches: Iterable[Tensors]) -> Metrics:
    """Returns the accuracies of always predicting the most frequent token and label.

    The keys are `masked_lm_majority_accuracy`, if there are tokens to predict, and
    `next_sentence_majority_accuracy`, if the objective predicts next sentences.
    """
    counts = {
        "masked_lm": np.zeros(objective.model.config.vocab_size),
        "next_sentence": np.zeros(2),
    }

    for batch in batches:
        targets = masked_lm_targets(batch, objective.kind)
        _count(
            counts["masked_lm"],
            targets["masked_lm_ids"],
            np.ravel(targets["masked_lm_weights"]),
        )
        if objective.predicts_next_sentence:
            _count(counts["next_sentence"], batch["next_sentence_labels"])

    return {
        f"{name}_majority_accuracy": float(count.max() / count.sum())
        for name, count in counts.items()
        if count.any()
    }


def _count(counts: np.ndarray, ids: Any, weights: Any = None) -> None:
    """Adds the weight of each id, by default 1, to its entry in `counts`, in place."""
    counts += np.bincount(np.ravel(ids), weights, minlength=len(counts))


def warn_if_no_better(results: Tensors) -> None:
    """Warns of each accuracy that is NaN, or no better than a constant prediction.

    `results` contains the accuracies and the result of `majority_accuracies`.
    """
    for name, answer in _ANSWERS.items():
        accuracy = results.get(f"{name}_accuracy")
        majority = results.get(f"{name}_majority_accuracy", 1.0)

        # NaN is not above the majority either.
        if accuracy is not None and majority < 1 and not accuracy > majority:
            _LOGGER.warning(
                "warning: %s_accuracy is %.4f, but a model that always predicts the "
                "most frequent %s has %.4f: the model has learned no more than that. "
                "Train longer, or try another learning rate.",
                name,
                accuracy,
                answer,
                majority,
            )
