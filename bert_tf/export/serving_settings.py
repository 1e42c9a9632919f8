"""`ServingSettings`: the settings of an export, and their choices.

This module imports no TensorFlow, so that programs can read the choices before they
import it.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from bert_tf.config_fields import documented, option
from bert_tf.errors import (
    InputError,
    check_at_least,
    check_choice,
    check_choices,
    store_plain_values,
)
from bert_tf.export.formats import FILE_FORMATS, FORMATS

TASK_TYPES = ("classification", "regression", "multi_label")  # of classifiers
# The module in `served` and the class of each task. They are texts, because the modules
# import TensorFlow. A checkpoint that does not state its task is exported for the first
# task here whose head it has.
TASKS = {
    **dict.fromkeys(TASK_TYPES, "classifier.ServedClassifier"),
    "span": "span_predictor.ServedSpanPredictor",
    "tagging": "tagger.ServedTagger",
    "choice": "multiple_choice.ServedChoice",
    "fill_mask": "fill_mask.ServedPretrainer",
    "embedding": "sentence_embedder.ServedEmbedder",
}
POOLINGS = ("mean", "first")
_PRECISIONS = FORMATS["saved_model"].precisions
_BOTH = ("saved_model", "tflite")


@documented
@dataclasses.dataclass(frozen=True)
class ServingSettings:
    """The settings of an export that the checkpoint does not determine.

    A setting that is None has the default that its description names.

    Raises:
        InputError: A value is not known or is out of range, or has no effect for the
            format.
    """

    task: str | None = option(
        None,
        "Default: the task that the checkpoint was trained for.",
        choices=tuple(TASKS),
    )
    format: str = option(
        "saved_model",
        "A SavedModel for TensorFlow Serving, TFLite files for phones and CPUs, "
        "both, or ONNX files for ONNX Runtime and Triton.",
        choices=(*FORMATS, "both"),
    )
    precision: str = option(
        "float32",
        "The dtype of the weights and of the computation of the SavedModel, float32 "
        "or bfloat16.",
    )
    max_seq_length: int | None = option(
        None,
        "Longer texts are truncated to this number of tokens, or split into windows "
        "(tasks span and tagging, and classifiers that were trained with windows). "
        "Default: as in the training, or 128.",
    )
    null_score_diff_threshold: float | None = option(
        None,
        "Task span: the answer is empty if the score of no answer minus the score of "
        "the best answer is greater. Default: the value in squad_threshold.json of "
        "the run, or that of the training.",
    )
    pooling: str | None = option(
        None,
        "Task embedding: the mean of all tokens, or the first token. Default: that "
        "of a folder of sentence-transformers, or mean.",
        choices=POOLINGS,
    )
    normalize: bool | None = option(
        None,
        "Task embedding: whether the vectors have length 1. Default: that of a "
        "folder of sentence-transformers, or true.",
    )
    prompt_name: str | None = option(
        None,
        "Task embedding: the name of the prompt, of a folder of "
        'sentence-transformers, that is put before each text; "" for none. Default: '
        "the default_prompt_name of the folder.",
    )
    dimensions: int | None = option(
        None,
        "Task embedding: the vectors have only this number of their first values, cut "
        "before they are normalized, for models that were trained for several sizes. "
        "Default: all values.",
    )
    top_k: int = option(10, "Task fill_mask: the number of tokens for each [MASK].")
    tflite_precisions: Sequence[str] = option(
        FORMATS["tflite"].precisions,
        "The dtypes of the weights of the TFLite files, one file each: float32, "
        "float16, int8.",
    )
    tflite_length: int | None = option(
        None,
        "The TFLite files take sequences of exactly this number of tokens, whatever "
        "`max_seq_length` is, for accelerators that need fixed shapes. Default: any "
        "number.",
    )
    tflite_text_input: bool = option(
        False,
        "Write also TFLite files that contain the tokenizer and take texts. They "
        "need the operations of tensorflow-text. For classification, regression, "
        "multi_label and embedding.",
    )
    onnx_precisions: Sequence[str] = option(
        FORMATS["onnx"].precisions,
        "The dtypes of the weights of the ONNX files, one file each: float32, int8.",
    )

    def __post_init__(self) -> None:
        store_plain_values(self)
        check_choices(self)
        check_choice(_PRECISIONS, "precision", self.precision)
        check_at_least(1, self, "top_k")
        if self.dimensions is not None:
            check_at_least(1, self, "dimensions")
        for name in FILE_FORMATS:
            self._check_file_format(name)
        if "saved_model" not in self.formats and self.precision != "float32":
            raise InputError(
                f"precision={self.precision} is that of a SavedModel. For the format "
                f"{self.format}, give {self.format}_precisions."
            )

    def _check_file_format(self, of_format: str) -> None:
        """Checks the precisions of a format, and that no setting of an unused format is given."""
        name = f"{of_format}_precisions"
        known = FILE_FORMATS[of_format].precisions
        if not getattr(self, name):
            raise InputError(f"{name} must name at least one of {', '.join(known)}.")
        for precision in getattr(self, name):
            check_choice(known, name, precision)
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            value = tuple(value) if field.name == name else value
            is_own = field.name.startswith(f"{of_format}_")
            if is_own and value != field.default and of_format not in self.formats:
                needed = f"{of_format} or both" if of_format in _BOTH else of_format
                raise InputError(
                    f"{field.name} needs format {needed}. Received: {self.format}."
                )

    @property
    def formats(self) -> tuple[str, ...]:
        """The formats to write; "both" stands for "saved_model" and "tflite"."""
        return _BOTH if self.format == "both" else (self.format,)

    def sequence_length(self, checkpoint: Any, default: int) -> int:
        """Returns the largest number of tokens of a sequence.

        Args:
            checkpoint: The `Pretrained` model.
            default: The length if `max_seq_length` is None. If the model has fewer
                positions, their number replaces this default.

        Raises:
            InputError: The length is below 3, or the model has fewer positions.
        """
        positions = checkpoint.config.max_position_embeddings
        requested = self.max_seq_length
        length = min(default, positions) if requested is None else requested
        if not 3 <= length <= positions:  # [CLS], a token, [SEP]
            origin = (
                f" from {checkpoint.facts.get('source')}" if requested is None else ""
            )
            raise InputError(
                f"max_seq_length must be from 3 to {positions}, the model's "
                f"max_position_embeddings. Received: {length}{origin}. Give another "
                "max_seq_length."
            )
        return length
