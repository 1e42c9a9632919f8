"""Builds the served model of a checkpoint."""

import dataclasses
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from bert_tf.conversion.saved_facts import check_labels
from bert_tf.conversion.sentence_transformers import check_supported
from bert_tf.errors import InputError, check_choice
from bert_tf.export.served.choice import ServedChoice
from bert_tf.export.served.classifier import DEFAULT_THRESHOLD, ServedClassifier
from bert_tf.export.served.embedder import EmbeddingSettings, ServedEmbedder
from bert_tf.export.served.fill_mask import ServedPretrainer
from bert_tf.export.served.served_model import ServedModel
from bert_tf.export.served.span_predictor import ServedSpanPredictor
from bert_tf.export.served.tagger import ServedTagger
from bert_tf.export.settings import TASK_TYPES, ServingSettings
from bert_tf.modeling import (
    BertClassifier,
    BertEncoder,
    BertMultipleChoice,
    BertPretrainer,
    BertSpanPredictor,
    BertTagger,
)
from bert_tf.pretrained import Pretrained
from bert_tf.tasks.fine_tuning_config import FineTuningConfig
from bert_tf.tasks.ner.schemes import SCHEMES, scheme_of_labels
from bert_tf.tasks.squad.best_answers import AnswerSettings
from bert_tf.tasks.squad.squad_encoding import WindowSettings
from bert_tf.tasks.squad.squad_task import check_room
from bert_tf.tokenization import BertTokenizer

_LOGGER = logging.getLogger(__name__)
_DEFAULT_LENGTH = FineTuningConfig().max_seq_length
_MASKED_LM_BIAS = "cls/predictions/output_bias"
_NEXT_SENTENCE_WEIGHTS = "cls/seq_relationship/output_weights"


@dataclasses.dataclass(frozen=True)
class ServedTask:
    """Properties of a task for exports.

    Attributes:
        build: Returns the served model of a checkpoint that has the head and the facts.
        pipeline_tag: The name of the task on the Hugging Face hub.
        head: Weights of the head of the task.
        facts: The default of each fact that the task needs; None if it must be known.
        settings: The fields of `ServingSettings` that have an effect for this task only.
    """

    build: Callable[[Pretrained, ServingSettings], ServedModel]
    pipeline_tag: str
    head: tuple[str, ...] = ()
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    settings: tuple[str, ...] = ()


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
    task = settings.task or task_of(checkpoint)
    _check_complete(checkpoint, SERVED_TASKS[task].facts, SERVED_TASKS[task].head)
    return SERVED_TASKS[task].build(checkpoint, settings)


def task_of(checkpoint: Pretrained) -> str:
    """Returns the task that a checkpoint was trained for, one of `settings.TASKS`.

    Raises:
        InputError: It was trained for a task that bert-tf has no served model of.
    """
    task_type = checkpoint.facts.get("task_type")
    if task_type is not None:
        check_choice(SERVED_TASKS, "The fact task_type of an exported model", task_type)
        return str(task_type)
    for task, each in SERVED_TASKS.items():
        if each.head and each.head[0] in checkpoint.weights:
            return task
    return TASK_TYPES[0] if "labels" in checkpoint.facts else "embedding"


def complete_facts(checkpoint: Pretrained, task: str, given: Mapping[str, Any]) -> Pretrained:
    """Returns a checkpoint that states all facts of a task, and logs those that are assumed.

    Checkpoints of other programs do not state how the texts were encoded. Such a fact has the
    default of the program that trains models for the task.

    Args:
        checkpoint: The checkpoint, which has contents.
        task: The task, one of `settings.TASKS`.
        given: Facts that replace those of the checkpoint, such as `pair` (bool).

    Raises:
        InputError: A given fact has no effect for the task, the checkpoint lacks the head or the
            vocabulary, or the labels are not tags.
    """
    contents: Any = checkpoint.contents
    defaults = dict(SERVED_TASKS[task].facts)
    if unknown := given.keys() - defaults.keys():
        name = min(unknown)
        raise InputError(f"{name}={given[name]} has no effect for the task {task}. Leave it out.")
    _check_complete(checkpoint, (), SERVED_TASKS[task].head)
    stated = {**contents.extra, **given}
    if task in TASK_TYPES and contents.dialect != "bert-tf":  # else it is a classifier
        defaults["task_type"] = task
    if task == "tagging" and "scheme" not in stated and stated.get("labels"):
        defaults["scheme"] = scheme_of_labels(stated["labels"])
    assumed = {n: v for n, v in defaults.items() if v is not None and n not in stated}
    if assumed:
        values = ", ".join(f"{name}={value}" for name, value in assumed.items())
        _LOGGER.info("%s does not state all settings. Using %s.", contents.source, values)
    contents = dataclasses.replace(contents, extra={**assumed, **stated})
    return dataclasses.replace(checkpoint, contents=contents)


def _classifier(checkpoint: Pretrained, settings: ServingSettings) -> ServedModel:
    facts = checkpoint.facts
    task_type = facts.get("task_type", TASK_TYPES[0])
    if settings.task not in (None, task_type):
        raise InputError(
            f"task must be {task_type}, for which the checkpoint was trained. "
            f"Received: {settings.task!r}."
        )
    num_labels = 1 if task_type == "regression" else len(facts["labels"])
    length = _length(checkpoint, settings, facts["max_seq_length"])
    model = checkpoint.model(BertClassifier, num_labels=num_labels, dtype=settings.precision)
    labels = check_labels(model, facts["labels"], task_type == "regression")
    return ServedClassifier(
        model, checkpoint.tokenizer, labels, facts["pair"],
        length, task_type, facts.get("threshold", DEFAULT_THRESHOLD),
    )  # fmt: skip


def _span_predictor(checkpoint: Pretrained, settings: ServingSettings) -> ServedModel:
    facts = dict(checkpoint.facts)
    if settings.null_score_diff_threshold is not None:
        facts["null_score_diff_threshold"] = settings.null_score_diff_threshold
    windows, answers = (_from_facts(each, facts) for each in (WindowSettings, AnswerSettings))
    length = _length(checkpoint, settings, facts["max_seq_length"])
    check_room(length, windows)
    model = checkpoint.model(BertSpanPredictor, dtype=settings.precision)
    return ServedSpanPredictor(model, checkpoint.tokenizer, length, windows, answers)


def _from_facts(settings_class: Any, facts: Mapping[str, Any]) -> Any:
    fields = dataclasses.fields(settings_class)
    return settings_class(**{each.name: facts[each.name] for each in fields})


def _tagger(checkpoint: Pretrained, settings: ServingSettings) -> ServedModel:
    facts = checkpoint.facts
    length = _length(checkpoint, settings, facts["max_seq_length"])
    model = checkpoint.model(BertTagger, num_labels=len(facts["labels"]), dtype=settings.precision)
    labels = check_labels(model, facts["labels"])
    check_choice(SCHEMES, "scheme", facts["scheme"])
    return ServedTagger(model, checkpoint.tokenizer, length, labels, facts["scheme"])


def _choice(checkpoint: Pretrained, settings: ServingSettings) -> ServedModel:
    length = _length(checkpoint, settings, checkpoint.facts["max_seq_length"])
    model = checkpoint.model(BertMultipleChoice, dtype=settings.precision)
    return ServedChoice(model, checkpoint.tokenizer, length)


def _pretrainer(checkpoint: Pretrained, settings: ServingSettings) -> ServedModel:
    length = _length(checkpoint, settings, _DEFAULT_LENGTH)
    model = checkpoint.model(
        BertPretrainer, dtype=settings.precision,
        next_sentence=_NEXT_SENTENCE_WEIGHTS in checkpoint.weights,
    )  # fmt: skip
    found = checkpoint.tokenizer
    tokenizer = BertTokenizer(found.vocabulary, found.do_lower_case, special_tokens_in_text=True)
    return ServedPretrainer(model, tokenizer, length, settings.top_k)


def _embedder(checkpoint: Pretrained, settings: ServingSettings) -> ServedModel:
    stated = dict(checkpoint.facts.get("embedding", {}))
    if settings.pooling is None or settings.normalize is None:
        check_supported(stated)
    given = {"pooling": settings.pooling, "normalize": settings.normalize}
    values = {**stated, **{name: value for name, value in given.items() if value is not None}}
    # sentence-transformers truncates to the positions of the model, unless the folder says less.
    default = checkpoint.config.max_position_embeddings if stated else _DEFAULT_LENGTH
    length = _length(checkpoint, settings, values.pop("max_seq_length", default))
    values.pop("problem", None)
    model = checkpoint.model(BertEncoder, dtype=settings.precision)
    return ServedEmbedder(
        model, checkpoint.tokenizer, EmbeddingSettings(**values, max_seq_length=length)
    )


def _length(checkpoint: Pretrained, settings: ServingSettings, default: int) -> int:
    """Returns the largest number of tokens of a sequence.

    Raises:
        InputError: The length is too small, or the model has fewer positions.
    """
    positions, given = checkpoint.config.max_position_embeddings, settings.max_seq_length
    length = min(default, positions) if given is None else given
    if not 3 <= length <= positions:
        origin = f" from {checkpoint.facts.get('source')}" if given is None else ""
        raise InputError(
            f"max_seq_length must be from 3 to {positions}, the model's max_position_embeddings. "
            f"Received: {length}{origin}. Give another max_seq_length."
        )
    return length


def _check_complete(checkpoint: Pretrained, facts: Iterable[str], weights: tuple[str, ...]) -> None:
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
            f"it lacks {', '.join(missing)}. Give {'labels, ' * ('labels' in missing)}the output "
            "folder of a run of this task, or another task."
        )


def _head(scope: str) -> tuple[str, ...]:
    return f"{scope}output_weights", f"{scope}output_bias"


_OF_TEXTS = {"labels": None, "pair": False, "max_seq_length": _DEFAULT_LENGTH}
_CLASSIFIER = ServedTask(_classifier, "text-classification", _head(""), _OF_TEXTS)
# In this order, a checkpoint is exported for the first head that it has.
SERVED_TASKS: dict[str, ServedTask] = {
    "span": ServedTask(
        _span_predictor, "question-answering", _head("cls/squad/"),
        {"max_seq_length": 384, **vars(WindowSettings()), **vars(AnswerSettings())},
        ("null_score_diff_threshold",),
    ),
    "tagging": ServedTask(
        _tagger, "token-classification", _head("cls/tagger/"),
        {"labels": None, "scheme": None, "max_seq_length": _DEFAULT_LENGTH},
    ),
    "choice": ServedTask(
        _choice, "multiple-choice", _head("cls/choice/"), {"max_seq_length": _DEFAULT_LENGTH}
    ),
    **dict.fromkeys(TASK_TYPES, _CLASSIFIER),
    "regression": dataclasses.replace(_CLASSIFIER, facts={**_OF_TEXTS, "labels": []}),
    "fill_mask": ServedTask(_pretrainer, "fill-mask", (_MASKED_LM_BIAS,), settings=("top_k",)),
    "embedding": ServedTask(_embedder, "sentence-similarity", settings=("pooling", "normalize")),
}  # fmt: skip
