"""Fine-tunes a model on a task, evaluates the model and writes predictions."""

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf import files
from bert_tf.config import BertConfig
from bert_tf.errors import InputError
from bert_tf.progress import Progress
from bert_tf.tasks import task_records
from bert_tf.tasks.config import FineTuningConfig
from bert_tf.tasks.task import Task
from bert_tf.tokenization import BertTokenizer
from bert_tf.training.callbacks.evaluation import HeldOutData
from bert_tf.training.config import RunPhases, RuntimeConfig, TrainingConfig
from bert_tf.training.lifecycle.run_folder import RunFolder
from bert_tf.training.reporting.summaries import write_results
from bert_tf.training.trainer import Trainer, TrainingData

_RECORD_FILES = {"train": "train.tf_record", "dev": "eval.tf_record", "test": "predict.tf_record"}


class TaskData:
    """The examples of a task and their record files.

    The constructor reads the examples; `write_records` writes the record files.

    Args:
        task: The task.
        data_dir: The folder with the data set of the task.
        tokenizer: Converts text to ids.
        config: The settings of fine-tuning.
        phases: The phases to run. Only the splits that these phases need are read.

    Raises:
        InputError: A data file is missing or malformed, or a split is empty.
    """

    def __init__(
        self,
        task: Task,
        data_dir: str,
        tokenizer: BertTokenizer,
        config: FineTuningConfig,
        phases: RunPhases,
    ) -> None:
        self.task, self.config, self._tokenizer = task, config, tokenizer
        needed = {"train": phases.train, "dev": phases.evaluate, "test": phases.predict}
        # All splits are read before any output is written, so that a malformed file causes an error
        # without incomplete output.
        self.examples = {
            split: _check_not_empty(task.read(data_dir, split), split, data_dir)
            for split in needed
            if needed[split]
        }
        self._columns: dict[str, dict[str, np.ndarray]] = {}

    def fingerprint(self) -> str:
        """Returns a hash of the training examples."""
        text = "\n".join(map(repr, self.examples.get("train", ())))
        return f"SHA-256 {files.sha256(text.encode())[:16]}"

    def num_steps(self, global_batch_size: int) -> tuple[int, int]:
        """Returns the number of training steps and the number of warm-up steps.

        Both numbers are rounded as in google-research/bert.

        Raises:
            InputError: The examples of all epochs do not fill one batch.
        """
        if "train" not in self.examples:
            return 1, 0
        if global_batch_size < 1:
            raise InputError(
                f"global_batch_size must be at least 1. Received: {global_batch_size}."
            )
        count, epochs = len(self.examples["train"]), self.config.num_train_epochs
        steps = int(count / global_batch_size * epochs)
        if steps < 1:
            raise InputError(
                f"{count} training examples in {epochs} epochs do not fill one batch of "
                f"{global_batch_size}. Give a smaller global_batch_size."
            )
        return steps, int(steps * self.config.warmup_proportion)

    def write_records(self, split: str, folder: str) -> tuple[str, dict[str, np.ndarray]]:
        """Writes the records of a split once; returns the file path, and the values by feature."""
        path = os.path.join(folder, _RECORD_FILES[split])
        if split not in self._columns:
            length = self.config.max_seq_length
            columns = self.task.encode(self.examples[split], self._tokenizer, length)
            task_records.write(path, columns, self.task.table)
            self._columns[split] = columns
        return path, self._columns[split]

    def evaluation_batches(self, path: str, batch_size: int) -> tf.data.Dataset:
        """Returns a dataset of batches that contain each example of a record file once."""
        length = self.config.max_seq_length
        return task_records.evaluation_batches(path, self.task.table, length, batch_size)


def fine_tune(
    phases: RunPhases,
    data: TaskData,
    config: BertConfig,
    folder: RunFolder,
    training: TrainingConfig,
    runtime: RuntimeConfig,
    initialize: Callable[[Any], None] | None = None,
) -> dict[str, float]:
    """Starts or resumes training, then evaluates and predicts.

    Args:
        phases: The phases to run.
        data: The examples of the task.
        config: The architecture.
        folder: The output folder of the run.
        training: The settings that affect the trained weights.
        runtime: The other settings, such as devices, logging and checkpoints.
        initialize: Function that assigns pretrained weights to the model of a given objective. The
            function is called only if the run does not resume. None keeps the random weights.

    Returns:
        The results on the dev split; empty if `phases.evaluate` is False.

    Raises:
        InputError: An earlier run in the output folder has different settings, or there are no
            weights to evaluate.
    """
    if runtime.eval_steps and not phases.evaluate:
        raise InputError("eval_steps evaluates on the dev split: give do_eval=True too.")
    if phases.train:
        folder.check_same_run()
    trainer = Trainer(
        functools.partial(data.task.make_objective, config, recompute=runtime.recompute),
        folder, training, runtime, initialize,
    )  # fmt: skip
    if phases.train:
        step = _train(trainer, data, folder.path, training, runtime)
    else:
        step = trainer.load_result(required=initialize is None)
    results = _evaluate(trainer, data, folder.path, step) if phases.evaluate else {}
    if phases.predict:
        outputs, _ = _predict(trainer, data, folder.path, "test")
        if trainer.is_chief:
            data.task.write_predictions(folder.path, data.examples["test"], outputs)
    return results


def _train(
    trainer: Trainer, data: TaskData, folder: str, training: TrainingConfig, runtime: RuntimeConfig
) -> int:
    path, columns = data.write_records("train", folder)
    datasets = {}
    if runtime.eval_steps:
        dev_path, _ = data.write_records("dev", folder)
        size = data.config.eval_batch_size
        datasets["eval"] = lambda: data.evaluation_batches(dev_path, size)
    batches = task_records.training_batches(
        path,
        len(columns["input_ids"]),
        data.task.table,
        data.config.max_seq_length,
        training.global_batch_size,
        training.seed,
        trim=not runtime.jit_compile and runtime.distribution_strategy != "tpu",
    )
    per_step = {"examples_per_sec": training.global_batch_size}
    return trainer.train(TrainingData(batches), HeldOutData(datasets), per_step)


def _evaluate(trainer: Trainer, data: TaskData, folder: str, step: int) -> dict[str, float]:
    outputs, columns = _predict(trainer, data, folder, "dev")
    results = {**data.task.metrics(columns, outputs), "global_step": step}
    if trainer.is_chief:
        write_results(os.path.join(folder, "eval_results.txt"), results)
    return results


def _predict(
    trainer: Trainer, data: TaskData, folder: str, split: str
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Returns the outputs of the model for a split, and the features of the split's examples."""
    path, columns = data.write_records(split, folder)
    config = data.config
    batch_size = config.eval_batch_size if split == "dev" else config.predict_batch_size
    objective: Any = trainer.objective
    forward = tf.function(objective.outputs, reduce_retracing=True)
    parts: list[Mapping[str, Any]] = []
    with Progress(f"predicting {split}", len(columns["input_ids"]), "examples") as progress:
        for batch in data.evaluation_batches(path, batch_size):
            parts.append({name: value.numpy() for name, value in forward(batch).items()})
            progress.update(len(batch["input_ids"]))
    outputs = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return outputs, columns


def _check_not_empty(examples: Sequence[Any], split: str, data_dir: str) -> Sequence[Any]:
    if not examples:
        raise InputError(f"The {split} split in {data_dir} has no examples.")
    return examples
