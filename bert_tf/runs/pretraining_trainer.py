"""The objective of a pretraining run, its data, and the cost of its steps."""

import numpy as np
import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.modeling import BertPretrainer, costs
from bert_tf.pretraining.batches import evaluation_batches, training_batches
from bert_tf.pretraining.pretraining_config import PretrainingRecords
from bert_tf.pretraining.pretraining_objective import PretrainingObjective
from bert_tf.record_format import Sizes
from bert_tf.training.lifecycle.error_messages import RecordLookup
from bert_tf.training.step.objective import Metrics
from bert_tf.training.summaries import log_step_cost
from bert_tf.training.trainer import Trainer, TrainingData
from bert_tf.training.training_config import RuntimeConfig

_RECORDS_FOR_MEAN_LENGTH = 512


def make_objective(
    architecture: BertConfig,
    kind: str,
    runtime: RuntimeConfig,
    *,
    seed: int,
    dtype: str,
) -> PretrainingObjective:
    """Returns the objective `kind`, one of those in `PretrainingConfig`, with its model."""
    pretrainer = BertPretrainer(
        architecture,
        next_sentence=kind == "mlm_nsp",
        recompute=runtime.recompute,
        seed=seed,
        dtype=dtype,
    )
    pretrainer.skip_padding = runtime.has_dynamic_shapes
    return PretrainingObjective(pretrainer, kind)


def training_data(
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


def quantities_per_step(
    trainer: Trainer[PretrainingObjective],
    records: PretrainingRecords,
    sizes: Sizes,
    runtime: RuntimeConfig,
) -> Metrics:
    """Logs the cost of a step, and returns what it processes, by the name of the rate."""
    quantities = {"examples_per_sec": float(trainer.training.global_batch_size)}
    if not trainer.is_chief:
        return quantities
    mean_length = _mean_length(records, sizes, runtime)
    return quantities | _log_step_cost(trainer, records, runtime, mean_length)


def _mean_length(
    records: PretrainingRecords, shape_sizes: Sizes, runtime: RuntimeConfig
) -> float:
    """Returns the mean number of positions of a sequence that a step computes.

    The mean is over the first records, whose order is random.
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
    trainer: Trainer[PretrainingObjective],
    records: PretrainingRecords,
    runtime: RuntimeConfig,
    mean_length: float,
) -> Metrics:
    architecture = trainer.objective.model.config
    training = trainer.training
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
