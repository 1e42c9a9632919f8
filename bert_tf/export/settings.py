"""`ServingSettings`: the settings of an export, and their choices.

Imports `errors`, so that programs can read the choices before they import TensorFlow.
"""

import dataclasses

from bert_tf.errors import InputError

TASK_TYPES = ("classification", "regression", "multi_label")  # of classifiers
TASKS = (*TASK_TYPES, "span", "tagging", "choice", "fill_mask", "embedding")
PRECISIONS = ("float32", "bfloat16")
POOLINGS = ("mean", "first")


@dataclasses.dataclass(frozen=True)
class ServingSettings:
    """The settings of an export that the checkpoint does not determine; None is its own value.

    Attributes:
        task: One of `TASKS`. Default: the task that the checkpoint was trained for.
        precision: The dtype of the weights and of the computation, one of `PRECISIONS`.
        max_seq_length: The largest number of tokens of a sequence.
        null_score_diff_threshold: See `AnswerSettings`.
        pooling: One of `POOLINGS`; see `EmbeddingSettings`.
        normalize: See `EmbeddingSettings`.
        top_k: The number of tokens for each [MASK].

    Raises:
        InputError: A value is not known.
    """

    task: str | None = None
    precision: str = PRECISIONS[0]
    max_seq_length: int | None = None
    null_score_diff_threshold: float | None = None
    pooling: str | None = None
    normalize: bool | None = None
    top_k: int = 10

    def __post_init__(self) -> None:
        if self.task not in (None, *TASKS):
            raise InputError(f"task must be one of {', '.join(TASKS)}. Received: {self.task!r}.")
        if self.precision not in PRECISIONS:
            raise InputError(
                f"precision must be one of {', '.join(PRECISIONS)}. Received: {self.precision!r}."
            )
        if self.top_k < 1:
            raise InputError(f"top_k must be at least 1. Received: {self.top_k}.")
