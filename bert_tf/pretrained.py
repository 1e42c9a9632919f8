"""`load` reads a pretrained model of any dialect; `save_checkpoint` writes a model."""

import dataclasses
import functools
import inspect
import json
import logging
import os
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import keras
import numpy as np

from bert_tf.config import BertConfig
from bert_tf.conversion import (
    AssignmentReport,
    CheckpointContents,
    assign,
    choose_head,
    keras_hub,
    read_config_or_size,
    read_weights,
    write_weights,
)
from bert_tf.conversion.checkpoint_vocabulary import with_tokenizer
from bert_tf.conversion.head_choice import (
    check_facts,
    check_labels,
    difference_of_facts,
)
from bert_tf.conversion.weight_assignment import check_config
from bert_tf.conversion.weight_names import HEADS_WITH_LABELS, OUTPUT_LAYERS
from bert_tf.errors import InputError, Path, plain
from bert_tf.head_config import HeadConfig
from bert_tf.modeling import BertEncoder, BertHeadModel, BertTaskModel, arrays_by_name
from bert_tf.modeling.initial_weights import drawn_late
from bert_tf.storage import files
from bert_tf.storage.weights import ENCODER_FACTS, MODEL_FACTS
from bert_tf.tokenization import BertTokenizer, check_size

_LOG = logging.getLogger(__name__)
Model = TypeVar("Model", bound=BertEncoder | BertTaskModel)


@dataclasses.dataclass(frozen=True)
class Pretrained:
    """A pretrained model: its architecture, tokenizer, weights and further facts.

    `load` creates objects of this class.

    Attributes:
        config: The architecture.
        contents: The contents of the checkpoint, or None if the weights are random.
        vocab_file: The `vocab.txt` to use instead of the checkpoint's vocabulary, or
            None.
        do_lower_case: The casing to use instead of the checkpoint's casing, or None.
    """

    config: BertConfig
    contents: CheckpointContents | None = None
    vocab_file: str | None = None
    do_lower_case: bool | None = None

    @property
    def weights(self) -> Mapping[str, np.ndarray]:
        """The weights as float32 arrays, by google-research/bert name."""
        return self.contents.arrays if self.contents else {}

    @property
    def facts(self) -> dict[str, Any]:
        """Further information about the checkpoint, such as its path and its labels.

        The keys `source` (the path), `dialect` (a key of `conversion.DIALECTS`) and
        `global_step` (int, or None if unknown) always exist. Further keys depend on the
        checkpoint, such as `labels` (list of str), `pair` (bool) and `max_seq_length`
        (int). If the weights are random, the dict is empty.
        """
        contents = self.contents
        if contents is None:
            return {}
        return {
            **contents.facts,
            "source": contents.source,
            "dialect": contents.dialect,
            "global_step": contents.global_step,
        }

    @property
    def has_vocabulary(self) -> bool:
        """Whether `vocab_file` was given or the checkpoint has a vocabulary.

        True also if the checkpoint's tokenizer is not supported, so that `tokenizer`
        raises an error about it.
        """
        contents = self.contents
        return bool(
            self.vocab_file
            or (contents and (contents.vocabulary or contents.tokenizer_problem))
        )

    @functools.cached_property
    def tokenizer(self) -> BertTokenizer:
        """The tokenizer of the model.

        Raises:
            InputError: The vocabulary is unknown or not valid, the vocabulary or the
                casing does not match the model, or the checkpoint has a Hugging Face
                tokenizer with unsupported settings.
        """
        contents = self.contents or CheckpointContents("random weights", "", {})
        if not self.vocab_file and contents.vocabulary_for_tokenizer() is None:
            raise InputError(
                "The vocabulary is unknown. Give vocab_file, or an init_checkpoint "
                "with a vocab.txt in the same folder."
            )

        contents = dataclasses.replace(contents, config=self.config)
        contents = with_tokenizer(contents, self.vocab_file, self.do_lower_case)
        vocabulary = contents.vocabulary or []
        check_size(
            vocabulary, self.config.vocab_size, f"the vocabulary of {contents.source}"
        )
        return BertTokenizer(vocabulary, contents.do_lower_case)

    def assign(self, model: BertEncoder | BertTaskModel) -> AssignmentReport:
        """Sets the weights of a model, and logs the names of those that were not set.

        The message has the level WARNING if the model has weights that the checkpoint
        does not contain, such as a new classification head, else the level INFO.

        Args:
            model: Any model of `bert_tf`, with the architecture `config`.

        Returns:
            The names of the assigned, missing, unused and unknown tensors.

        Raises:
            InputError: There is no checkpoint, a shape differs, or the checkpoint lacks
                a part of the encoder.
        """
        contents = self._require_contents()
        report = assign(model, contents)
        _log_report(contents.source, report)
        return report

    def initialize_task(
        self,
        model: BertEncoder | BertTaskModel,
        facts: Mapping[str, Any],
        init_head: bool | None = None,
    ) -> AssignmentReport:
        """Sets the weights of a model for fine-tuning, and logs the origin of its head.

        The head consists of all weights whose names do not start with "bert/". By
        default, the head of the checkpoint is used only if the checkpoint has the same
        task, the same labels in the same order, and the same `task_type` and `pair`. If
        not, the head keeps its random initial weights, even if the shapes agree.

        Args:
            model: A model with a head, or an encoder, with the architecture `config`.
            facts: The facts of the task: `task` (the name) and, if the task has them,
                `labels` (list of str, in the order of the model's outputs), `task_type`
                (by default "classification") and `pair` (bool).
            init_head: True for the head of the checkpoint, False for a random head,
                None for the default.

        Returns:
            The names of the assigned, missing, unused and unknown tensors. The weights
            of a random head are among the missing ones.

        Raises:
            InputError: There is no checkpoint, a shape of the encoder differs, the
                checkpoint lacks a part of the encoder, or `init_head` is True and the
                checkpoint has no head of this kind, or its head has another task type,
                other labels or shapes, or is for pairs instead of single texts or the
                reverse.
        """
        contents = self._require_contents()
        if isinstance(model, BertEncoder):
            return self.assign(model)
        choice = choose_head(model, contents, facts, init_head)
        report = assign(
            model, contents if choice.from_checkpoint else contents.encoder_only()
        )

        _log_report(contents.source, report.without_heads())
        _LOG.log(
            logging.INFO if choice.is_checked else logging.WARNING, "%s", choice.message
        )
        return report

    def with_layers(self, layers: Sequence[int]) -> "Pretrained":
        """Returns the pretrained model with only the given blocks, in this order.

        See `CheckpointContents.with_layers`.
        """
        contents = self._require_contents().with_layers(layers)
        return dataclasses.replace(
            self, config=contents.require_config(), contents=contents
        )

    def check_task(self, facts: Mapping[str, Any], parameter: str) -> None:
        """Checks that the checkpoint was trained for a task with the given facts.

        Raises:
            InputError: The checkpoint has another task type, other labels or other
                layers of the head, or is for pairs instead of single texts or the
                reverse. The message names `parameter`, which gave the checkpoint.
        """
        contents = self._require_contents()
        if difference := difference_of_facts(contents, facts):
            raise InputError(
                f"{parameter}={contents.source} {difference}. Give a model that was "
                "fine-tuned for the same task."
            )

    def _require_contents(self) -> CheckpointContents:
        if self.contents is None:
            raise InputError("There are no weights to assign. Give init_checkpoint.")
        return self.contents

    def model(self, model_class: type[Model], **arguments: Any) -> Model:
        """Builds a model with the weights of the checkpoint.

        Weights that the checkpoint does not contain, such as a new classification head,
        stay random; `assign` logs their names. Without a checkpoint all weights are
        random.

        Args:
            model_class: `BertEncoder`, or a model with a head such as `BertClassifier`.
            **arguments: Arguments of the model class: `num_labels`, `dtype`, `seed`,
                `recompute` and so on. Without `num_labels` and `head`, the model has as
                many outputs and the same layers as the head of the checkpoint.

        Raises:
            InputError: A shape differs from the checkpoint, or `num_labels` is
                necessary.
        """
        # Before Python 3.11.3, the signature of a Keras class is that of
        # `Model.__new__`.
        parameters = inspect.signature(model_class.__init__).parameters
        if "num_labels" in parameters and "num_labels" not in arguments:
            arguments["num_labels"] = self._num_labels(model_class)

        # The layers of the head are copied only from a head for the same kind of task.
        if OUTPUT_LAYERS.get(model_class.__name__) in self.weights:
            arguments.setdefault("head", HeadConfig.from_dict(self.facts.get("head")))

        if self.contents is None:
            return model_class(self.config, **arguments)
        with drawn_late():
            model = model_class(self.config, **arguments)
            missing = self.assign(model).missing

        # The model keeps the facts about its head, for a later `save_checkpoint`.
        is_loaded = all(name.startswith("bert/") for name in missing)
        names = MODEL_FACTS if isinstance(model, BertTaskModel) else ENCODER_FACTS
        model.head_facts = {
            n: self.facts[n] for n in names if is_loaded and n in self.facts
        }
        return model

    def _num_labels(self, model_class: type) -> int:
        """Returns the number of outputs of the checkpoint's head for a model class."""
        name = HEADS_WITH_LABELS.get(model_class.__name__, "")
        head = self.weights.get(name)
        if head is None and self.contents is not None:
            head = self.contents.classifier.get("classifier.weight")
        if head is None:
            raise InputError(
                f"{model_class.__name__} needs num_labels, because the checkpoint has "
                "no weights for its head. Give the number of labels."
            )
        return len(head)


def _log_report(source: str, report: AssignmentReport) -> None:
    level = logging.WARNING if report.missing else logging.INFO
    _LOG.log(level, "%s: %s", source, report)


def load(
    init_checkpoint: Path | None,
    *,
    bert_config_file: Path | None = None,
    vocab_file: Path | None = None,
    do_lower_case: bool | None = None,
) -> Pretrained:
    """Reads a pretrained model of any dialect (format), or a model that Keras saved.

    Example:
        checkpoint = bert_tf.load("uncased_L-12_H-768_A-12.zip")
        model = checkpoint.model(bert_tf.BertClassifier, num_labels=2)
        outputs = model(checkpoint.tokenizer.encode(["a text"], seq_length=128))

    Args:
        init_checkpoint: A path that `conversion.read_weights` accepts: a checkpoint of
            google-research/bert (folder, prefix or .zip), of the Model Garden, of
            TensorFlow Hub (folder or .tar.gz), of Hugging Face or of keras-hub (also a
            `.keras` file), a weights folder or an output folder of bert-tf, or
            `hf://owner/name`. None for random weights; `bert_config_file` is then
            necessary.
        bert_config_file: The architecture: a bert_config.json, or a key of
            `config.SIZES` such as "tiny" for a released size with as many entries as
            `vocab_file`. Default: the architecture of the checkpoint.
        vocab_file: The vocabulary. Default: the vocabulary of the checkpoint.
        do_lower_case: Whether the tokenizer lower-cases text and removes accents.
            Default: the casing of the checkpoint if it is known, else the casing of the
            vocabulary, as in `BertTokenizer`.

    Returns:
        A `Pretrained`. Its tokenizer is built at its first use, so an invalid
        vocabulary raises an error only then. For a `.keras` file that keras-hub did not
        write: the Keras model that `keras.saving.load_model` returns.

    Raises:
        InputError: The checkpoint is missing or cannot be read, or the architecture is
            unknown or does not fit the checkpoint, or a `.keras` file needs another
            version of Keras or a class whose module is not imported.
    """
    path = os.fspath(init_checkpoint or "")
    is_keras_file = path.endswith(".keras") and files.is_file(path)
    if is_keras_file and not keras_hub.is_model_file(path):
        return _load_keras_model(path)
    return read_pretrained(init_checkpoint, bert_config_file, vocab_file, do_lower_case)


def _load_keras_model(path: str) -> keras.Model:
    try:
        return keras.saving.load_model(path)
    except (TypeError, ValueError) as error:
        with files.gfile().GFile(path, "rb") as file, zipfile.ZipFile(file) as parts:
            saved = json.loads(parts.read("metadata.json"))["keras_version"]
        if saved == keras.__version__:
            # Keras describes the whole model before the reason, or after it.
            reason = str(error).rpartition("Exception encountered: ")[2]
            reason = reason.partition(" Full object config")[0]
            if not reason.startswith("Could not"):
                raise
            raise InputError(
                f"{path} cannot be loaded: {reason} Import the module of the class "
                "first."
            ) from error
        raise InputError(
            f"{path} was saved by Keras {saved} and cannot be read by Keras "
            f"{keras.__version__}: {str(error).splitlines()[0]} Install that version, "
            "or save the model with bert_tf.save_checkpoint, whose files do not depend "
            "on it."
        ) from error


def read_pretrained(
    init_checkpoint: Path | None,
    bert_config_file: Path | None = None,
    vocab_file: Path | None = None,
    do_lower_case: bool | None = None,
) -> Pretrained:
    """Reads a checkpoint as `load` does, but never returns a Keras model.

    A `.keras` file that keras-hub did not write raises `InputError`.
    """
    contents = read_weights(os.fspath(init_checkpoint)) if init_checkpoint else None

    if bert_config_file:
        source = os.fspath(bert_config_file)
        config = read_config_or_size(source, vocab_file)
    elif contents and contents.config:
        source = contents.source
        config = contents.config
    else:
        raise InputError(
            "The architecture is unknown. Give bert_config_file, or an init_checkpoint "
            "with a bert_config.json in the same folder."
        )

    if contents:
        check_config(contents, config)

    if config.extra:
        # Unknown keys are reported because an unknown key may be a misspelled key. The
        # default of the correctly spelled key is then used.
        _LOG.warning(
            "warning: %s: ignoring unknown keys: %s.", source, ", ".join(config.extra)
        )
    for note in contents.notes if contents else ():
        _LOG.warning("warning: %s: %s.", source, note)
    return Pretrained(
        config, contents, os.fspath(vocab_file) if vocab_file else None, do_lower_case
    )


def save_checkpoint(
    model: BertEncoder | BertTaskModel,
    tokenizer: BertTokenizer | None,
    path: Path,
    dialect: str = "bert-tf",
    **facts: Any,
) -> str:
    """Writes a model with its architecture and its vocabulary, atomically.

    Args:
        model: Any model of `bert_tf`, such as one that `fit` trained.
        tokenizer: The tokenizer that the model was trained with, or None to write no
            vocabulary.
        path: The folder to write. If it exists, it must be empty or contain a
            checkpoint of the same dialect and no other files; this checkpoint is
            replaced.
        dialect: One of `conversion.WRITABLE_DIALECTS`: "bert-tf" (a weights folder),
            "hugging_face", "keras_hub" or "google".
        **facts: JSON values to store with the weights, such as `labels` (list of str).
            The default of a fact that exports need, such as `labels`, `max_seq_length`
            or `embedding` (pooling and normalization), is its value in the checkpoint
            from which the model was loaded, unless the model has a head that is not
            from this checkpoint. To export a classifier with `export_model.py`, give
            `labels`; `pair` (bool) if it is not False; `max_seq_length` (int) if it is
            not 128; and, if the model does not select one of the labels, `task_type`:
            "regression" (with empty `labels`) or "multi_label". Only "bert-tf" stores
            all facts; "hugging_face" stores `labels`, `task_type` and, except for its
            `dimensions`, `embedding`; "keras_hub" stores `max_seq_length` and the
            pooling and normalization in `embedding`.

    Returns:
        The path of the checkpoint, as `load` accepts it.

    Raises:
        InputError: The vocabulary or the labels do not match the model, the threshold
            is out of range, `embedding` has an unknown key, the dialect is unknown or
            cannot store the head, or the folder cannot be written or contains other
            files than a checkpoint.
    """
    # Given facts replace the facts that the model keeps about its head.
    facts = {**getattr(model, "head_facts", {}), **plain(facts)}
    if facts.get("labels") is not None:
        regression = facts.get("task_type") == "regression"
        facts["labels"] = check_labels(model, facts["labels"], regression)
    facts.pop("head", None)  # such as that of another model
    if isinstance(model, BertHeadModel) and not model.head_config.is_default:
        facts["head"] = model.head_config.to_dict()
    check_facts(facts)

    if tokenizer is not None:
        check_size(
            tokenizer.vocabulary, model.config.vocab_size, "the tokenizer's vocabulary"
        )

    contents = CheckpointContents(
        source="the model",
        dialect="bert-tf",
        arrays=arrays_by_name(model),
        config=model.config,
        vocabulary=tokenizer.vocabulary if tokenizer else None,
        do_lower_case=tokenizer.do_lower_case if tokenizer else None,
        facts=facts,
    )
    return write_weights(contents, os.fspath(path), dialect)
