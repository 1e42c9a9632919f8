"""The length of the sequences in fine-tuning, and the cost of a step; for logs."""

import math

import numpy as np

from bert_tf.config import BertConfig
from bert_tf.fine_tuning.batches import TrainingOrder
from bert_tf.fine_tuning.record_files import RecordFile
from bert_tf.fine_tuning.task_data import TaskData
from bert_tf.modeling import costs
from bert_tf.training.config import RuntimeConfig, TrainingConfig
from bert_tf.training.reporting import log_step_cost
from bert_tf.training.trainer import Trainer

_BATCHES_FOR_MEAN_LENGTH = 160


def mean_length(
    order: TrainingOrder, records: RecordFile, training: TrainingConfig
) -> float:
    """Returns the mean number of tokens of the sequences of the first batches."""
    steps = range(min(training.num_train_steps, _BATCHES_FOR_MEAN_LENGTH))
    return float(
        np.mean([records.index.num_tokens[order.batch(step)].mean() for step in steps])
    )


def log_cost(
    data: TaskData,
    config: BertConfig,
    training: TrainingConfig,
    runtime: RuntimeConfig,
    trainer: Trainer,
    length: float,
) -> dict[str, float]:
    """Logs the cost of a step whose sequences have a mean length.

    See `log_step_cost`.
    """
    (shape,) = (each.shape for each in data.task.table if each.name == "input_ids")
    per_record = math.prod(
        data.task.sizes[axis] for axis in shape[:-1]
    )  # 1, or choices
    sequences = training.global_batch_size * per_record
    at_a_time = sequences // (trainer.replicas * runtime.gradient_accumulation_steps)
    memory = costs.training_step_memory(
        config,
        at_a_time,
        data.config.max_seq_length,
        0,
        training.precision,
        runtime.recompute,
        averaged=training.ema_decay > 0,
    )
    variables = trainer.objective.variables.values()
    flops = costs.training_step_flops(config, sequences, round(length), 0, False)
    parameters = sum(math.prod(variable.shape) for variable in variables)
    return log_step_cost(parameters, round(sequences * length), flops, memory)
