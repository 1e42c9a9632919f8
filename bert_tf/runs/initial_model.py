"""The models that a run starts from: the initial one, and the teacher."""

import dataclasses
import logging
import os
from collections.abc import Callable
from typing import Any

from bert_tf.errors import InputError, plain
from bert_tf.modeling.initial_weights import drawn_late
from bert_tf.runs.distillation import Teacher
from bert_tf.runs.fine_tuning_config import (
    DistillationConfig,
    FeatureSettings,
    RunSettings,
)
from bert_tf.runs.run_model import RunModel
from bert_tf.tasks.head_objective import HeadObjective
from bert_tf.tasks.task import DataLocation, Task, TaskInputs

_LOGGER = logging.getLogger(__name__)


def student_of(distillation: DistillationConfig, model: RunModel) -> RunModel:
    """Returns the initial model of a student: the teacher's `init_layers`, or else `model`."""
    teacher = plain(distillation.teacher)
    layers = distillation.layers
    if not layers:
        return model
    if model.init_checkpoint or model.bert_config_file:
        raise InputError(
            f"init_layers builds the model from teacher={teacher}, and init_checkpoint "
            "or bert_config_file gives another model. Give one of them."
        )
    return dataclasses.replace(model, init_checkpoint=teacher, checkpoint_layers=layers)


def prepared_task(
    task: Task,
    location: DataLocation,
    model: RunModel,
    source: RunModel,
    settings: RunSettings,
) -> Task:
    """Returns the task with labels, head and other values from the models and the data.

    `source` is the teacher, or else the model of the run.
    """
    # A student's labels must have the order of its teacher's labels. The head of
    # init_checkpoint can be used only with the order of that checkpoint's labels.
    recorded_facts = (
        model.recorded_data,
        source.pretrained.facts,
        model.pretrained.facts,
    )
    labels = [facts["labels"] for facts in recorded_facts if facts.get("labels")]
    inputs = TaskInputs(
        location,
        settings.phases,
        tokenizer=model.pretrained.tokenizer,
        max_seq_length=settings.config.max_seq_length,
        trained=model.facts,
        stated_labels=labels,
        initial=model.pretrained.facts,
        global_batch_size=settings.training.global_batch_size,
    )
    if settings.head:
        task = task.with_head(settings.head)
    return task.with_saved_head(model.facts).prepare(inputs)


def read_teacher(
    settings: DistillationConfig,
    source: RunModel,
    task: Task,
    student: RunModel,
    length: int,
) -> Teacher:
    """Returns the teacher of a run, after a check that the model can learn its outputs.

    Raises:
        InputError: The teacher has another task, other labels, another vocabulary or
            casing, or fewer positions, or the folder of the cache is not local.
    """
    folder = settings.feature_cache_dir or os.path.join(
        student.output_dir or "", "features"
    )
    cache = FeatureSettings(folder, "float32")

    # Both models must have the same labels and read the same ids.
    pretrained = source.pretrained
    if pretrained.facts:
        configs = (pretrained.config, student.pretrained.config)
        task = task.of_teacher(pretrained.facts, *configs)
    facts = task.facts.saved()
    pretrained.check_task(facts, "teacher")
    pretrained.config.check_length(length)
    own = pretrained.tokenizer
    tokenizer = student.pretrained.tokenizer
    for name in ("vocabulary_sha256", "do_lower_case"):
        if getattr(own, name) != getattr(tokenizer, name):
            raise InputError(
                f"teacher={settings.teacher} has {name}={getattr(own, name)}, and the "
                f"model has {name}={getattr(tokenizer, name)}. Both must read the same "
                "ids: give a teacher or an init_checkpoint with the same vocabulary "
                "and casing."
            )

    def make_objective(dtype: str) -> HeadObjective:
        with drawn_late():
            objective: HeadObjective = task.make_objective(
                pretrained.config, seed=0, dtype=dtype
            )
            pretrained.initialize_task(objective.model, facts, init_head=True)
        return objective

    sha256 = pretrained.contents.sha256() if pretrained.contents else ""
    return Teacher(settings, sha256, cache, make_objective)


def initializer(
    task: Task, model: RunModel, settings: RunSettings
) -> Callable[[Any], None] | None:
    """Returns a function that assigns initial weights; None if they must come from a run."""
    trains = settings.phases.train
    init_head = settings.init_head
    if not model.init_checkpoint:
        return _report_random_weights if trains else None
    if not trains and model.trained_run:
        _LOGGER.info(
            "Using the weights of the run in %s, and not those of init_checkpoint.",
            model.output_dir,
        )
    if init_head is None and (not trains or model.checkpoint_layers):
        # A head with random weights is of no use, or worse than that of a teacher.
        init_head = True

    def initialize(objective: Any) -> None:
        model.pretrained.initialize_task(objective.model, task.facts.saved(), init_head)

    return initialize


def _report_random_weights(_: Any) -> None:
    _LOGGER.info("Without init_checkpoint, the initial weights are random.")
