"""Builds the served model of a checkpoint."""

import dataclasses
from collections.abc import Callable

from bert_tf.conversion.sentence_transformers import check_supported
from bert_tf.errors import InputError
from bert_tf.export.served.classifier import DEFAULT_THRESHOLD, TASK_TYPES, ServedClassifier
from bert_tf.export.served.embedder import EmbeddingSettings, ServedEmbedder
from bert_tf.export.served.fill_mask import ServedPretrainer
from bert_tf.export.served.served_model import ServedModel
from bert_tf.export.served.span_predictor import ServedSpanPredictor
from bert_tf.export.served.spans import SpanSettings
from bert_tf.modeling import BertClassifier, BertEncoder, BertPretrainer, BertSpanPredictor
from bert_tf.pretrained import Pretrained
from bert_tf.tokenization import BertTokenizer

PRECISIONS = ("float32", "bfloat16")
_DEFAULT_LENGTH = 128
_CLASSIFIER_HEAD = ("output_weights", "output_bias")
_SPAN_HEAD = ("cls/squad/output_weights", "cls/squad/output_bias")
_MASKED_LM_BIAS = "cls/predictions/output_bias"
_NEXT_SENTENCE_WEIGHTS = "cls/seq_relationship/output_weights"


@dataclasses.dataclass(frozen=True)
class ServingSettings:
    """The settings of an export that the checkpoint does not determine; None is its own value.

    Attributes:
        task: A key of `TASKS`. Default: the task that the checkpoint was trained for.
        precision: The dtype of the weights and of the computation, one of `PRECISIONS`.
        max_seq_length: The largest number of tokens of a sequence.
        null_score_diff_threshold: See `SpanSettings`.
        pooling: See `EmbeddingSettings`.
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


def load_served(checkpoint: Pretrained, settings: ServingSettings | None = None) -> ServedModel:
    """Builds the served model of a checkpoint.

    Args:
        checkpoint: The checkpoint.
        settings: The settings of the export.

    Raises:
        InputError: The checkpoint lacks the head of the task, the vocabulary, or a setting of the
            task, or the model has fewer positions than `max_seq_length`.
    """
    settings = settings or ServingSettings()
    return TASKS[settings.task or task_of(checkpoint)](checkpoint, settings)


def task_of(checkpoint: Pretrained) -> str:
    """Returns the task that a checkpoint was trained for, a key of `TASKS`."""
    task_type = checkpoint.facts.get("task_type")
    if task_type in TASKS:
        return str(task_type)
    if "labels" in checkpoint.facts:
        return TASK_TYPES[0]
    return "fill_mask" if _MASKED_LM_BIAS in checkpoint.weights else "embedding"


def _classifier(checkpoint: Pretrained, settings: ServingSettings) -> ServedModel:
    facts = checkpoint.facts
    _check_complete(checkpoint, ("labels", "pair", "max_seq_length"), _CLASSIFIER_HEAD)
    task_type = facts.get("task_type", TASK_TYPES[0])
    num_labels = 1 if task_type == "regression" else len(facts["labels"])
    length = _length(checkpoint, settings, facts["max_seq_length"])
    model = checkpoint.model(BertClassifier, num_labels=num_labels, dtype=settings.precision)
    return ServedClassifier(
        model, checkpoint.tokenizer, facts["labels"], facts["pair"],
        length, task_type, facts.get("threshold", DEFAULT_THRESHOLD),
    )  # fmt: skip


def _span_predictor(checkpoint: Pretrained, settings: ServingSettings) -> ServedModel:
    facts = dict(checkpoint.facts)
    names = [field.name for field in dataclasses.fields(SpanSettings)]
    needed = ("max_seq_length", "doc_stride", "max_query_length", *names)
    _check_complete(checkpoint, needed, _SPAN_HEAD)
    if settings.null_score_diff_threshold is not None:
        facts["null_score_diff_threshold"] = settings.null_score_diff_threshold
    length = _length(checkpoint, settings, facts["max_seq_length"])
    if length <= facts["max_query_length"] + 3:
        raise InputError(
            f"max_seq_length must be greater than max_query_length + 3 = "
            f"{facts['max_query_length'] + 3}. Received: {length}."
        )
    model = checkpoint.model(BertSpanPredictor, dtype=settings.precision)
    return ServedSpanPredictor(
        model, checkpoint.tokenizer, length, facts["doc_stride"], facts["max_query_length"],
        SpanSettings(**{name: facts[name] for name in names}),
    )  # fmt: skip


def _pretrainer(checkpoint: Pretrained, settings: ServingSettings) -> ServedModel:
    _check_complete(checkpoint, (), (_MASKED_LM_BIAS,))
    length = _length(checkpoint, settings, _DEFAULT_LENGTH)
    model = checkpoint.model(
        BertPretrainer, dtype=settings.precision,
        next_sentence=_NEXT_SENTENCE_WEIGHTS in checkpoint.weights,
    )  # fmt: skip
    found = checkpoint.tokenizer
    tokenizer = BertTokenizer(found.vocabulary, found.do_lower_case, special_tokens_in_text=True)
    return ServedPretrainer(model, tokenizer, length, settings.top_k)


def _embedder(checkpoint: Pretrained, settings: ServingSettings) -> ServedModel:
    _check_complete(checkpoint, (), ())
    stated = dict(checkpoint.facts.get("embedding", {}))
    if settings.pooling is None or settings.normalize is None:
        check_supported(stated)
    given = {"pooling": settings.pooling, "normalize": settings.normalize}
    values = {**stated, **{name: value for name, value in given.items() if value is not None}}
    length = _length(checkpoint, settings, values.pop("max_seq_length", _DEFAULT_LENGTH))
    values.pop("problem", None)
    model = checkpoint.model(BertEncoder, dtype=settings.precision)
    return ServedEmbedder(
        model, checkpoint.tokenizer, EmbeddingSettings(**values, max_seq_length=length)
    )


def _length(checkpoint: Pretrained, settings: ServingSettings, default: int) -> int:
    """Returns the largest number of tokens of a sequence.

    Raises:
        InputError: The model has fewer positions than the given length.
    """
    positions, given = checkpoint.config.max_position_embeddings, settings.max_seq_length
    if given is None:
        return min(default, positions)
    if not 3 <= given <= positions:
        raise InputError(
            f"max_seq_length must be from 3 to {positions}, the model's max_position_embeddings. "
            f"Received: {given}."
        )
    return given


def _check_complete(
    checkpoint: Pretrained, facts: tuple[str, ...], weights: tuple[str, ...]
) -> None:
    """Checks that a checkpoint has everything that the task needs.

    Raises:
        InputError: Something is missing.
    """
    missing = [name for name in facts if name not in checkpoint.facts]
    missing += [name for name in weights if name not in checkpoint.weights]
    missing += [] if checkpoint.has_vocabulary else ["a vocabulary"]
    if missing:
        raise InputError(
            f"{checkpoint.facts.get('source', 'The checkpoint')} cannot be exported for this task: "
            f"it lacks {', '.join(missing)}. Give the output folder of a run of this task, or "
            "another task."
        )


TASKS: dict[str, Callable[[Pretrained, ServingSettings], ServedModel]] = {
    **dict.fromkeys(TASK_TYPES, _classifier),
    "span": _span_predictor,
    "fill_mask": _pretrainer,
    "embedding": _embedder,
}
