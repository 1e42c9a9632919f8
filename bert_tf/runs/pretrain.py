"""`pretrain`: pretrains a BERT on records, and evaluates it, in one call.

The program `run_pretraining` calls it.
"""

import functools
import logging
import os
from collections.abc import Callable
from functools import partial

import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.errors import Path, plain
from bert_tf.masking.masking_config import MaskingConfig
from bert_tf.modeling.initial_weights import drawn_late
from bert_tf.pretraining import record_checks
from bert_tf.pretraining.batches import (
    describe_origins,
    evaluation_batches,
    training_batches,
)
from bert_tf.pretraining.damaged_records import explain_read_error, without_damage
from bert_tf.pretraining.pretraining_config import PretrainingConfig, PretrainingRecords
from bert_tf.pretraining.pretraining_objective import (
    PretrainingObjective,
    majority_accuracies,
    make_objective,
    warn_if_no_better,
)
from bert_tf.pretraining.sample_predictions import masked_sentences
from bert_tf.record_format import Sizes
from bert_tf.runs import run_identity, step_costs
from bert_tf.runs.run_model import RunModel
from bert_tf.training.backend import make_devices
from bert_tf.training.callbacks import HeldOutData
from bert_tf.training.lifecycle.error_messages import RecordLookup
from bert_tf.training.lifecycle.run_folder import RunFolder
from bert_tf.training.step.objective import Metrics
from bert_tf.training.summaries import write_results
from bert_tf.training.trainer import Trainer, TrainingData
from bert_tf.training.training_config import RunPhases, RuntimeConfig, TrainingConfig

_LOGGER = logging.getLogger(__name__)
_TRAIN_AND_EVALUATE = RunPhases(train=True, evaluate=True)


def pretrain(
    input_file: Path | None,
    output_dir: Path,
    *,
    eval_input_file: Path | None = None,
    init_checkpoint: Path | None = None,
    bert_config_file: Path | None = None,
    vocab_file: Path | None = None,
    do_lower_case: bool | None = None,
    overwrite: bool = False,
    phases: RunPhases = _TRAIN_AND_EVALUATE,
    config: PretrainingConfig | None = None,
    masking: MaskingConfig | None = None,
    training: TrainingConfig | None = None,
    runtime: RuntimeConfig | None = None,
) -> Metrics:
    """Pretrains a model on records, and evaluates it.

    The files in `output_dir` are those of the program `run_pretraining`. The same call
    resumes an interrupted run. Without training, the model is that of the run in
    `output_dir`, or else `init_checkpoint`.

    Args:
        input_file: Comma-separated globs of the records to train on, such as those of
            `create_pretraining_data`. None if the call does not train.
        output_dir: The folder of the run.
        eval_input_file: Comma-separated globs of the held-out records to evaluate on.
            None for the records of `input_file`.
        init_checkpoint: The model to start from; see `bert_tf.load`. None for random
            weights.
        bert_config_file: The architecture: a file, or a size such as "tiny". None for
            the architecture of the checkpoint.
        vocab_file: The vocabulary. None for the vocabulary of the checkpoint.
        do_lower_case: Whether the tokenizer lower-cases text. None for the setting of
            the checkpoint.
        overwrite: Whether to remove an earlier run in `output_dir` instead of resuming
            it.
        phases: The phases to run; `predict` has no effect.
        config: The objective, and how the records are read.
        masking: Which tokens of unmasked records (`--masking=dynamic`) are predicted.
            The number of predictions in a sequence is that of `config`.
        training: The settings that affect the trained weights.
        runtime: Devices, logging and checkpoints.

    Returns:
        The held-out results, such as "masked_lm_accuracy"; empty if `phases.evaluate`
        is False.

    Raises:
        InputError: A setting or a file is not valid, the records do not match the
            model, or `output_dir` contains another run.
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
    config = config or PretrainingConfig()
    runtime = runtime or RuntimeConfig()
    # A process can connect to other workers only before the backend does anything else.
    devices = make_devices(runtime)

    # The records must have been created for the model.
    architecture, metadata, tokenizer = run_identity.pretraining_model(
        model, config.objective
    )
    records = record_checks.checked_records(
        plain(input_file),
        plain(eval_input_file),
        config=config,
        architecture=architecture,
        masking=masking or MaskingConfig(),
        tokenizer=tokenizer,
    )

    # A run resumes only with the same examples and initial weights.
    training = training or TrainingConfig()
    folder = RunFolder(
        output_dir,
        metadata,
        phases.train and overwrite,
        identity=run_identity.of_pretraining(records, model, tokenizer),
    )
    folder.check_same_run(training if phases.train else None)

    def assign_initial_weights(objective: PretrainingObjective) -> None:
        model.pretrained.assign(objective.model)

    with without_damage(records, folder, devices.is_chief) as readable:
        return _run(
            phases,
            readable,
            architecture=architecture,
            folder=folder,
            training=training,
            runtime=runtime,
            initialize=assign_initial_weights if init_checkpoint else None,
        )


def _run(
    phases: RunPhases,
    records: PretrainingRecords,
    *,
    architecture: BertConfig,
    folder: RunFolder,
    training: TrainingConfig,
    runtime: RuntimeConfig,
    initialize: Callable[[PretrainingObjective], None] | None,
) -> Metrics:
    """Starts or resumes training, and evaluates the result; see `pretrain`.

    With `runtime.eval_steps`, training evaluates even if `phases.evaluate` is False.
    `initialize` assigns the initial weights of a new run; with None, they are random.
    """
    # The held-out records, and what finds the record that caused an error.
    sizes = records.shape_sizes(architecture)
    files = list(dict.fromkeys([*records.train_files, *records.eval_files]))
    lookup = RecordLookup(
        partial(explain_read_error, files, sizes),
        partial(describe_origins, records.train_files),
    )
    held_out = evaluation_batches(
        records.eval_files, sizes, records.config.eval_batch_size, records.masks
    ).take(records.config.max_eval_steps or -1)

    # Build the model, with the weights of a checkpoint or the initial ones.
    kind = records.config.objective
    with drawn_late() as waiting:
        trainer = Trainer(
            partial(make_objective, architecture, kind, runtime),
            folder,
            training=training,
            runtime=runtime,
            initialize=initialize,
        )
        if trainer.resumes:
            waiting.clear()  # the checkpoint has all weights
    if phases.train:
        data = _training_data(trainer, records, sizes, lookup)

    # The accuracies of a constant prediction are computed once.
    majority = functools.cache(lambda: majority_accuracies(trainer.objective, held_out))

    def evaluate() -> Metrics:
        return trainer.evaluate(held_out, records=lookup) | majority()

    evaluates = phases.evaluate or runtime.eval_steps > 0
    if trainer.is_chief:
        _report_settings(RunPhases(phases.train, evaluates), records, training)
    step = 0 if phases.train else trainer.load_result(required=initialize is None)

    with trainer.locked_folder():
        # Train.
        if phases.train:
            samples = _make_samples(records, held_out, trainer, folder)
            evaluations = {"eval": evaluate} if evaluates else {}
            rates: Metrics = {"examples_per_sec": float(training.global_batch_size)}
            if trainer.is_chief:
                rates |= step_costs.of_pretraining(trainer, records, sizes, runtime)
            step = trainer.train(data, HeldOutData({}, samples, evaluations), rates)

        # Evaluate, unless the last evaluation of the training was of the final weights.
        values = trainer.results.get("eval", {})
        if phases.evaluate and not values:
            values = evaluate()

        # Write the results.
        results = {**values, "global_step": step}
        if trainer.is_chief:
            warn_if_no_better(values)
            if phases.evaluate:
                write_results(os.path.join(folder.path, "eval_results.txt"), results)
    return results if phases.evaluate else {}


def _training_data(
    trainer: Trainer[PretrainingObjective],
    records: PretrainingRecords,
    sizes: Sizes,
    lookup: RecordLookup,
) -> TrainingData:
    """Returns the batches of the train records, or this process's part of each batch."""
    part = trainer.part_of_batch()
    batches = training_batches(
        records.train_files,
        sizes,
        batch_size=trainer.training.global_batch_size,
        seed=trainer.training.seed,
        shuffle_buffer_size=records.config.shuffle_buffer_size,
        masks=records.masks,
        part=part,
    )
    return TrainingData(batches, lookup, is_part=part is not None)


def _report_settings(
    phases: RunPhases, records: PretrainingRecords, training: TrainingConfig
) -> None:
    """Logs the steps of the warm-up, and warns if the evaluation reads training records."""
    if phases.train:
        _LOGGER.info(
            "warm-up: %s of %s steps",
            f"{training.num_warmup_steps:,}",
            f"{training.num_train_steps:,}",
        )

    # Files with other names may be the same.
    trained = set(map(os.path.realpath, records.train_files))
    not_held_out = [
        path for path in records.eval_files if os.path.realpath(path) in trained
    ]
    if phases.evaluate and not_held_out:
        _LOGGER.warning(
            "warning: the evaluation reads training records (%d of %d files, such as "
            "%s), so its results do not hold for other texts. Give other records as "
            "eval_input_file, such as those of python "
            "data_prep/create_pretraining_data.py --eval_fraction=0.05.",
            len(not_held_out),
            len(records.eval_files),
            not_held_out[0],
        )


def _make_samples(
    records: PretrainingRecords,
    held_out: tf.data.Dataset,
    trainer: Trainer[PretrainingObjective],
    folder: RunFolder,
) -> Callable[[], str] | None:
    """Returns a function that shows sample predictions; None if there is nothing to show."""
    vocabulary = folder.metadata.vocabulary
    if vocabulary is None or records.config.objective == "causal":
        return None
    model = trainer.objective.model
    return lambda: masked_sentences(model, next(iter(held_out)), vocabulary)
