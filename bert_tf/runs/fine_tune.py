"""`fine_tune`: trains a BERT for a task, evaluates it and predicts, in one call.

The programs `run_classifier`, `run_squad`, `run_ner`, `run_swag` and `run_embedding`
call `run`, because they have read the checkpoint already.
"""

import dataclasses
import os
from functools import partial
from typing import Any

from bert_tf.errors import InputError, Path, plain
from bert_tf.head_config import HeadConfig
from bert_tf.modeling.initial_weights import drawn_late
from bert_tf.runs import initial_model, run_identity, split_results, task_training
from bert_tf.runs.distillation import Teacher, cache_teacher, make_teacher
from bert_tf.runs.evaluation import SplitEvaluator
from bert_tf.runs.fine_tuning_config import (
    DistillationConfig,
    FeatureSettings,
    FineTuningConfig,
    RunSettings,
)
from bert_tf.runs.output_cache import cache_features
from bert_tf.runs.run_data import RunData
from bert_tf.runs.run_model import RunModel
from bert_tf.runs.split_results import Scores
from bert_tf.storage import files
from bert_tf.tasks.task import RESULTS, DataLocation, Task
from bert_tf.training.backend import make_devices
from bert_tf.training.lifecycle import checkpoint
from bert_tf.training.step.objective import Metrics
from bert_tf.training.trainer import Trainer
from bert_tf.training.training_config import RunPhases, RuntimeConfig, TrainingConfig

_TRAIN_AND_EVALUATE = RunPhases(train=True, evaluate=True)


class RunResults(dict[str, float]):
    """The metrics on the dev splits, and on test splits with labels, by name.

    Attributes:
        summary: A sentence with the metric that selects the best weights; "" if there
            is none.
        is_chief: Whether this process writes the files of the run.
    """

    def __init__(self, values: Metrics, summary: str, is_chief: bool) -> None:
        super().__init__(values)
        self.summary = summary
        self.is_chief = is_chief


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
    head: HeadConfig | None = None,
    overwrite: bool = False,
    check_only: bool = False,
    phases: RunPhases = _TRAIN_AND_EVALUATE,
    config: FineTuningConfig | None = None,
    training: TrainingConfig | None = None,
    runtime: RuntimeConfig | None = None,
    features: FeatureSettings | None = None,
    distillation: DistillationConfig | None = None,
) -> RunResults:
    """Trains a model for a task, evaluates it and writes predictions.

    The files in `output_dir` are those of the programs for fine-tuning. The same call
    resumes an interrupted run. Without training, the model is that of the run in
    `output_dir`, or else `init_checkpoint`.

    Args:
        task: The task: `glue_task`, `custom_task`, `SquadTask`, `NerTask`,
            `ChoiceTask`, `EmbeddingTask`, or your own subclass of `Task`.
        data: The location of the data set.
        output_dir: The folder of the run.
        init_checkpoint: The pretrained model; see `bert_tf.load`. None for random
            weights.
        bert_config_file: The architecture: a file, or a size such as "tiny". None for
            the architecture of the checkpoint.
        vocab_file: The vocabulary. None for the vocabulary of the checkpoint.
        do_lower_case: Whether the tokenizer lower-cases text. None for the setting of
            the checkpoint.
        init_head: Whether the head comes from `init_checkpoint` too. By default, it
            does if the checkpoint is of the same task with the same labels.
        head: The layers of the head that is trained. None for the layers of `task`.
        overwrite: Whether to remove an earlier run in `output_dir` instead of resuming
            it.
        check_only: Whether to stop after all checks, before anything is written.
        phases: The phases to run.
        config: Lengths, epochs and batch sizes of evaluations.
        training: The settings that affect the trained weights. The numbers of steps are
            calculated from the epochs of `config`; those of `training` are ignored.
        runtime: Devices, logging and checkpoints.
        features: If given, only the head is trained, on cached hidden states of the
            frozen encoder.
        distillation: If given, the model also learns the outputs of a teacher.

    Returns:
        A dictionary: the results on the dev splits, such as "eval_accuracy", and on
        test splits with labels.

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
        head=head,
    )
    return run(task, data, model=model, settings=settings, check_only=check_only)


def run(
    task: Task,
    location: DataLocation,
    *,
    model: RunModel,
    settings: RunSettings,
    check_only: bool,
) -> RunResults:
    """Runs the phases in `model.output_dir`; see `fine_tune`."""
    phases = settings.phases

    # Read the initial models, and the examples of the task.
    distillation = settings.distillation if phases.train else None
    if distillation:
        model = initial_model.student_of(distillation, model)
    if settings.init_head is not None and not model.init_checkpoint:
        raise InputError("init_head needs init_checkpoint. Give both or none.")
    make_devices(settings.runtime)  # reports missing devices before anything is read
    data, teacher = _read_data(
        task, location, model=model, settings=settings, distillation=distillation
    )

    # Only the same run is resumed.
    settings = _with_steps(settings, data)
    folder = run_identity.task_folder(data, model, settings, teacher)
    folder.check_same_run(settings.training if phases.train else None)

    # Build the models on their devices, with the initial weights or those of the run.
    initialize = initial_model.initializer(data.task, model, settings)
    config = model.pretrained.config
    with drawn_late() as waiting:
        trainer = Trainer(
            partial(task_training.make_objective, data.task, config, settings, teacher),
            folder,
            training=settings.training,
            runtime=settings.runtime,
            initialize=initialize,
        )
        if trainer.resumes:
            waiting.clear()  # the checkpoint has all weights
    # The hidden states of a frozen encoder are cached before training, so a resumed run
    # restores the weights here already. `first_step` decides what is cached.
    first_step = 0
    if settings.features and (newest := folder.checkpoint_to_resume()):
        first_step = checkpoint.restore_weights(newest, trainer.objective.variables)
    teacher_objective = teacher and make_teacher(teacher, settings, trainer)
    evaluator = SplitEvaluator(data, trainer.objective)
    step = 0 if phases.train else trainer.load_result(required=initialize is None)
    if check_only:
        data.report()
        return RunResults({}, "", trainer.is_chief)

    with trainer.locked_folder():
        # Cache the outputs of models that do not change, and train.
        _write_records(data, trainer, removes_result=phases.train)
        is_new = phases.train and not trainer.resumes
        split_results.find_baselines(evaluator, is_new, trainer.is_chief)
        if phases.train:
            if teacher and teacher_objective:
                cache_teacher(teacher, teacher_objective, evaluator, trainer)
                del teacher_objective  # frees its memory
            if settings.features:
                cache_features(settings.features, evaluator, trainer, first_step)
            step = task_training.train(trainer, evaluator, settings)

        # Evaluate, predict, and write the results.
        scores = _evaluate_and_predict(phases, evaluator, trainer, step)
        summary = split_results.conclude(scores, evaluator, trainer.is_chief)
    data.report_warnings()  # again, next to the results
    return RunResults(scores.values, summary, trainer.is_chief)


def _read_data(
    task: Task,
    location: DataLocation,
    *,
    model: RunModel,
    settings: RunSettings,
    distillation: DistillationConfig | None,
) -> tuple[RunData, Teacher | None]:
    """Returns the data, after the labels and head of the task are known, and any teacher."""
    length = settings.config.max_seq_length
    model.pretrained.config.check_length(length)
    source = RunModel(plain(distillation.teacher)) if distillation else model
    task = initial_model.prepared_task(
        task, location, model=model, source=source, settings=settings
    )
    teacher = None
    if distillation:
        teacher = initial_model.read_teacher(
            distillation, source, task=task, student=model, length=length
        )
    data = RunData(
        task,
        location,
        tokenizer=model.pretrained.tokenizer,
        config=settings.config,
        phases=settings.phases,
        folder=model.output_dir or "",
        unlabelled_file=plain(distillation.unlabelled_file) if distillation else None,
    )
    return data.read(), teacher


def _with_steps(settings: RunSettings, data: RunData) -> RunSettings:
    """Returns the settings with the numbers of steps that the epochs give."""
    steps, warmup_steps = data.num_steps(settings.training.global_batch_size)
    training = dataclasses.replace(
        settings.training, num_train_steps=steps, num_warmup_steps=warmup_steps
    )
    return dataclasses.replace(settings, training=training)


def _write_records(data: RunData, trainer: Trainer[Any], removes_result: bool) -> None:
    """Moves the records of all splits to the folder.

    The chief moves its records first. Any other process then moves only the records
    that its folder does not contain, if it has a folder of its own.
    """
    # The result of an earlier run must not be taken for that of this run.
    if removes_result and trainer.is_chief:
        files.remove(os.path.join(data.folder, RESULTS))
    with trainer.chief_first():
        data.write_all_records()


def _evaluate_and_predict(
    phases: RunPhases,
    evaluator: SplitEvaluator,
    trainer: Trainer[Any],
    step: int,
) -> Scores:
    """Returns the results of the dev splits, and of test splits with labels."""
    # The predictions of a labelled dev split contain its metrics.
    splits = evaluator.data.splits
    same_splits = phases.predict and splits["dev"] == splits["test"]
    scores = Scores()
    if phases.evaluate and not same_splits:
        scores = split_results.evaluate(evaluator, step, trainer.is_chief)
    if phases.predict and trainer.is_chief:
        predicted = split_results.predict(evaluator, step)
        scores = Scores(
            scores.values | predicted.values,
            scores.baselines | predicted.baselines,
        )
    return scores
