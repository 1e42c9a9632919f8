"""`HeadObjective`: the base class of the training objectives of all tasks.

Shape letters: B batch, C classes.
"""

from collections.abc import Mapping
from typing import Any

from keras import ops

from bert_tf.modeling import depths_by_name, variables_by_name
from bert_tf.tasks.distillation_loss import divergence
from bert_tf.tasks.task import CACHED_FEATURES, CACHED_MASK, LABEL_WEIGHTS
from bert_tf.training.step.losses import (
    correct_predictions,
    cross_entropy,
    share_graph,
)
from bert_tf.training.step.objective import Tensors

Numbers = Mapping[str, float]


class HeadObjective:
    """Computes the loss, the metrics and the predictions of a model for a task.

    By default, the loss is the cross entropy of a softmax over classes.

    Args:
        model: The encoder with the head of the task.
        best_by: The metric that selects the best weights, and 1 if higher values are
            better, else -1.

    Attributes:
        full_length: Whether each batch must be padded to `max_seq_length` positions,
            because the loss depends on padding.
        compares_examples: Whether the objective is a `ComparingObjective`, and has its
            methods.

    Source: google-research/bert `run_classifier.create_model`.
    """

    full_length = False
    compares_examples = False
    # The key in `counts` of the number by which the sums are divided.
    _unit = "examples"

    def __init__(self, model: Any, best_by: tuple[str, int] = ("accuracy", 1)) -> None:
        self.model = model
        self.best_by = best_by
        self.variables: Mapping[str, Any] = variables_by_name(model)
        self.depths: Mapping[str, int] = depths_by_name(model)

    def counts(self, batch: Tensors) -> Tensors:
        """Returns the number of examples in the batch, under the name "examples"."""
        return {"examples": ops.cast(ops.shape(batch["input_ids"])[0], "float32")}

    def sums(self, batch: Tensors, training: bool, seed: Any = None) -> Tensors:
        """Returns the loss and the numerators of metrics, each summed over the batch."""
        return self.sums_of_outputs(self.outputs_of_model(batch, training, seed), batch)

    def outputs_of_model(
        self, batch: Tensors, training: bool = False, seed: Any = None
    ) -> Tensors:
        """Returns the outputs of the model; `Objective.sums` describes the arguments."""
        if training:
            with self.model.dropout_seeds.use(seed, share_graph):
                return self._run_model(batch, training=True)
        return self._run_model(batch)

    def loss(self, sums: Tensors, counts: Tensors) -> Any:
        """Returns the mean loss per example, or per other `_unit` of a subclass, such as words."""
        return sums["loss"] / counts[self._unit]

    def metrics(self, sums: Numbers, counts: Numbers) -> Numbers:
        """Returns the metrics that are computed from `sums`; by default, the accuracy."""
        return {"accuracy": sums["correct"] / counts[self._unit]}

    def outputs(self, batch: Tensors) -> Tensors:
        """Returns the predictions by name.

        By default, they are `logits` and `probabilities`, float32 [B, C].
        """
        logits = self._run_model(batch)["logits"]
        return {"logits": logits, "probabilities": ops.softmax(logits)}

    def _run_model(self, batch: Tensors, training: bool = False) -> Tensors:
        """Runs the model or, if the batch has cached hidden states, only its head."""
        if CACHED_FEATURES in batch:
            states, mask = batch[CACHED_FEATURES], batch[CACHED_MASK]
            return dict(self.model.outputs_of_features(states, mask, training))
        return dict(self.model(batch, training=training))

    def sums_of_outputs(self, outputs: Tensors, batch: Tensors) -> Tensors:
        """Returns the loss and the numerators of metrics, each summed over the batch.

        By default, the loss is the cross entropy of a softmax over classes. An override
        must apply `weighted` to its losses, because examples without labels have the
        weight 0.

        Args:
            outputs: The outputs of the model.
            batch: The features of the batch.
        """
        logits, labels = outputs["logits"], batch["label_ids"]
        return {
            "loss": ops.sum(weighted(cross_entropy(logits, labels), batch)),
            "correct": ops.sum(correct_predictions(logits, labels)),
        }

    def logits_to_learn(self, outputs: Tensors) -> Any:
        """Returns the logits of a teacher that a student learns to match.

        Args:
            outputs: The outputs of the teacher.

        Returns:
            float32 [B, T, C]. T is the length of the sequences if each position has
            logits, else 1, which is the default.
        """
        return outputs["logits"][:, None]

    def teacher_losses(
        self,
        outputs: Tensors,
        teacher: Any,
        batch: Tensors,
        temperature: float,
    ) -> Any:
        """Returns each record's loss against the teacher's logits: float32 [B].

        By default, the loss is the divergence of two softmaxes over classes.

        Args:
            outputs: The outputs of the student.
            teacher: The result of `logits_to_learn` for the teacher: float32 [B, T, C].
            batch: The features of the batch.
            temperature: The number by which both logits are divided.
        """
        return divergence(teacher[:, 0], outputs["logits"], temperature)


def sums_of_rows(
    objective: Any, batch: Tensors, training: bool, seed: Any
) -> dict[str, Any]:
    """Returns the `sums` of a `ComparingObjective`."""
    rows = objective.row_sums(objective.compared_values(batch, training, seed))
    return {name: ops.sum(values) for name, values in rows.items()}


def weighted(losses: Any, batch: Tensors, weights: str = LABEL_WEIGHTS) -> Any:
    """Multiplies losses by the feature of the batch that `weights` names, if there is one."""
    return losses * batch[weights] if weights in batch else losses
