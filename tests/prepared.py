"""Prepares tasks and their data as a run does; see `Task.prepare`."""

import numpy as np
from squad_data import tokenizers

from bert_tf.runs.fine_tuning_config import FineTuningConfig
from bert_tf.runs.run_data import RunData
from bert_tf.tasks.task import DataLocation, TaskInputs
from bert_tf.training.training_config import RunPhases

TRAIN = RunPhases(train=True, evaluate=False)


def prepared(
    task, location, phases=TRAIN, tokenizer=None, max_seq_length=128, trained=None
):
    tokenizer = tokenizer or getattr(task, "tokenizer", None)
    inputs = TaskInputs(location, phases, tokenizer, max_seq_length, trained or {})
    return task.prepare(inputs)


def numbered_columns(numbers, lengths, seq_length):
    """Returns columns of records, [R, S] and [R], with the numbers [R] as labels.

    All tokens of a record have the id 5 + its number.
    """
    mask = (np.arange(seq_length) < lengths[:, None]).astype(np.int64)
    return {
        "input_ids": mask * (numbers[:, None] + 5),
        "input_mask": mask,
        "segment_ids": 0 * mask,
        "label_ids": numbers,
        "is_real_example": 0 * numbers + 1,
    }


def run_data(
    task,
    folder,
    length=8,
    phases=TRAIN,
    tokenizer=None,
    location=None,
    unlabelled_file=None,
    **config,
):
    """Returns the data of a run; by default, all files are those of the folder."""
    return RunData(
        task,
        location or DataLocation(data_dir=str(folder)),
        tokenizer or tokenizers(True)[0],
        FineTuningConfig(max_seq_length=length, **config),
        phases,
        str(folder / "out"),
        unlabelled_file,
    ).read()
