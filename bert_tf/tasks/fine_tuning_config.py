"""The settings of fine-tuning. Imports `errors`, so that programs can show the defaults quickly."""

import dataclasses

from bert_tf.errors import InputError, check_at_least

_MAX_EPOCHS = 1e6


@dataclasses.dataclass(frozen=True)
class FineTuningConfig:
    """The settings of fine-tuning that are not in `TrainingConfig` or `RuntimeConfig`.

    Attributes:
        max_seq_length: Longer sequences are truncated to this number of tokens.
        num_train_epochs: Passes over the train split, above 0 and at most 1,000,000.
        warmup_proportion: Share of the steps in which the learning rate rises.
        eval_batch_size: Examples per batch in evaluations.
        predict_batch_size: Examples per batch in predictions.

    Raises:
        InputError: A value is out of range.
    """

    max_seq_length: int = 128
    num_train_epochs: float = 3.0
    warmup_proportion: float = 0.1
    eval_batch_size: int = 8
    predict_batch_size: int = 8

    def __post_init__(self) -> None:
        check_at_least(3, self, "max_seq_length")
        check_at_least(1, self, "eval_batch_size", "predict_batch_size")
        if not 0 < self.num_train_epochs <= _MAX_EPOCHS:
            raise InputError(
                f"num_train_epochs must be above 0 and at most {_MAX_EPOCHS:,.0f}. Received: "
                f"{self.num_train_epochs}."
            )
        if not 0 <= self.warmup_proportion <= 1:
            raise InputError(
                f"warmup_proportion must be in [0, 1]. Received: {self.warmup_proportion}."
            )
