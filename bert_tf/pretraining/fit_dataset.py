"""`pretraining_dataset`: records as batches for `fit`, on each backend of Keras."""

import os
import types
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.errors import InputError, Path
from bert_tf.masking.masking_config import MaskingConfig
from bert_tf.pretraining.batches import training_batches
from bert_tf.pretraining.pretraining_config import PretrainingConfig
from bert_tf.pretraining.pretraining_objective import masked_lm_targets
from bert_tf.pretraining.record_checks import checked_records
from bert_tf.tokenization import BertTokenizer

_INPUTS = ("input_ids", "input_mask", "segment_ids")
# The pipeline computes in TensorFlow on each backend.
_TENSORS = types.SimpleNamespace(
    arange=tf.range, broadcast_to=tf.broadcast_to, cast=tf.cast, shape=tf.shape
)


def pretraining_dataset(
    files: Path,
    global_batch_size: int,
    seed: int,
    *,
    config: BertConfig,
    tokenizer: BertTokenizer | None = None,
    records: PretrainingConfig | None = None,
    masking: MaskingConfig | None = None,
    part: tuple[int, int] | None = None,
) -> tf.data.Dataset:
    """Returns endless shuffled batches of records for `BertPretrainer.fit`.

    The order and the masks are the same as in `run_pretraining` with the same seed. If
    the model is compiled with the losses in the docstring of `AdamWeightDecay`, the
    loss of a step is also the same.

    Args:
        files: Comma-separated globs of the record files of `create_pretraining_data`,
            with masks or without (`--masking=dynamic`).
        global_batch_size: Examples in a step, over all devices.
        seed: Seed of the order of the examples, and of masks made while training.
        config: The architecture of the model.
        tokenizer: The tokenizer of the records; required for records without masks. If
            given, its vocabulary must be that of the records, also with masks.
        records: The objective, and how the records are read.
        masking: Which tokens of records without masks are predicted.
        part: (n, N) to return only part n of N equal parts of each batch, if each
            process of a `keras.distribution` reads its own part. The distribution then
            needs `auto_shard_dataset=False`.

    Returns:
        Batches (inputs, targets, sample_weights). The inputs are `input_ids`,
        `input_mask` and `segment_ids`, int32 [B, S], and `masked_lm_positions`, int32
        [B, P]. The targets are `masked_lm_logits`, int32 [B, P], and, with the
        objective mlm_nsp, `next_sentence_logits`, int32 [B, 1]. The sample weights have
        the same keys: float32 [B, P], 0 where nothing is predicted, and ones [B].

    Raises:
        InputError: The records do not suit the settings, or the batch cannot be divided
            evenly over the devices of the distribution.
    """
    _check_batch_size(global_batch_size)
    settings = records or PretrainingConfig()
    pretraining_records = checked_records(
        os.fspath(files),
        None,
        config=settings,
        architecture=config,
        masking=masking or MaskingConfig(),
        tokenizer=tokenizer,
    )

    # Keras may iterate over the dataset several times. A shuffled dataset has another
    # order each time, so each iteration creates a new one.
    def batches(_: Any) -> tf.data.Dataset:
        return training_batches(
            pretraining_records.train_files,
            pretraining_records.shape_sizes(config),
            batch_size=global_batch_size,
            seed=seed,
            shuffle_buffer_size=settings.shuffle_buffer_size,
            masks=pretraining_records.masks,
            part=part,
        )

    def divide(batch: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
        masked = masked_lm_targets(batch, settings.objective, _TENSORS)
        inputs = {name: batch[name] for name in _INPUTS}
        inputs["masked_lm_positions"] = masked["masked_lm_positions"]

        targets = {"masked_lm_logits": masked["masked_lm_ids"]}
        weights = {"masked_lm_logits": masked["masked_lm_weights"]}
        if settings.objective == "mlm_nsp":
            labels = batch["next_sentence_labels"]  # [B, 1]
            targets["next_sentence_logits"] = labels
            weights["next_sentence_logits"] = tf.ones_like(labels[:, 0], tf.float32)
        return inputs, targets, weights

    return tf.data.Dataset.range(1).flat_map(batches).map(divide).prefetch(2)


def _check_batch_size(global_batch_size: int) -> None:
    """Raises `InputError` if a batch does not divide evenly over the distribution's devices."""
    distribution = keras.distribution.distribution()
    if distribution is None:
        return
    mesh = distribution.device_mesh
    devices = mesh.shape[mesh.axis_names.index(distribution.batch_dim_name)]
    if global_batch_size % devices:
        raise InputError(
            "global_batch_size must be a multiple of the devices that divide a batch. "
            f"Received: {global_batch_size} for {devices} devices. Give "
            f"{-(-global_batch_size // devices) * devices}."
        )
