"""The cost of a step of fine-tuning: its tokens, its FLOPs and its memory."""

import math
from typing import Any

import numpy as np

from bert_tf.config import BertConfig
from bert_tf.modeling import costs
from bert_tf.runs.batches import TrainingOrder
from bert_tf.runs.fine_tuning_config import RunSettings
from bert_tf.runs.run_data import RunData
from bert_tf.training.step.objective import Metrics
from bert_tf.training.summaries import log_step_cost
from bert_tf.training.trainer import Trainer

_BATCHES_FOR_MEAN_LENGTH = 160


def log_costs(
    settings: RunSettings,
    data: RunData,
    trainer: Trainer[Any],
    order: TrainingOrder,
) -> Metrics:
    """Logs the cost of a step, and returns its tokens; see `log_step_cost`."""
    training = settings.training
    runtime = settings.runtime
    task = data.task
    config: BertConfig = trainer.objective.model.config

    # The mean length of the sequences of the first batches.
    length: float = data.config.max_seq_length
    if trainer.objective.model.skip_padding:
        (split,) = data.splits["train"]
        num_tokens = split.records.index.num_tokens
        steps = range(min(training.num_train_steps, _BATCHES_FOR_MEAN_LENGTH))
        means = [num_tokens[order.batch(step)].mean() for step in steps]
        length = float(np.mean(means))

    # A record has one sequence, or one for each choice.
    (shape,) = (feature.shape for feature in task.table if feature.name == "input_ids")
    per_record = math.prod(task.sizes[axis] for axis in shape[:-1])
    sequences = training.global_batch_size * per_record

    # FLOPs are those of the mean length; memory must suffice for the largest one.
    flops = costs.training_step_flops(
        config, sequences, length=round(length), predictions=0, next_sentence=False
    )
    memory = costs.training_step_memory(
        config,
        sequences // (trainer.replicas * runtime.gradient_accumulation_steps),
        length=data.config.max_seq_length,
        predictions=0,
        precision=training.precision,
        recompute=runtime.recompute,
        averaged=training.ema_decay > 0,
    )
    return log_step_cost(trainer.objective, round(sequences * length), flops, memory)
