"""The cost of a step: its tokens, its FLOPs and its memory."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.modeling import costs
from bert_tf.pretraining.batches import evaluation_batches
from bert_tf.pretraining.pretraining_config import PretrainingRecords
from bert_tf.record_format import Sizes
from bert_tf.runs.batches import ToBatch, TrainingOrder, length_step
from bert_tf.runs.record_files import RecordFile
from bert_tf.runs.run_data import RunData
from bert_tf.training.backend import has_dynamic_shapes
from bert_tf.training.step.objective import Metrics
from bert_tf.training.summaries import log_step_cost
from bert_tf.training.trainer import Trainer
from bert_tf.training.training_config import RuntimeConfig

_RECORDS_FOR_MEAN_LENGTH = 512
_BATCHES_FOR_MEAN_LENGTH = 160
_BATCHES_TO_READ = 16


def of_pretraining(
    trainer: Trainer[Any],
    records: PretrainingRecords,
    sizes: Sizes,
    runtime: RuntimeConfig,
) -> Metrics:
    """Logs the cost of a step, and returns the result of `log_step_cost`."""
    # The mean length of the first records, whose order is random.
    length: float = records.max_seq_length
    if has_dynamic_shapes(runtime):
        try:
            (batch,) = evaluation_batches(
                records.train_files, sizes, _RECORDS_FOR_MEAN_LENGTH, records.masks
            ).take(1)
            lengths = np.sum(batch["input_mask"], axis=-1)
            length = float(np.mean(lengths[lengths > 0]))
        except tf.errors.OpError:  # the run names the damaged record
            pass

    kind = records.config.objective
    return _log(
        trainer,
        runtime,
        sequences=trainer.training.global_batch_size,
        mean_length=length,
        max_length=records.max_seq_length,
        predictions=(
            records.max_seq_length - 1
            if kind == "causal"
            else records.max_predictions_per_seq
        ),
        next_sentence=kind == "mlm_nsp",
    )


def of_fine_tuning(
    trainer: Trainer[Any],
    data: RunData,
    order: TrainingOrder,
    runtime: RuntimeConfig,
    parse: ToBatch,
) -> Metrics:
    """Logs the cost of a step, and returns the result of `log_step_cost`.

    `parse` converts records to a batch.
    """
    training = trainer.training
    task = data.task

    # A record has one sequence, or one for each choice or text.
    (shape,) = (feature.shape for feature in task.table if feature.name == "input_ids")
    per_record = math.prod(task.sizes[axis] for axis in shape[:-1])

    length: float = data.config.max_seq_length
    multiple = length_step(trainer.objective, data.config.max_seq_length)
    if multiple:
        (split,) = data.splits["train"]
        steps = range(min(training.num_train_steps, _BATCHES_FOR_MEAN_LENGTH))
        if multiple == 1 and per_record > 1:
            mean = _mean_of_texts(split.records, order, steps, parse)
        else:
            num_tokens = split.records.index.num_tokens
            in_batches = [num_tokens[order.batch(step)] for step in steps]
            mean = _mean_of_records(in_batches, multiple)
        length = min(mean, length)
    return _log(
        trainer,
        runtime,
        sequences=training.global_batch_size * per_record,
        mean_length=length,
        max_length=data.config.max_seq_length,
    )


def _mean_of_records(in_batches: Sequence[np.ndarray], multiple: int) -> float:
    """Returns the mean length of records, or with the padding of batches to a multiple."""
    if multiple == 1:  # without padding
        return float(np.mean([each.mean() for each in in_batches]))
    longest = np.array([each.max() for each in in_batches], np.int64)
    return float(np.mean(-(-longest // multiple) * multiple))


def _mean_of_texts(
    records: RecordFile, order: TrainingOrder, steps: Sequence[int], parse: ToBatch
) -> float:
    """Returns the mean length of all sequences of records; the index has only the longest."""
    some = [order.batch(step) for step in steps[:_BATCHES_TO_READ]]
    batch = parse(tf.constant(records.read(np.concatenate(some))))
    return float(np.mean(np.sum(batch["input_mask"], axis=-1)))


def _log(
    trainer: Trainer[Any],
    runtime: RuntimeConfig,
    *,
    sequences: int,
    mean_length: float,
    max_length: int,
    predictions: int = 0,
    next_sentence: bool = False,
) -> Metrics:
    """Logs the FLOPs for the mean length of sequences, and the memory for the largest length."""
    config = trainer.objective.model.config
    training = trainer.training
    flops = costs.training_step_flops(
        config,
        sequences,
        length=round(mean_length),
        predictions=predictions,
        next_sentence=next_sentence,
    )
    memory = costs.training_step_memory(
        config,
        sequences // (trainer.replicas * runtime.gradient_accumulation_steps),
        length=max_length,
        predictions=predictions,
        precision=training.precision,
        recompute=runtime.recompute,
        averaged=training.ema_decay > 0,
    )
    return log_step_cost(
        trainer.objective, round(sequences * mean_length), flops, memory
    )
