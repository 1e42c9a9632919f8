"""Prepares tasks as a run does; see `Task.prepare`."""

from bert_tf.tasks.task import TaskInputs
from bert_tf.training.config import RunPhases

TRAIN = RunPhases(train=True, evaluate=False)


def prepared(
    task, location, phases=TRAIN, tokenizer=None, max_seq_length=128, trained=None
):
    tokenizer = tokenizer or getattr(task, "tokenizer", None)
    inputs = TaskInputs(location, phases, tokenizer, max_seq_length, trained or {})
    return task.prepare(inputs)
