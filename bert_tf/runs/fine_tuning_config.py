"""The settings of fine-tuning, of a frozen encoder, and of distillation.

Imports no TensorFlow, so that programs start quickly.
"""

import dataclasses
import os
from collections.abc import Mapping

from bert_tf.config_fields import documented, option
from bert_tf.errors import (
    InputError,
    Path,
    check_at_least,
    check_between,
    check_choice,
    store_plain_values,
)
from bert_tf.head_config import HeadConfig
from bert_tf.tasks.task import DEFAULT_LENGTH
from bert_tf.training.training_config import RunPhases, RuntimeConfig, TrainingConfig

_MAX_EPOCHS = 1e6
_MAX_WEIGHT = 1e6
BALANCED = "balanced"
FEATURE_DTYPES = ("float16", "float32")
ClassWeights = str | Mapping[str, float]


@documented
@dataclasses.dataclass(frozen=True)
class FineTuningConfig:
    """The settings of fine-tuning that are not in `TrainingConfig` or `RuntimeConfig`.

    Raises:
        InputError: A value is out of range.
    """

    max_seq_length: int = option(
        DEFAULT_LENGTH, "Longer sequences are truncated to this number of tokens."
    )
    num_train_epochs: float = option(
        3.0, "Passes over the train split, above 0 and at most 1,000,000."
    )
    warmup_proportion: float = option(
        0.1, "Share of the steps in which the learning rate rises."
    )
    eval_batch_size: int = option(8, "Examples per batch in evaluations.")
    predict_batch_size: int = option(8, "Examples per batch in predictions.")
    class_weights: ClassWeights | None = option(
        None,
        "Weights of the labels in the training loss, for uneven classes. balanced: "
        "the number of train examples, divided by the number of classes and by that "
        "of the examples of the class. Or label=weight, separated by commas, such as "
        "spam=4,ham=1; other labels have 1 (in Python also a dict). The weights are "
        "divided by their mean over the train examples, or over the words of named "
        "entities. Evaluations have no weights. Only for tasks that give one label "
        "to each text or word.",
    )

    def __post_init__(self) -> None:
        store_plain_values(self)
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
    """
    if value == BALANCED:
        return {}
    if isinstance(value, str):
        pairs = value.split(",")
    else:
        pairs = [f"{label}={weight}" for label, weight in value.items()]

    weights: dict[str, float] = {}
    for pair in pairs:
        # A label may contain an equals sign.
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
        if label in weights:
            raise InputError(
                f"class_weights has the label {label!r} twice. Give each label once."
            )
        weights[label] = weight
    return weights


@dataclasses.dataclass(frozen=True)
class FeatureSettings:
    """The settings of the cache of a frozen encoder's hidden states.

    Attributes:
        folder: A local folder with one cache for each split. Runs with the same data
            and the same encoder can share it, such as runs with other seeds or learning
            rates.
        dtype: The dtype of the cached hidden states, one of `FEATURE_DTYPES`.

    Raises:
        InputError: A value is invalid.
    """

    folder: Path
    dtype: str = "float16"

    def __post_init__(self) -> None:
        store_plain_values(self)
        check_choice(FEATURE_DTYPES, "feature_dtype", self.dtype)
        if "://" in os.fspath(self.folder):
            raise InputError(
                "The cache of features must be in a local folder. Received: "
                f"{self.folder}. Give a local folder as feature_cache_dir."
            )


@documented
@dataclasses.dataclass(frozen=True)
class DistillationConfig:
    """The settings of a training with a teacher, from which a small model learns.

    Raises:
        InputError: A value is out of range.

    Source: Hinton et al. 2015 (arXiv:1503.02531): temperatures from 1 to 20, lower ones
    for small models, and a low weight of the labels are useful. Sanh et al. 2019
    (arXiv:1910.01108), section 3: the choice of layers.
    """

    teacher: Path = option(
        dataclasses.MISSING,
        "The fine-tuned model whose outputs the model learns too: the folder of a "
        "run of the same task with the same labels, and with the vocabulary of the "
        "model. Its outputs for the training examples are computed once.",
        is_path=True,
    )
    distillation_temperature: float = option(
        2.0,
        "The logits of teacher and model are divided by this number, from 0.01 to "
        "1000, so that small probabilities count more. Without effect in regression.",
    )
    distillation_weight: float = option(
        0.9,
        "Share of the teacher in the training loss, from 0 to 1. 1: the labels have "
        "no effect.",
    )
    unlabelled_file: Path | None = option(
        None,
        "Further training examples, in the format of the train file, whose labels or "
        "answers, if there are any, are ignored: the model learns only the outputs "
        "of the teacher for them. An epoch contains the examples of both files.",
        is_path=True,
    )
    init_layers: tuple[int, ...] | None = option(
        None,
        "The Transformer blocks of the teacher, counted from 0, from which the model "
        "is built, such as 0,2,4. It also has the embeddings, the pooler and the "
        "head of the teacher, and needs no initial checkpoint or config.",
    )
    feature_cache_dir: Path | None = option(
        None,
        "Local folder of the outputs of `teacher` and, with a frozen encoder, of its "
        "hidden states, which are computed once. Runs with the same data, teacher "
        "and encoder can share it. Default: features/ in the folder of the run.",
        is_path=True,
    )

    def __post_init__(self) -> None:
        store_plain_values(self)
        check_between(0.01, 1000, self, "distillation_temperature")
        check_between(0, 1, self, "distillation_weight")
        if self.init_layers is not None and not self.layers:
            raise InputError(
                "init_layers must be numbers of blocks, from 0, separated by commas, "
                f"such as 0,2,4. Received: {','.join(map(str, self.init_layers))!r}."
            )

    @property
    def layers(self) -> tuple[int, ...]:
        """`init_layers` as integers; () if they are not given, or not numbers."""
        texts = [str(layer).strip() for layer in self.init_layers or ()]
        return tuple(map(int, texts)) if all(map(str.isdecimal, texts)) else ()


@dataclasses.dataclass(frozen=True)
class RunSettings:
    """All settings of a run; `fine_tune` describes them.

    Attributes:
        phases: The phases to run.
        config: Lengths, epochs and batch sizes of evaluations.
        training: The settings that affect the trained weights.
        runtime: Devices, logging and checkpoints.
        features: The cache of a frozen encoder, if only the head is trained.
        distillation: The settings of a teacher.
        init_head: Whether the head comes from the initial checkpoint too.
        head: The layers of the head that is trained; None for those of the task.

    Raises:
        InputError: `runtime.eval_steps` is set, but `phases.evaluate` is False.
    """

    phases: RunPhases
    config: FineTuningConfig
    training: TrainingConfig
    runtime: RuntimeConfig
    features: FeatureSettings | None = None
    distillation: DistillationConfig | None = None
    init_head: bool | None = None
    head: HeadConfig | None = None

    def __post_init__(self) -> None:
        if self.runtime.eval_steps and not self.phases.evaluate:
            raise InputError(
                "eval_steps evaluates on the dev split: give do_eval=True too."
            )
