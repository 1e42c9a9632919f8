"""The objective of a fine-tuning run, and its training."""

import functools
import logging
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.errors import InputError
from bert_tf.runs import batches, record_files, step_costs
from bert_tf.runs.class_weights import (
    describe_weights,
    weights_of_records,
    with_label_weights,
)
from bert_tf.runs.distillation import DistillationObjective, Teacher
from bert_tf.runs.evaluation import SplitEvaluator
from bert_tf.runs.fine_tuning_config import RunSettings
from bert_tf.runs.output_cache import freeze_encoder
from bert_tf.tasks.results import TaskResults
from bert_tf.tasks.task import Task
from bert_tf.training.backend import has_dynamic_shapes
from bert_tf.training.callbacks import HeldOutData
from bert_tf.training.lifecycle.error_messages import RecordLookup
from bert_tf.training.step.objective import Metrics
from bert_tf.training.trainer import Trainer, TrainingData
from bert_tf.training.training_config import RuntimeConfig, TrainingConfig

_LOGGER = logging.getLogger(__name__)
# In shorter runs with higher rates, the updates without bias correction can spoil the
# result.
_HIGH_LEARNING_RATE = 5e-5
_FEW_STEPS = 2000
_SHOWN_ERRORS = 20  # in TensorBoard


def make_objective(
    task: Task,
    config: BertConfig,
    settings: RunSettings,
    teacher: Teacher | None,
    *,
    seed: int,
    dtype: str,
) -> Any:
    """Returns the objective: the model and loss of a task, including that of any teacher."""
    runtime = settings.runtime
    objective = task.make_objective(
        config, seed=seed, dtype=dtype, recompute=runtime.recompute
    )
    if settings.features:
        freeze_encoder(objective.model)
    check_compilation(objective.model, runtime)

    # Batches are cut to their longest sequence, unless shapes must be equal.
    skips_padding = has_dynamic_shapes(runtime) and not objective.full_length
    objective.model.skip_padding = skips_padding
    return DistillationObjective(objective, teacher.config) if teacher else objective


def train(
    trainer: Trainer[Any],
    evaluator: SplitEvaluator,
    settings: RunSettings,
) -> int:
    """Trains on the train split, and returns the step of the final weights."""
    data = evaluator.data
    data.warn_about_equal_sources()
    if settings.features is None:
        advise_on_learning_rate(settings.training)

    # The order of the records.
    (split,) = data.splits["train"]
    records = split.records
    lengths = records.index.num_tokens
    order = batches.TrainingOrder(
        lengths if data.task.groups_by_length else np.zeros_like(lengths),
        settings.training.global_batch_size,
        settings.training.seed,
    )

    # The size of a step, by the name of its rate.
    parse = evaluator.parser(split.split)
    rates: Metrics = {"examples_per_sec": settings.training.global_batch_size}
    if trainer.is_chief and not settings.features:
        rates |= step_costs.of_fine_tuning(
            trainer, data, order, settings.runtime, parse
        )
    if (label_weights := data.label_weights) is not None:
        _LOGGER.info("class weights: %s.", describe_weights(data.task, label_weights))
        parse = with_label_weights(parse, label_weights)

    # The pipeline, and what names the examples of a batch in messages.
    from_step = functools.partial(
        batches.training_batches,
        records,
        order,
        parse,
        weights=weights_of_records(data.task, records),
    )
    describe = functools.partial(
        record_files.describe, split.split.source.name, records
    )
    held_out = _held_out(evaluator) if settings.runtime.eval_steps else None
    lookup = RecordLookup(describe=describe)
    return trainer.train(TrainingData(from_step, lookup), held_out, rates)


def _held_out(evaluator: SplitEvaluator) -> HeldOutData:
    """Returns the evaluation on a dev split; text shows its report and errors."""
    dev = evaluator.data.splits["dev"][evaluator.data.task.held_out_split]
    last = list[TaskResults]()

    def evaluate() -> Metrics:
        results, values = evaluator.score(dev)
        last[:] = [results]
        return values

    def samples() -> str:
        errors = "".join(last[0].errors()[:_SHOWN_ERRORS])
        parts = [last[0].report(), errors and f"The worst errors:\n{errors}"]
        text = "\n".join(filter(None, parts))
        return f"```\n{text}```" if text else ""

    return HeldOutData(
        evaluations={"eval": evaluate},
        samples=samples,
        image=lambda: last[0].image(),
    )


def advise_on_learning_rate(training: TrainingConfig) -> None:
    """Logs advice if the learning rate is probably too high for the released optimizer."""
    if (
        training.optimizer == "adam_weight_decay"
        and training.learning_rate > _HIGH_LEARNING_RATE
        and training.num_train_steps < _FEW_STEPS
    ):
        _LOGGER.info(
            "learning_rate=%g is high for the released optimizer in a run of %s steps: "
            "without bias correction, its first updates are two to five times as large "
            "as those of AdamW. For a rate from another program, use optimizer=adamw "
            "and schedule=linear.",
            training.learning_rate,
            f"{training.num_train_steps:,}",
        )


def check_compilation(model: Any, runtime: RuntimeConfig) -> None:
    """Raises `InputError` if XLA cannot compile the head.

    Keras runs LSTM layers on a GPU with cuDNN, which XLA lacks.
    """
    layers = getattr(model, "head_layers", None)
    if (
        layers
        and layers.lstms
        and runtime.jit_compile
        and tf.config.list_physical_devices("GPU")
    ):
        raise InputError(
            "jit_compile=True cannot compile the LSTM layers of the head for a GPU. "
            "Give jit_compile=False."
        )
