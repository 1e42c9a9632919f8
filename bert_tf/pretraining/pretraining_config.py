"""The settings and the records of a pretraining run.

Does not import TensorFlow, so that programs can show the defaults quickly.
"""

import dataclasses
from collections.abc import Sequence

from bert_tf.config import BertConfig
from bert_tf.config_fields import documented, option
from bert_tf.errors import (
    check_at_least,
    check_between,
    check_choices,
    store_plain_values,
)
from bert_tf.masking.dynamic_masks import DynamicMasks

OBJECTIVES = ("mlm_nsp", "mlm", "causal")
# The settings whose defaults are in the manifest next to the records.
LENGTHS = ("max_seq_length", "max_predictions_per_seq")
_MAX_BUFFER = 1 << 24  # TensorFlow allocates a place for each example at once


@documented
@dataclasses.dataclass(frozen=True)
class PretrainingConfig:
    """The settings of pretraining: the objective, and how records are read.

    Raises:
        InputError: A value is out of range.
    """

    objective: str = option(
        "mlm_nsp",
        "mlm_nsp: the objective of BERT. mlm: without next-sentence prediction. "
        "causal: left-to-right language model with causal attention; create its "
        "records with --objective=causal.",
        choices=OBJECTIVES,
    )
    max_seq_length: int | None = option(
        None,
        "Length of the sequences in the records. Default: that in the manifest next "
        "to the records, else 128.",
    )
    max_predictions_per_seq: int | None = option(
        None,
        "Number of masked positions per sequence in the records. Default: that in "
        "the manifest next to the records, else 20.",
    )
    eval_batch_size: int = option(8, "Examples per batch in evaluations.")
    max_eval_steps: int = option(
        100, "Maximum number of batches in an evaluation; 0 means all."
    )
    shuffle_buffer_size: int = option(
        10000, "Size of the shuffle buffer in examples, at most 2^24."
    )
    skip_bad_records: bool = option(
        False,
        "Check all records first; replace damaged files by copies in `output_dir` "
        "without the damaged records. If the length field of a record is damaged, "
        "the copy ends before it.",
    )

    def __post_init__(self) -> None:
        store_plain_values(self)
        check_at_least(1, self, *self.given_lengths, "eval_batch_size")
        check_between(1, _MAX_BUFFER, self, "shuffle_buffer_size")
        check_at_least(0, self, "max_eval_steps")
        check_choices(self)

    @property
    def given_lengths(self) -> dict[str, int]:
        """The lengths that the user gave, by name; the manifest has the others."""
        values = {name: getattr(self, name) for name in LENGTHS}
        return {name: value for name, value in values.items() if value is not None}


@dataclasses.dataclass(frozen=True)
class PretrainingRecords:
    """The record files for training and evaluation, and how they are read.

    Attributes:
        max_seq_length: Number of tokens per sequence in all record files.
        max_predictions_per_seq: Number of masked positions per sequence in all files.
        config: The objective, and how the records are read.
        masks: How unmasked records are masked when they are read; None if the records
            have masks.
    """

    train_files: Sequence[str]
    eval_files: Sequence[str]
    max_seq_length: int = 128
    max_predictions_per_seq: int = 20
    config: PretrainingConfig = PretrainingConfig()
    masks: DynamicMasks | None = None

    def shape_sizes(self, config: BertConfig) -> dict[str, int]:
        """Returns the argument `sizes` of `batches.training_batches`."""
        return {
            "S": self.max_seq_length,
            "P": self.max_predictions_per_seq,
            "V": self.masks.vocabulary.size if self.masks else config.vocab_size,
            "T": config.type_vocab_size,
        }
