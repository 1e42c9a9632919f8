"""`fine_tune`: trains a BERT for a task, evaluates it and predicts, in one call.

The programs `run_classifier`, `run_squad`, `run_ner` and `run_swag` call `run`.
"""

import dataclasses
import logging
import os
from collections.abc import Callable, Mapping
from typing import Any

from bert_tf.errors import InputError, Path, plain
from bert_tf.head_config import HeadConfig
from bert_tf.modeling.initial_weights import drawn_late
from bert_tf.runs.distillation import Teacher
from bert_tf.runs.fine_tuning_config import (
    DistillationConfig,
    FeatureSettings,
    FineTuningConfig,
    RunSettings,
    parse_class_weights,
)
from bert_tf.runs.fine_tuning_run import FineTuningRun, PhaseResults
from bert_tf.runs.run_data import RunData
from bert_tf.runs.run_model import RunModel
from bert_tf.tasks.head_objective import HeadObjective
from bert_tf.tasks.task import DataLocation, Task, TaskInputs
from bert_tf.training.lifecycle.run_folder import CheckpointMetadata, RunFolder
from bert_tf.training.step.objective import Metrics
from bert_tf.training.strategy import make_strategy
from bert_tf.training.training_config import RunPhases, RuntimeConfig, TrainingConfig

_LOGGER = logging.getLogger(__name__)
_TRAIN_AND_EVALUATE = RunPhases(train=True, evaluate=True)


def fine_tune(
    task: Task,
    data: DataLocation,
    output_dir: Path,
    *,
    init_checkpoint: Path | None = None,
    bert_config_file: Path | None = None,
    vocab_file: Path | None = None,
    do_lower_case: bool | None = None,
    init_head: bool | None = None,
    overwrite: bool = False,
    phases: RunPhases = _TRAIN_AND_EVALUATE,
    config: FineTuningConfig | None = None,
    training: TrainingConfig | None = None,
    runtime: RuntimeConfig | None = None,
    features: FeatureSettings | None = None,
    distillation: DistillationConfig | None = None,
) -> Metrics:
    """Trains a model for a task, evaluates it and writes predictions.

    The files in `output_dir` are those of the programs for fine-tuning. The same call
    resumes an interrupted run. Without training, the model is that of the run in
    `output_dir`, or else `init_checkpoint`.

    Args:
        task: The task: `glue_task`, `custom_task`, `SquadTask`, `NerTask`,
            `ChoiceTask`, or your own subclass of `Task`.
        data: The place of the data set.
        output_dir: The folder of the run.
        init_checkpoint: The pretrained model; see `bert_tf.load`. None for random
            weights.
        bert_config_file: The architecture: a file, or a size such as "tiny". None for
            that of the checkpoint.
        vocab_file: The vocabulary. None for that of the checkpoint.
        do_lower_case: Whether the tokenizer lower-cases text. None for that of the
            checkpoint.
        init_head: Whether the head comes from `init_checkpoint` too. By default, it
            does if that is a run of the same task with the same labels.
        overwrite: Whether to remove an earlier run in `output_dir` instead of resuming
            it.
        phases: The phases to run.
        config: Lengths, epochs and batch sizes of evaluations.
        training: The settings that affect the trained weights. The numbers of steps are
            calculated from the epochs of `config`; those of `training` are ignored.
        runtime: Devices, logging and checkpoints.
        features: If given, only the head is trained, on cached hidden states of the
            frozen encoder.
        distillation: If given, the model also learns the outputs of a teacher.

    Returns:
        The results on the dev splits, such as "eval_accuracy", and on test splits with
        labels.

    Raises:
        InputError: A setting or a file is not valid, or `output_dir` contains another
            run.
    """
    model = RunModel(
        plain(init_checkpoint),
        plain(bert_config_file),
        vocab_file=plain(vocab_file),
        do_lower_case=do_lower_case,
        output_dir=os.fspath(output_dir),
        do_train=phases.train,
        overwrite=overwrite,
    )
    settings = RunSettings(
        phases,
        config or FineTuningConfig(),
        training=training or TrainingConfig(),
        runtime=runtime or RuntimeConfig(),
        features=features,
        distillation=distillation,
        init_head=init_head,
    )
    return run(task, data, model, settings).values


def run(
    task: Task,
    location: DataLocation,
    model: RunModel,
    settings: RunSettings,
    check_only: bool = False,
) -> PhaseResults:
    """Runs the phases in `model.output_dir`; see `fine_tune`.

    Args:
        task: As in `fine_tune`.
        location: The place of the data set.
        model: The model, and the folder of the run.
        settings: The settings of the run.
        check_only: Whether to stop after all checks, before anything is written.

    Raises:
        InputError: As in `fine_tune`.
    """
    phases = settings.phases
    config = settings.config
    distillation = settings.distillation if phases.train else None

    # The model to start from, and that of the teacher.
    if distillation:
        model = _student(distillation, model)
    if settings.init_head is not None and not model.init_checkpoint:
        raise InputError("init_head needs init_checkpoint. Give both or none.")
    make_strategy(settings.runtime)  # reports missing devices before anything is read
    model.pretrained.config.check_length(config.max_seq_length)
    source = RunModel(plain(distillation.teacher)) if distillation else model

    # The task, with its labels, and the records of its examples.
    task = _prepared_task(task, location, model=model, source=source, settings=settings)
    teacher = None
    if distillation:
        length = config.max_seq_length
        teacher = _read_teacher(
            distillation, source, task=task, student=model, length=length
        )
    data = RunData(
        task,
        location,
        tokenizer=model.pretrained.tokenizer,
        config=config,
        phases=phases,
        folder=model.output_dir or "",
        unlabelled_file=plain(distillation.unlabelled_file) if distillation else None,
    )

    # What identifies the run, so that no other run is resumed.
    steps, warmup_steps = data.num_steps(settings.training.global_batch_size)
    training = dataclasses.replace(
        settings.training,
        num_train_steps=steps,
        num_warmup_steps=warmup_steps,
        data=_facts_of_run(data, model, settings, teacher),
    )

    fine_tuning_run = FineTuningRun(
        dataclasses.replace(settings, training=training),
        data,
        config=model.pretrained.config,
        folder=_run_folder(data, model, phases),
        initialize=_initializer(task, model, settings),
        teacher=teacher,
    )
    return fine_tuning_run.run(check_only)


def _prepared_task(
    task: Task,
    location: DataLocation,
    model: RunModel,
    source: RunModel,
    settings: RunSettings,
) -> Task:
    """Returns the task with what the models and the data tell, such as labels and head.

    Args:
        task: The task.
        location: The place of the data set.
        model: The model of the run.
        source: The teacher, or else the model of the run.
        settings: The settings of the run.
    """
    # The labels of a teacher must have its order; a head of init_checkpoint is kept
    # only with its.
    stated = (model.recorded_data, source.pretrained.facts, model.pretrained.facts)
    labels = [each["labels"] for each in stated if each.get("labels")]
    inputs = TaskInputs(
        location,
        settings.phases,
        tokenizer=model.pretrained.tokenizer,
        max_seq_length=settings.config.max_seq_length,
        trained=model.facts,
        stated_labels=labels,
    )
    if settings.head:
        task = task.with_head(settings.head)
    return _with_trained_head(task, model.facts).prepare(inputs)


def _run_folder(data: RunData, model: RunModel, phases: RunPhases) -> RunFolder:
    """Returns the folder of the run, with what is saved about its model."""
    task = data.task
    tokenizer = model.pretrained.tokenizer
    # A trained model may be used for another task with the same labels, with another
    # length.
    facts = task.facts.of_model()
    if phases.train:
        facts = {**task.facts.saved(), "max_seq_length": data.config.max_seq_length}
    metadata = CheckpointMetadata(
        config=model.pretrained.config.to_dict(),
        vocabulary=tokenizer.vocabulary,
        do_lower_case=tokenizer.do_lower_case,
        extra=facts,
        notes=data.notes,
    )
    overwrite = phases.train and model.overwrite
    return RunFolder(model.output_dir or "", metadata, overwrite, task.output_files)


def _student(distillation: DistillationConfig, model: RunModel) -> RunModel:
    """Returns the initial model of a student: of `init_layers`, else the given one.

    Raises:
        InputError: There are two initial models.
    """
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


def _read_teacher(
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
    folder = settings.feature_cache_dir
    folder = folder or os.path.join(student.output_dir or "", "features")
    cache = FeatureSettings(folder, "float32")

    # Both models must have the same labels and read the same ids.
    pretrained = source.pretrained
    task = _with_trained_head(task, pretrained.facts)
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


def _with_trained_head(task: Task, trained: Mapping[str, Any]) -> Task:
    """Returns the task with the head of the trained model, if there is a model."""
    if not trained:
        return task
    return task.with_head(HeadConfig.from_dict(trained.get("head")))


def _facts_of_run(
    data: RunData, model: RunModel, settings: RunSettings, teacher: Teacher | None
) -> dict[str, Any]:
    """Returns the values that identify the examples and initial weights of a run."""
    tokenizer = model.pretrained.tokenizer
    selects_by_dev = settings.phases.train and settings.runtime.early_stopping_evals > 0
    facts = {
        **data.task.facts.of_run(),
        "train_split": data.fingerprint(),
        "dev_split": data.fingerprint("dev") if selects_by_dev else None,
        # With layers of a teacher, `Teacher.of_run` identifies the initial weights.
        "init_checkpoint": None if model.checkpoint_layers else model.initial_weights,
        "init_head": settings.init_head,
        "max_seq_length": data.config.max_seq_length,
        "vocabulary_sha256": tokenizer.vocabulary_sha256,
        "do_lower_case": tokenizer.do_lower_case,
    }

    # Only runs with these settings have these values: earlier versions had none.
    if settings.features:
        facts |= {"approach": "features", "feature_dtype": settings.features.dtype}
    if (weights := data.config.class_weights) is not None:
        facts["class_weights"] = parse_class_weights(weights) or weights
    return facts | (teacher.of_run() if teacher else {})


def _initializer(
    task: Task, model: RunModel, settings: RunSettings
) -> Callable[[Any], None] | None:
    """Returns a function that assigns the initial weights.

    None if they must be those of a run.
    """
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
