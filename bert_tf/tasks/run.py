"""A fine-tuning run: from a data set to checkpoints, results and predictions."""

import dataclasses
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf import files
from bert_tf.config import BertConfig
from bert_tf.errors import InputError, check_at_least
from bert_tf.progress import Progress
from bert_tf.tasks import records
from bert_tf.tasks.task import Task
from bert_tf.tokenization import BertTokenizer
from bert_tf.training import state
from bert_tf.training.config import RuntimeConfig, TrainingConfig
from bert_tf.training.loop import Trainer
from bert_tf.training.summaries import write_results

_RECORD_FILES = {"train": "train.tf_record", "dev": "eval.tf_record", "test": "predict.tf_record"}


@dataclasses.dataclass(frozen=True)
class Steps:
    """What a run does, and in which sizes.

    Attributes:
        train: Whether to train on the train split.
        evaluate: Whether to write `eval_results.txt` on the dev split.
        predict: Whether to write predictions of the test split.
        max_seq_length: Tokens a sequence is cut to.
        num_train_epochs: Passes over the train split.
        warmup_proportion: Share of the steps in which the learning rate rises.
        eval_batch_size: Examples in a batch when evaluating.
        predict_batch_size: Examples in a batch when predicting.
    """

    train: bool
    evaluate: bool
    predict: bool
    max_seq_length: int = 128
    num_train_epochs: float = 3.0
    warmup_proportion: float = 0.1
    eval_batch_size: int = 8
    predict_batch_size: int = 8

    def __post_init__(self) -> None:
        check_at_least(1, self, "max_seq_length", "eval_batch_size", "predict_batch_size")
        if not 0 < self.num_train_epochs < math.inf:
            raise InputError(
                f"num_train_epochs must be above 0. Received: {self.num_train_epochs}."
            )
        if not 0 <= self.warmup_proportion <= 1:
            raise InputError(
                f"warmup_proportion must be in [0, 1]. Received: {self.warmup_proportion}."
            )


class Finetuning:
    """One task in the folder of a run.

    Args:
        task: The task.
        data_dir: Its data set.
        tokenizer: Text to ids.
        config: The architecture.
        output_dir: Folder of the run.
        steps: What to do.
    """

    def __init__(
        self,
        task: Task,
        data_dir: str,
        tokenizer: BertTokenizer,
        config: BertConfig,
        output_dir: str,
        steps: Steps,
    ) -> None:
        self._task, self._data_dir, self._tokenizer = task, data_dir, tokenizer
        self._config, self._dir, self._steps = config, output_dir, steps
        wanted = {"train": steps.train, "dev": steps.evaluate, "test": steps.predict}
        self._written: dict[str, tuple[str, dict[str, np.ndarray]]] = {}
        # All is read before anything is written: a malformed file leaves nothing behind.
        self._examples = {
            split: _some(task.read(data_dir, split), split, data_dir)
            for split, needed in wanted.items()
            if needed
        }

    def fingerprint(self) -> str:
        """Says which training examples these are: another text for another data set."""
        text = "\n".join(map(repr, self._examples.get("train", ())))
        return f"SHA-256 {files.sha256(text.encode())[:16]}"

    def schedule(self, global_batch_size: int) -> tuple[int, int]:
        """Training steps and warmup steps, rounded down as the released code does."""
        if not self._steps.train:
            return 1, 0
        if global_batch_size < 1:
            raise InputError(f"The batch must be at least 1. Received: {global_batch_size}.")
        count = len(self._examples["train"])
        steps = int(count / global_batch_size * self._steps.num_train_epochs)
        if steps < 1:
            raise InputError(
                f"{count} training examples make no step of {global_batch_size} in "
                f"{self._steps.num_train_epochs} epochs. Give a smaller --train_batch_size."
            )
        return steps, int(steps * self._steps.warmup_proportion)

    def run(
        self,
        model: state.ModelDescription,
        training: TrainingConfig,
        runtime: RuntimeConfig,
        initialize: Callable[[Any], None] | None,
        overwrite: bool = False,
        strategy: tf.distribute.Strategy | None = None,
    ) -> dict[str, float]:
        """Does what `steps` says.

        Args:
            model: What travels with the weights.
            training: What defines the result.
            runtime: How it is computed.
            initialize: Puts the pretrained weights into a new run's model.
            overwrite: Remove the run that is in the folder first.
            strategy: Of `make_strategy(runtime)`, where it had to be made earlier.

        Returns:
            The results on the dev split, empty without `evaluate`.

        Raises:
            InputError: The run in the folder does not fit, or there is no model to evaluate.
        """
        if runtime.eval_steps and not self._steps.evaluate:
            raise InputError("eval_steps evaluates on the dev split: give --do_eval=true too.")
        if self._steps.train and not overwrite:
            state.check_run(self._dir, model, training)
        trainer = Trainer(
            lambda: self._task.make_objective(self._config, runtime.recompute),
            model,
            training,
            runtime,
            self._dir,
            initialize,
            overwrite and self._steps.train,
            strategy,
        )
        if self._steps.train:
            step = self._train(trainer, training, runtime)
        else:
            step = trainer.load_result()
            if not step and initialize is None:
                raise InputError(f"{self._dir} holds no checkpoint to evaluate or predict with.")
        results = self._evaluate(trainer, step) if self._steps.evaluate else {}
        if self._steps.predict:
            self._predict(trainer)
        return results

    def _train(self, trainer: Trainer, training: TrainingConfig, runtime: RuntimeConfig) -> int:
        path, columns = self._write("train")
        held_out = {}
        if runtime.eval_steps:
            dev, _ = self._write("dev")
            held_out["eval"] = lambda: self._evaluation_batches(dev, self._steps.eval_batch_size)
        return trainer.train(
            records.training_batches(
                path,
                len(columns["input_ids"]),
                self._task.table,
                self._steps.max_seq_length,
                training.global_batch_size,
                training.seed,
                cut=not runtime.jit_compile and runtime.distribution_strategy != "tpu",
            ),
            held_out,
        )

    def _write(self, split: str) -> tuple[str, dict[str, np.ndarray]]:
        """The record file and columns of a split, which is encoded once."""
        if split not in self._written:
            columns = self._task.encode(
                self._examples[split], self._tokenizer, self._steps.max_seq_length
            )
            path = os.path.join(self._dir, _RECORD_FILES[split])
            records.write(path, columns, self._task.table)
            self._written[split] = path, columns
        return self._written[split]

    def _evaluate(self, trainer: Trainer, step: int) -> dict[str, float]:
        path, columns = self._write("dev")
        outputs = self._outputs(trainer, path, len(columns["input_ids"]), "dev")
        results = {**self._task.metrics(columns, outputs), "global_step": step}
        if trainer.is_chief:
            write_results(os.path.join(self._dir, "eval_results.txt"), results)
        return results

    def _predict(self, trainer: Trainer) -> None:
        path, columns = self._write("test")
        outputs = self._outputs(trainer, path, len(columns["input_ids"]), "test")
        if trainer.is_chief:
            self._task.write_predictions(self._dir, self._examples["test"], outputs)

    def _evaluation_batches(self, path: str, batch_size: int) -> tf.data.Dataset:
        length = self._steps.max_seq_length
        return records.evaluation_batches(path, self._task.table, length, batch_size)

    def _outputs(
        self, trainer: Trainer, path: str, count: int, split: str
    ) -> dict[str, np.ndarray]:
        size = self._steps.eval_batch_size if split == "dev" else self._steps.predict_batch_size
        objective: Any = trainer.objective
        forward = tf.function(objective.outputs, reduce_retracing=True)
        parts: list[Mapping[str, Any]] = []
        with Progress(f"predicting {split}", count, "examples") as progress:
            for batch in self._evaluation_batches(path, size):
                parts.append({name: value.numpy() for name, value in forward(batch).items()})
                progress.update(len(batch["input_ids"]))
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _some(examples: Sequence[Any], split: str, data_dir: str) -> Sequence[Any]:
    if not examples:
        raise InputError(f"The {split} split in {data_dir} holds no example.")
    return examples
