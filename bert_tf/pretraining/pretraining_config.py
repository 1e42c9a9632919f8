"""The records and the model of a pretraining run.

Does not import TensorFlow, so that programs can show the defaults quickly.
"""

import dataclasses
from collections.abc import Sequence

from bert_tf.config import BertConfig
from bert_tf.errors import check_at_least, check_between
from bert_tf.masking.masked_lm import DynamicMasks

OBJECTIVES = ("mlm_nsp", "mlm", "causal")
_MAX_BUFFER = 1 << 24  # TensorFlow allocates a place for each example at once


@dataclasses.dataclass(frozen=True)
class PretrainingRecords:
    """The records for training and evaluation.

    Attributes:
        train_files: Record files for training.
        eval_files: Record files for held-out evaluation.
        max_seq_length: Number of tokens per sequence in all record files.
        max_predictions_per_seq: Number of masked positions per sequence in all record
            files.
        eval_batch_size: Examples per batch in evaluations.
        max_eval_steps: Maximum number of batches in an evaluation; 0 means all.
        shuffle_buffer_size: Size of the shuffle buffer in examples, at most 2^24.
        masks: How unmasked records are masked when they are read; None if the records
            have masks.
    """

    train_files: Sequence[str]
    eval_files: Sequence[str]
    max_seq_length: int = 128
    max_predictions_per_seq: int = 20
    eval_batch_size: int = 8
    max_eval_steps: int = 100
    shuffle_buffer_size: int = 10000
    masks: DynamicMasks | None = None

    def __post_init__(self) -> None:
        check_at_least(
            1, self, "max_seq_length", "max_predictions_per_seq", "eval_batch_size"
        )
        check_between(1, _MAX_BUFFER, self, "shuffle_buffer_size")
        check_at_least(0, self, "max_eval_steps")

    def shape_sizes(self, config: BertConfig) -> dict[str, int]:
        """Returns the sizes that the records must match: `sizes` of `batches.training_batches`."""
        vocab_size = self.masks.vocabulary.size if self.masks else config.vocab_size
        return {
            "S": self.max_seq_length,
            "P": self.max_predictions_per_seq,
            "V": vocab_size,
            "T": config.type_vocab_size,
        }


@dataclasses.dataclass(frozen=True)
class PretrainingModel:
    """The model to pretrain.

    Attributes:
        config: The architecture.
        objective: One of `OBJECTIVES`.
    """

    config: BertConfig
    objective: str = "mlm_nsp"
