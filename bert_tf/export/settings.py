"""`ServingSettings`: the settings of an export, and their choices.

Imports `errors`, so that programs can read the choices before they import TensorFlow.
"""

import dataclasses
import math
from collections.abc import Sequence

from bert_tf.errors import InputError, check_at_least, check_choice

TASK_TYPES = ("classification", "regression", "multi_label")  # of classifiers
TASKS = (*TASK_TYPES, "span", "tagging", "choice", "fill_mask", "embedding")
PRECISIONS = ("float32", "bfloat16")
POOLINGS = ("mean", "first")
FORMATS = ("saved_model", "tflite", "both")
LITE_PRECISIONS = ("float32", "float16", "int8")


@dataclasses.dataclass(frozen=True)
class ServingSettings:
    """The settings of an export that the checkpoint does not determine; None is its own value.

    Attributes:
        task: One of `TASKS`. Default: the task that the checkpoint was trained for.
        format: One of `FORMATS`.
        precision: The dtype of the weights and of the computation of a SavedModel, one of
            `PRECISIONS`.
        max_seq_length: The largest number of tokens of a sequence.
        null_score_diff_threshold: See `AnswerSettings`.
        pooling: One of `POOLINGS`; see `EmbeddingSettings`.
        normalize: See `EmbeddingSettings`.
        top_k: The number of tokens for each [MASK].
        tflite_precisions: The dtypes of the weights of TFLite files, of `LITE_PRECISIONS`.
        tflite_length: The number of tokens of the sequences of TFLite files, whatever
            `max_seq_length` is; None for any number.
        tflite_text_input: Whether to write also TFLite files that take texts.

    Raises:
        InputError: A value is not known or is out of range, or has no effect for the format.
    """

    task: str | None = None
    format: str = FORMATS[0]
    precision: str = PRECISIONS[0]
    max_seq_length: int | None = None
    null_score_diff_threshold: float | None = None
    pooling: str | None = None
    normalize: bool | None = None
    top_k: int = 10
    tflite_precisions: Sequence[str] = LITE_PRECISIONS
    tflite_length: int | None = None
    tflite_text_input: bool = False

    def __post_init__(self) -> None:
        if self.task is not None:
            check_choice(TASKS, "task", self.task)
        check_choice(FORMATS, "format", self.format)
        if self.precision == "int8":
            raise InputError("int8 is for format=tflite. Give tflite_precisions=int8 instead.")
        check_choice(PRECISIONS, "precision", self.precision)
        check_at_least(1, self, "top_k")
        for name in ("max_seq_length", "tflite_length"):
            if getattr(self, name) is not None:
                check_at_least(3, self, name)  # [CLS], a token, [SEP]
        threshold = self.null_score_diff_threshold
        if threshold is not None and not math.isfinite(threshold):
            raise InputError(f"null_score_diff_threshold must be finite. Received: {threshold}.")
        if not self.tflite_precisions:
            raise InputError(
                f"tflite_precisions must name at least one of {', '.join(LITE_PRECISIONS)}."
            )
        for precision in self.tflite_precisions:
            check_choice(LITE_PRECISIONS, "tflite_precisions", precision)
        of_lite = {
            "tflite_precisions": tuple(self.tflite_precisions) != LITE_PRECISIONS,
            "tflite_length": self.tflite_length is not None,
            "tflite_text_input": self.tflite_text_input,
        }
        for name in (name for name, is_given in of_lite.items() if is_given):
            if self.format == FORMATS[0]:
                raise InputError(f"{name} needs format tflite or both. Received: {self.format}.")
        if self.format == "tflite" and self.precision != PRECISIONS[0]:
            raise InputError(
                f"precision={self.precision} is that of a SavedModel. For the format tflite, give "
                "tflite_precisions."
            )
