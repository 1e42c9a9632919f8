"""A pretraining run: from records to checkpoints and held-out results."""

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.errors import InputError, check_at_least
from bert_tf.modeling import BertPretrainer, sizes
from bert_tf.pretraining import data
from bert_tf.pretraining.objective import PretrainingObjective
from bert_tf.pretraining.samples import masked_sentences
from bert_tf.training import state
from bert_tf.training.config import RuntimeConfig, TrainingConfig
from bert_tf.training.loop import Trainer
from bert_tf.training.preflight import Cost
from bert_tf.training.summaries import write_results


@dataclasses.dataclass(frozen=True)
class Records:
    """What to train and to evaluate on.

    Attributes:
        train_files: Record files.
        eval_files: Record files of the held-out evaluation.
        max_seq_length: Length of the sequences in both, S.
        max_predictions_per_seq: Length of the predictions in both, P.
        eval_batch_size: Examples in a batch when evaluating.
        max_eval_steps: Most batches of an evaluation; 0 means all.
        shuffle_buffer_size: Examples that the order of training is drawn from.
    """

    train_files: Sequence[str]
    eval_files: Sequence[str]
    max_seq_length: int
    max_predictions_per_seq: int
    eval_batch_size: int = 8
    max_eval_steps: int = 100
    shuffle_buffer_size: int = 10000

    def __post_init__(self) -> None:
        check_at_least(1, self, "max_seq_length", "max_predictions_per_seq")
        check_at_least(1, self, "eval_batch_size", "shuffle_buffer_size")
        check_at_least(0, self, "max_eval_steps")

    def sizes(self, vocab_size: int) -> dict[str, int]:
        """What `data` checks the records against."""
        return {"S": self.max_seq_length, "P": self.max_predictions_per_seq, "V": vocab_size}


@dataclasses.dataclass(frozen=True)
class Steps:
    """What a run does.

    Attributes:
        train: Whether to train, or to go on training.
        evaluate: Whether to write `eval_results.txt`.
        objective: One of `objective.OBJECTIVES`.
        overwrite: Remove the run that is in the folder first.
    """

    train: bool
    evaluate: bool
    objective: str = "mlm_nsp"
    overwrite: bool = False


def pretrain(
    steps: Steps,
    records: Records,
    config: BertConfig,
    model: state.ModelDescription,
    training: TrainingConfig,
    runtime: RuntimeConfig,
    output_dir: str,
    initialize: Callable[[Any], None] | None = None,
    strategy: tf.distribute.Strategy | None = None,
) -> dict[str, float]:
    """Trains, or goes on training, and evaluates.

    Args:
        steps: What to do.
        records: What on.
        config: The architecture.
        model: What travels with the weights.
        training: What defines the result.
        runtime: How it is computed.
        output_dir: Folder of the run.
        initialize: Puts initial weights into a new run's model.
        strategy: Of `make_strategy(runtime)`, where it had to be made earlier.

    Returns:
        The held-out results, empty without `steps.evaluate`.

    Raises:
        InputError: The records, or the run in the folder, do not fit.
    """
    overwrite = steps.train and steps.overwrite
    if steps.train and not overwrite:
        state.check_run(output_dir, model, training)
    lengths = records.sizes(config.vocab_size)
    held_out, batches = _batches(records, lengths, training)
    make = functools.partial(_make_objective, config, steps.objective, runtime.recompute)
    trainer = Trainer(make, model, training, runtime, output_dir, initialize, overwrite, strategy)
    files = list(dict.fromkeys([*records.train_files, *records.eval_files]))
    explain = functools.partial(data.explain_read_error, files, lengths)
    if steps.train:
        step = trainer.train(
            batches,
            {"eval": lambda: held_out},
            explain,
            functools.partial(data.describe_origins, records.train_files),
            _cost(steps.objective, records, config, training, runtime, trainer.replicas),
            _samples(steps.objective, held_out, trainer.objective, model.vocabulary),
        )
    else:
        step = trainer.load_result()
        if not step and initialize is None:
            raise InputError(f"There is nothing to evaluate: {output_dir} holds no checkpoint.")
    if not steps.evaluate:
        return {}
    # Training ends with an evaluation, unless it ended before.
    values = trainer.results.get("eval") or _evaluate(trainer, held_out, explain)
    results = {**values, "global_step": step}
    if trainer.is_chief:
        write_results(os.path.join(output_dir, "eval_results.txt"), results)
    return results


def _evaluate(
    trainer: Trainer, held_out: tf.data.Dataset, explain: Callable[[Exception], str | None]
) -> dict[str, float]:
    try:
        return trainer.evaluate(held_out)
    except data.READ_ERRORS as error:
        reason = explain(error)
        if reason is None:
            raise
        raise InputError(reason) from error


def _make_objective(config: BertConfig, kind: str, recompute: bool) -> PretrainingObjective:
    model = BertPretrainer(config, next_sentence=kind == "mlm_nsp", recompute=recompute)
    return PretrainingObjective(model, kind)


def _cost(
    kind: str,
    records: Records,
    config: BertConfig,
    training: TrainingConfig,
    runtime: RuntimeConfig,
    replicas: int,
) -> Cost:
    """What a step costs."""
    batch, length = training.global_batch_size, records.max_seq_length
    predictions = length - 1 if kind == "causal" else records.max_predictions_per_seq
    at_a_time = batch // (replicas * runtime.gradient_accumulation_steps)
    memory = sizes.step_memory(
        config, at_a_time, length, predictions, training.precision, runtime.recompute,
        averaged=training.ema_decay > 0,
    )  # fmt: skip
    counts = sizes.parameters(config)
    if kind != "mlm_nsp":
        del counts["next_sentence_head"]
    return Cost(
        parameters=sum(counts.values()),
        tokens=batch * length,
        flops=sizes.step_flops(config, batch, length, predictions, kind == "mlm_nsp"),
        memory=memory,
    )


def _samples(
    kind: str,
    held_out: tf.data.Dataset,
    objective: Any,
    vocabulary: Sequence[str] | None,
) -> Callable[[], str] | None:
    """What makes a text of a few held-out examples; None where nothing is masked or readable."""
    if vocabulary is None or kind == "causal":
        return None
    return lambda: masked_sentences(objective.model, next(iter(held_out)), vocabulary)


def _batches(
    records: Records, lengths: Mapping[str, int], training: TrainingConfig
) -> tuple[tf.data.Dataset, tf.data.Dataset]:
    """The batches of the held-out evaluation, and those of training."""
    held_out = data.evaluation_batches(records.eval_files, lengths, records.eval_batch_size)
    batches = data.training_batches(
        records.train_files,
        lengths,
        training.global_batch_size,
        training.seed,
        records.shuffle_buffer_size,
    )
    return held_out.take(records.max_eval_steps or -1), batches
