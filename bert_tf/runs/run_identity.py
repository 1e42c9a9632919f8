"""The values that identify a run, and those that are saved about its model."""

import dataclasses
from typing import Any

from bert_tf.config import BertConfig
from bert_tf.pretraining import record_checks
from bert_tf.pretraining.pretraining_config import PretrainingRecords
from bert_tf.runs.distillation import Teacher
from bert_tf.runs.fine_tuning_config import RunSettings, parse_class_weights
from bert_tf.runs.run_data import RunData
from bert_tf.runs.run_model import RunModel
from bert_tf.tokenization import BertTokenizer
from bert_tf.training.lifecycle.run_folder import CheckpointMetadata, RunFolder


def pretraining_model(
    model: RunModel, objective: str
) -> tuple[BertConfig, CheckpointMetadata, BertTokenizer | None]:
    """Returns the architecture, the values to save with the weights, and any tokenizer."""
    architecture = model.pretrained.config
    if objective == "causal":
        architecture = dataclasses.replace(architecture, attention="causal")
    if not model.pretrained.has_vocabulary:
        return architecture, CheckpointMetadata(architecture.to_dict()), None

    tokenizer = model.pretrained.tokenizer
    metadata = CheckpointMetadata(
        architecture.to_dict(), tokenizer.vocabulary, tokenizer.do_lower_case
    )
    return architecture, metadata, tokenizer


def of_pretraining(
    records: PretrainingRecords,
    model: RunModel,
    tokenizer: BertTokenizer | None,
) -> dict[str, Any]:
    """Returns the values that identify the examples and initial weights of a run."""
    masks = records.masks
    return {
        **({"masking": dataclasses.asdict(masks.config)} if masks else {}),
        "init_checkpoint": model.initial_weights,
        "objective": records.config.objective,
        "max_seq_length": records.max_seq_length,
        "max_predictions_per_seq": records.max_predictions_per_seq,
        "shuffle_buffer_size": records.config.shuffle_buffer_size,
        "records": record_checks.fingerprint(records.train_files),
        "vocabulary_sha256": tokenizer.vocabulary_sha256 if tokenizer else None,
        "do_lower_case": tokenizer.do_lower_case if tokenizer else None,
    }


def task_folder(
    data: RunData, model: RunModel, settings: RunSettings, teacher: Teacher | None
) -> RunFolder:
    """Returns the folder of the run, with the values about its model that are saved."""
    phases = settings.phases
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
        facts=facts,
        uncompared_facts=data.notes,
    )
    return RunFolder(
        data.folder,
        metadata,
        phases.train and model.overwrite,
        outputs=task.output_files,
        identity=of_task(data, model, settings, teacher),
    )


def of_task(
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
