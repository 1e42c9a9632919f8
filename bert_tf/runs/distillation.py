"""Distillation: a student learns the outputs of a teacher for the training examples.

Shape letters: R records, B batch, T tokens of a record (or 1), C outputs.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

from keras import ops

from bert_tf.runs.evaluation import SplitEvaluator
from bert_tf.runs.fine_tuning_config import (
    DistillationConfig,
    FeatureSettings,
    RunSettings,
)
from bert_tf.runs.output_cache import cache_outputs, sha256_of_weights
from bert_tf.tasks.head_objective import HeadObjective, sums_of_rows, weighted
from bert_tf.tasks.task import RECORD_WEIGHTS, TEACHER_LOGITS
from bert_tf.training.step.objective import Metrics, Tensors
from bert_tf.training.trainer import Trainer


@dataclasses.dataclass(frozen=True)
class Teacher:
    """A fine-tuned model from which a student learns.

    `sha256` is a checksum of its weights, and `cache` says where its logits are cached.
    `make_objective` builds its objective from the keyword argument `dtype`.
    """

    config: DistillationConfig
    sha256: str
    cache: FeatureSettings
    make_objective: Callable[..., HeadObjective]

    def of_run(self) -> dict[str, Any]:
        """Returns values that identify the loss and initial weights of a run with this teacher."""
        config = self.config
        return {
            "teacher": f"weights with SHA-256 {self.sha256}",
            "distillation_temperature": config.distillation_temperature,
            "distillation_weight": config.distillation_weight,
            "init_layers": list(config.layers) or None,
        }


@dataclasses.dataclass
class DistillationObjective:
    """The objective of a student: the weighted mean of label loss and teacher loss.

    All other attributes are those of `student`, the objective of the task. With an
    `unlabelled_file`, the task's metrics are left out: all examples would need labels.

    Source: Hinton et al. 2015 (arXiv:1503.02531), section 2.
    """

    student: HeadObjective
    config: DistillationConfig

    def __getattr__(self, name: str) -> Any:
        return getattr(self.student, name)

    def sums(self, batch: Tensors, training: bool, seed: Any = None) -> dict[str, Any]:
        """Returns the task's sums, with the combined "loss", and "teacher_loss".

        The combined loss is the weighted mean of two sums over the batch: the label
        losses and the teacher losses.
        """
        if self.student.compares_examples:
            return sums_of_rows(self, batch, training, seed)
        outputs = self.student.outputs_of_model(batch, training, seed)
        sums = self.student.sums_of_outputs(outputs, batch)

        return self._combined(sums, ops.sum(self._teacher_losses(outputs, batch)))

    def _teacher_losses(self, outputs: Tensors, batch: Tensors) -> Any:
        """Returns the weighted loss of each record against the teacher: float32 [B]."""
        teacher = batch[TEACHER_LOGITS][:, :, 0]  # [B, T, 1, C] -> [B, T, C]
        temperature = self.config.distillation_temperature
        losses = self.student.teacher_losses(outputs, teacher, batch, temperature)
        return weighted(losses, batch, RECORD_WEIGHTS)

    def _combined(self, sums: Tensors, teacher_loss: Any) -> dict[str, Any]:
        weight = self.config.distillation_weight
        combined = (1 - weight) * sums["loss"] + weight * teacher_loss
        return {**sums, "loss": combined, "teacher_loss": teacher_loss}

    def compared_values(
        self, batch: Tensors, training: bool, seed: Any = None
    ) -> dict[str, Any]:
        """Returns the values of a student that compares examples, and the teacher's logits."""
        student: Any = self.student
        values = student.compared_values(batch, training, seed)
        names = (TEACHER_LOGITS, RECORD_WEIGHTS)
        return {**values, **{name: batch[name] for name in names if name in batch}}

    def row_sums(self, values: Tensors) -> dict[str, Any]:
        """Returns the share of each example in the results of `sums`: float32 [B] each."""
        student: Any = self.student
        rows = student.row_sums(values)
        return self._combined(rows, self._teacher_losses(values, values))

    def metrics(self, sums: Tensors, counts: Tensors) -> Metrics:
        """Returns the mean teacher loss and, without `unlabelled_file`, the task's metrics."""
        loss = self.student.loss({"loss": sums["teacher_loss"]}, counts)
        if self.config.unlabelled_file:
            return {"teacher_loss": loss}
        return {**self.student.metrics(sums, counts), "teacher_loss": loss}


def make_teacher(
    teacher: Teacher, settings: RunSettings, trainer: Trainer[Any]
) -> HeadObjective:
    """Returns the objective of the teacher, on the devices of the run."""
    student = trainer.objective.model
    with trainer.devices.scope():
        objective = teacher.make_objective(dtype=student.dtype_policy.name)
    objective.model.skip_padding = student.skip_padding
    return objective


def cache_teacher(
    teacher: Teacher,
    objective: HeadObjective,
    evaluator: SplitEvaluator,
    trainer: Trainer[Any],
) -> None:
    """Computes the part of a teacher's logits that its cache lacks: float [R, T, 1, C].

    R is the number of records, T that of outputs of a record, such as its tokens, and C
    that of classes. Caches have an axis for layers, here of length 1.

    The cache is added to `RecordFile.caches` of the train split. `objective` is the
    teacher's objective; `trainer` trains the student.
    """

    def logits_of(batch: dict[str, Any]) -> Any:
        logits = objective.logits_to_learn(objective.outputs_of_model(batch))
        return logits[:, :, None]  # [B, T, C] -> [B, T, 1, C]

    (split,) = evaluator.data.splits["train"]
    name = split.split.name
    with trainer.chief_first():
        split.records.caches[TEACHER_LOGITS] = cache_outputs(
            teacher.cache,
            f"{name}-teacher",
            title=f"{name} with the teacher",
            outputs=logits_of,
            variables=objective.variables,
            split=split,
            parse=evaluator.parser(split.split),
            key={
                "precision": trainer.training.precision,
                "teacher_sha256": sha256_of_weights(
                    objective.model.config, objective.variables
                ),
            },
        )
