"""A pretraining run: from records to checkpoints and held-out results."""

import functools
import logging
import os
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.modeling import BertPretrainer, costs
from bert_tf.modeling.initial_weights import drawn_late
from bert_tf.pretraining.batches import (
    describe_origins,
    evaluation_batches,
    training_batches,
)
from bert_tf.pretraining.damaged_records import explain_read_error
from bert_tf.pretraining.pretraining_config import PretrainingRecords
from bert_tf.pretraining.pretraining_objective import (
    PretrainingObjective,
    majority_accuracies,
    warn_if_no_better,
)
from bert_tf.pretraining.sample_predictions import masked_sentences
from bert_tf.record_format import Sizes
from bert_tf.training.callbacks import HeldOutData
from bert_tf.training.lifecycle.error_messages import RecordLookup
from bert_tf.training.lifecycle.run_folder import RunFolder
from bert_tf.training.step.objective import Metrics
from bert_tf.training.summaries import log_step_cost, write_results
from bert_tf.training.trainer import Trainer, TrainingData
from bert_tf.training.training_config import RunPhases, RuntimeConfig, TrainingConfig

_LOGGER = logging.getLogger(__name__)
_RECORDS_FOR_MEAN_LENGTH = 512


def train_and_evaluate(
    phases: RunPhases,
    records: PretrainingRecords,
    architecture: BertConfig,
    folder: RunFolder,
    training: TrainingConfig,
    runtime: RuntimeConfig,
    initialize: Callable[[PretrainingObjective], None] | None,
) -> Metrics:
    """Starts or resumes training, and evaluates the result.

    Args:
        phases: The phases to run. With `runtime.eval_steps`, training always evaluates
            too.
        records: The records for training and evaluation.
        architecture: The architecture of the model.
        folder: The output folder of the run.
        training: The settings that affect the trained weights.
        runtime: The other settings, such as devices, logging and checkpoints.
        initialize: Function that assigns initial weights to the model of a given
            objective. The function is called only if the run does not resume. None
            keeps the random weights.

    Returns:
        The held-out results, and the accuracies of a model that always predicts the
        most frequent token and label (see `majority_accuracies`); empty if
        `phases.evaluate` is False.

    Raises:
        InputError: The records do not match the model, or the run cannot go on in the
            folder; see `Trainer`.
    """
    shape_sizes = records.shape_sizes(architecture)
    config = records.config
    all_files = list(dict.fromkeys([*records.train_files, *records.eval_files]))
    lookup = RecordLookup(
        functools.partial(explain_read_error, all_files, shape_sizes),
        functools.partial(describe_origins, records.train_files),
    )
    held_out = evaluation_batches(
        records.eval_files, shape_sizes, config.eval_batch_size, records.masks
    ).take(config.max_eval_steps or -1)

    # The model, with the weights of a checkpoint or the initial ones.
    make_objective = functools.partial(
        _make_objective, architecture, config.objective, runtime
    )
    with drawn_late() as leave:
        trainer = Trainer(
            make_objective,
            folder,
            training=training,
            runtime=runtime,
            initialize=initialize,
        )
        if trainer.resumes:
            leave(trainer.objective.variables.values())
    majority: Metrics = {}

    def evaluate() -> Metrics:
        """Evaluates, and adds the accuracies of the majority."""
        values = trainer.evaluate(held_out, records=lookup)
        majority.update(majority or majority_accuracies(trainer.objective, held_out))
        return {**values, **majority}

    evaluates = phases.evaluate or runtime.eval_steps > 0
    if phases.train:
        data = _training_data(
            records, shape_sizes, training=training, lookup=lookup, trainer=trainer
        )
    if trainer.is_chief:
        _report_settings(RunPhases(phases.train, evaluates), records, training)
    if not phases.train:
        step = trainer.load_result(required=initialize is None)

    with trainer.locked_folder():
        if phases.train:
            per_step = {"examples_per_sec": float(training.global_batch_size)}
            if trainer.is_chief:
                length = _mean_length(records, shape_sizes, runtime)
                per_step |= _log_step_cost(
                    architecture,
                    records,
                    training=training,
                    runtime=runtime,
                    trainer=trainer,
                    mean_length=length,
                )
            samples = _make_samples(records, held_out, trainer, folder)
            evaluations = {"eval": evaluate} if evaluates else {}
            step = trainer.train(data, HeldOutData({}, samples, evaluations), per_step)

        # Training has the results of its last evaluation, if its last weights are the
        # final ones.
        values = trainer.results.get("eval", {})
        if phases.evaluate and not values:
            values = evaluate()

        results = {**values, "global_step": step}
        if trainer.is_chief:
            warn_if_no_better(values)
            if phases.evaluate:
                write_results(os.path.join(folder.path, "eval_results.txt"), results)
    return results if phases.evaluate else {}


def _training_data(
    records: PretrainingRecords,
    shape_sizes: Sizes,
    training: TrainingConfig,
    lookup: RecordLookup,
    trainer: Trainer[PretrainingObjective],
) -> TrainingData:
    part = trainer.part_of_batch()
    batches = training_batches(
        records.train_files,
        shape_sizes,
        batch_size=training.global_batch_size,
        seed=training.seed,
        shuffle_buffer_size=records.config.shuffle_buffer_size,
        masks=records.masks,
        part=part,
    )
    return TrainingData(batches, lookup, is_part=part is not None)


def _report_settings(
    phases: RunPhases, records: PretrainingRecords, training: TrainingConfig
) -> None:
    """Logs the warm-up, and whether the evaluation reads the training records."""
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
            "The evaluation reads training records (%d of %d files, such as %s), so "
            "its results do not hold for other texts. Give other records as "
            "eval_input_file, such as those of python "
            "data_prep/create_pretraining_data.py --eval_fraction=0.05.",
            len(not_held_out),
            len(records.eval_files),
            not_held_out[0],
        )


def _make_objective(
    architecture: BertConfig,
    kind: str,
    runtime: RuntimeConfig,
    *,
    seed: int,
    dtype: str,
) -> PretrainingObjective:
    pretrainer = BertPretrainer(
        architecture,
        next_sentence=kind == "mlm_nsp",
        recompute=runtime.recompute,
        seed=seed,
        dtype=dtype,
    )
    pretrainer.skip_padding = runtime.has_dynamic_shapes
    return PretrainingObjective(pretrainer, kind)


def _mean_length(
    records: PretrainingRecords, shape_sizes: Sizes, runtime: RuntimeConfig
) -> float:
    """Returns the mean number of positions of a sequence that a step computes.

    It is that of the first records, whose order is random.
    """
    if not runtime.has_dynamic_shapes:
        return records.max_seq_length
    try:
        (batch,) = evaluation_batches(
            records.train_files, shape_sizes, _RECORDS_FOR_MEAN_LENGTH, records.masks
        ).take(1)
    except tf.errors.OpError:  # the run names the damaged record
        return records.max_seq_length
    lengths = tf.reduce_sum(batch["input_mask"], axis=-1)
    return float(np.mean(lengths[lengths > 0]))


def _log_step_cost(
    architecture: BertConfig,
    records: PretrainingRecords,
    training: TrainingConfig,
    runtime: RuntimeConfig,
    trainer: Trainer[PretrainingObjective],
    mean_length: float,
) -> Metrics:
    batch = training.global_batch_size
    length = records.max_seq_length
    kind = records.config.objective
    predictions = length - 1 if kind == "causal" else records.max_predictions_per_seq

    # FLOPs are those of the mean length; memory must suffice for the largest one.
    flops = costs.training_step_flops(
        architecture,
        batch,
        length=round(mean_length),
        predictions=predictions,
        next_sentence=kind == "mlm_nsp",
    )
    examples_at_a_time = batch // (
        trainer.replicas * runtime.gradient_accumulation_steps
    )
    memory = costs.training_step_memory(
        architecture,
        examples_at_a_time,
        length=length,
        predictions=predictions,
        precision=training.precision,
        recompute=runtime.recompute,
        averaged=training.ema_decay > 0,
    )
    return log_step_cost(trainer.objective, round(batch * mean_length), flops, memory)


def _make_samples(
    records: PretrainingRecords,
    held_out: tf.data.Dataset,
    trainer: Trainer[PretrainingObjective],
    folder: RunFolder,
) -> Callable[[], str] | None:
    """Returns a function that shows predictions for a few held-out examples.

    Returns None if there is no vocabulary or no masked token.
    """
    vocabulary = folder.metadata.vocabulary
    if vocabulary is None or records.config.objective == "causal":
        return None
    model = trainer.objective.model
    return lambda: masked_sentences(model, next(iter(held_out)), vocabulary)
