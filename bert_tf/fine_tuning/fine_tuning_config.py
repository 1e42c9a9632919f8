"""The settings of fine-tuning. Imports no TensorFlow, so that programs start quickly."""

import dataclasses
from collections.abc import Mapping

from bert_tf.errors import InputError, check_at_least
from bert_tf.tasks.task import DEFAULT_LENGTH

_MAX_EPOCHS = 1e6
_MAX_WEIGHT = 1e6
BALANCED = "balanced"
ClassWeights = str | Mapping[str, float]


@dataclasses.dataclass(frozen=True)
class FineTuningConfig:
    """The settings of fine-tuning that are not in `TrainingConfig` or `RuntimeConfig`.

    Attributes:
        max_seq_length: Longer sequences are truncated to this number of tokens.
        num_train_epochs: Passes over the train split, above 0 and at most 1,000,000.
        warmup_proportion: Share of the steps in which the learning rate rises.
        eval_batch_size: Examples per batch in evaluations.
        predict_batch_size: Examples per batch in predictions.
        class_weights: Weights of the labels in the training loss, for uneven classes.
            balanced: the number of train examples, divided by the number of classes and
            by that of the examples of the class. Or label=weight, separated by commas,
            such as spam=4,ham=1; other labels have 1 (in Python also a dict). The
            weights are divided by their mean over the train examples, or over the words
            of named entities. Evaluations have no weights. Only for tasks that give one
            label to each text or word.

    Raises:
        InputError: A value is out of range.
    """

    max_seq_length: int = DEFAULT_LENGTH
    num_train_epochs: float = 3.0
    warmup_proportion: float = 0.1
    eval_batch_size: int = 8
    predict_batch_size: int = 8
    class_weights: ClassWeights | None = None

    def __post_init__(self) -> None:
        check_at_least(3, self, "max_seq_length")
        check_at_least(1, self, "eval_batch_size", "predict_batch_size")
        if not 0 < self.num_train_epochs <= _MAX_EPOCHS:
            raise InputError(
                f"num_train_epochs must be above 0 and at most {_MAX_EPOCHS:,.0f}. "
                f"Received: {self.num_train_epochs}."
            )
        if not 0 <= self.warmup_proportion <= 1:
            raise InputError(
                "warmup_proportion must be in [0, 1]. Received: "
                f"{self.warmup_proportion}."
            )
        if self.class_weights is not None:
            parse_class_weights(self.class_weights)


def parse_class_weights(value: ClassWeights) -> dict[str, float]:
    """Returns the weight of each label that `FineTuningConfig.class_weights` names.

    The result is {} for "balanced". Blanks at both ends of a label are removed.

    Raises:
        InputError: A weight is not a number from 0 to 1,000,000, or a label is empty or
            repeated.
    """
    if value == BALANCED:
        return {}
    if not isinstance(value, str):
        pairs = [f"{label}={weight}" for label, weight in value.items()]
    else:
        pairs = value.split(",")
    found: dict[str, float] = {}
    for pair in pairs:
        label, _, text = pair.rpartition("=")
        label = label.strip()
        try:
            weight = float(text)
        except ValueError:
            weight = -1
        if not label or not 0 <= weight <= _MAX_WEIGHT:  # also if the weight is NaN
            raise InputError(
                "class_weights must be balanced, or label=weight for one or more "
                "labels, separated by commas, with weights from 0 to "
                f"{_MAX_WEIGHT:,.0f}. Received: {pair!r}."
            )
        if label in found:
            raise InputError(
                f"class_weights has the label {label!r} twice. Give each label once."
            )
        found[label] = weight
    return found
