"""Losses and metrics of regression and of multi-label classification.

`HeadObjective` itself is the objective of classification with one label.

Shape letters: B batch, C classes.
"""

from typing import Any

from keras import ops

from bert_tf.modeling import BertClassifier
from bert_tf.tasks.distillation_loss import divergence
from bert_tf.tasks.head_objective import HeadObjective, Numbers, weighted
from bert_tf.training.step.objective import Tensors


class RegressionObjective(HeadObjective):
    """Mean squared error of one output.

    Source: the BERT paper, appendix B.1 (STS-B). google-research/bert has no
    regression.
    """

    def sums_of_outputs(self, outputs: Tensors, batch: Tensors) -> Tensors:
        """Returns the loss and the numerators of the metrics, each summed over the batch."""
        logits, labels = outputs["logits"], batch["label_ids"]
        return {"loss": ops.sum(weighted(ops.square(logits[:, 0] - labels), batch))}

    def teacher_losses(
        self,
        outputs: Tensors,
        teacher: Any,
        batch: Tensors,
        temperature: float,
    ) -> Any:
        """Returns the squared difference of student and teacher for each record: float32 [B]."""
        return ops.square(outputs["logits"] - teacher[:, 0])[:, 0]

    def metrics(self, sums: Numbers, counts: Numbers) -> Numbers:
        """Returns no metrics: the loss is the mean squared error."""
        return {}

    def outputs(self, batch: Tensors) -> Tensors:
        """Returns `logits`, float32 [B, 1], and the same numbers as `score`, float32 [B]."""
        logits = self._run_model(batch)["logits"]
        return {"logits": logits, "score": logits[:, 0]}


class MultiLabelObjective(HeadObjective):
    """The sigmoid cross entropy, as a mean over the labels and the examples.

    A label is predicted if its probability is at least `threshold`.
    """

    def __init__(
        self, model: BertClassifier, best_by: tuple[str, int], threshold: float
    ) -> None:
        super().__init__(model, best_by)
        self.threshold = threshold

    def sums_of_outputs(self, outputs: Tensors, batch: Tensors) -> Tensors:
        """Returns the loss and the numerators of the metrics, each summed over the batch."""
        logits, labels = outputs["logits"], batch["label_ids"]
        losses = _sigmoid_cross_entropy(logits, labels)
        predicted = ops.cast(ops.sigmoid(logits) >= self.threshold, "float32")
        return {
            "loss": ops.sum(ops.mean(weighted(losses, batch), axis=-1)),
            "true_positives": ops.sum(predicted * labels),
            "positives": ops.sum(predicted) + ops.sum(labels),
        }

    def teacher_losses(
        self,
        outputs: Tensors,
        teacher: Any,
        batch: Tensors,
        temperature: float,
    ) -> Any:
        """Returns each record's mean divergence of the label sigmoids: float32 [B].

        A sigmoid is a softmax over the logit and 0.
        """
        student_logits, teacher_logits = (
            ops.stack([x, 0 * x], axis=-1) for x in (outputs["logits"], teacher[:, 0])
        )
        return ops.mean(
            divergence(teacher_logits, student_logits, temperature), axis=-1
        )

    def metrics(self, sums: Numbers, counts: Numbers) -> Numbers:
        """Returns the micro-averaged F1; 0 if no label occurs or is predicted."""
        positives = sums["positives"]
        micro_f1 = 2 * sums["true_positives"] / positives if positives else 0.0
        return {"micro_f1": micro_f1}

    def outputs(self, batch: Tensors) -> Tensors:
        """Returns `logits`, and `probabilities`, their sigmoids: float32 [B, C]."""
        logits = self._run_model(batch)["logits"]
        return {"logits": logits, "probabilities": ops.sigmoid(logits)}


def _sigmoid_cross_entropy(logits: Any, labels: Any) -> Any:
    """Returns the cross entropy of each logit and label, without overflow: float32 [B, C].

    `ops.binary_crossentropy` limits the probabilities on JAX, and so the losses.
    """
    is_positive = logits >= 0
    positive = ops.where(is_positive, logits, ops.zeros_like(logits))
    small = ops.exp(ops.where(is_positive, -logits, logits))
    return positive - logits * labels + ops.log1p(small)
