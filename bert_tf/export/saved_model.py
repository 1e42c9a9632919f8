"""Exports a fine-tuned classifier as a SavedModel that takes raw text."""

import os
import posixpath
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf import files, weights
from bert_tf.config import BertConfig
from bert_tf.errors import InputError
from bert_tf.modeling import BertClassifier, variables_by_name
from bert_tf.pretrained import check_tokenizer, save_checkpoint
from bert_tf.tokenization import BertTokenizer

# Maximum difference between an output of the saved model and that of the original model; relative
# to the output for scores above 1. This maximum allows for float32 rounding.
_TOLERANCE = 1e-5
TASK_TYPES = ("classification", "regression", "multi_label")
_THRESHOLD = 0.5
_HEAD = ("output_weights", "output_bias")


class ServedClassifier(tf.Module):
    """A tokenizer and a classifier in one graph.

    Both signatures have the same outputs, which depend on the type of the task:

    * classification: `probabilities`, float32 [B, labels], and `label`, string [B].
    * multi_label: `probabilities`, float32 [B, labels], each in [0, 1], and `labels`, string [B]:
      the labels whose probability reaches the threshold, joined by commas; "" if there are none.
    * regression: `score`, float32 [B].

    The inputs of the two signatures are:

    * `serving_default`: `text`, string [B]; for pairs `text_a` and `text_b`, string [B] each.
    * `ids`: `input_ids`, `input_mask`, `segment_ids`, int32 [B, S].

    Args:
        model: The classifier with trained weights.
        tokenizer: The tokenizer that the classifier was trained with.
        labels: The labels, in the order of the classifier's outputs; empty for regression.
        pair: Whether the classifier takes pairs of texts.
        max_seq_length: Longer texts or pairs are truncated to this number of tokens.
        task_type: One of `TASK_TYPES`.
        threshold: The lowest probability of the labels that a multi-label classifier returns.
    """

    def __init__(
        self,
        model: BertClassifier,
        tokenizer: BertTokenizer,
        labels: list[str],
        pair: bool,
        max_seq_length: int,
        task_type: str = "classification",
        threshold: float = _THRESHOLD,
    ) -> None:
        super().__init__()
        self.model, self.tokenizer = model, tokenizer
        self._labels, self.pair = tf.constant(labels, tf.string), pair
        self._max_seq_length = max_seq_length
        self.task_type, self._threshold = task_type, threshold

    def classify_ids(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Returns the outputs for token ids."""
        logits = self.model(inputs, training=False)["logits"]
        if self.task_type == "regression":
            return {"score": logits[:, 0]}
        if self.task_type == "multi_label":
            probabilities = tf.sigmoid(logits)
            return {"probabilities": probabilities, "labels": self._selected(probabilities)}
        probabilities = tf.nn.softmax(logits)
        label = tf.gather(self._labels, tf.argmax(probabilities, axis=-1))
        return {"probabilities": probabilities, "label": label}

    def _selected(self, probabilities: Any) -> Any:
        """Returns the labels that reach the threshold, joined by commas, string [B]."""
        names = tf.broadcast_to(self._labels, tf.shape(probabilities))
        selected = tf.ragged.boolean_mask(names, probabilities >= self._threshold)
        return tf.strings.reduce_join(selected, axis=-1, separator=",")

    def classify(self, text_a: Any, text_b: Any = None) -> dict[str, Any]:
        """Returns the outputs for raw text."""
        # Padding takes as much computation as text, so sequences are padded only to the length of
        # the longest sequence in the batch.
        inputs = self.tokenizer.encode(
            text_a, text_b, seq_length=self._max_seq_length, trim_to_longest=True
        )
        return self.classify_ids(inputs)

    def signatures(self) -> dict[str, Any]:
        """Returns the signatures of the SavedModel: concrete functions, keyed by signature name."""
        strings = tf.TensorSpec([None], tf.string)
        ids = {
            name: tf.TensorSpec([None, None], tf.int32, name=name)
            for name in ("input_ids", "input_mask", "segment_ids")
        }
        if self.pair:
            text = tf.function(lambda text_a, text_b: self.classify(text_a, text_b))
            default = text.get_concrete_function(text_a=strings, text_b=strings)
        else:
            text = tf.function(lambda text: self.classify(text))
            default = text.get_concrete_function(text=strings)
        by_ids = tf.function(
            lambda input_ids, input_mask, segment_ids: self.classify_ids(
                {"input_ids": input_ids, "input_mask": input_mask, "segment_ids": segment_ids}
            )
        )
        return {"serving_default": default, "ids": by_ids.get_concrete_function(**ids)}


def load_classifier(folder: str) -> ServedClassifier:
    """Loads a fine-tuned classifier from a checkpoint folder.

    Args:
        folder: A checkpoint folder that run_classifier wrote.

    Raises:
        InputError: The folder contains a model that is not a fine-tuned classifier.
    """
    saved = weights.read_weights_folder(folder)
    facts = saved.extra
    missing = [key for key in ("labels", "pair", "max_seq_length") if key not in facts]
    missing += [name for name in _HEAD if name not in saved.arrays]
    if missing or saved.vocabulary is None:
        raise InputError(
            f"{folder} is not a fine-tuned classifier: it lacks "
            f"{', '.join(missing) or 'a vocabulary'}. Give a checkpoint of run_classifier."
        )
    task_type = facts.get("task_type", TASK_TYPES[0])
    _check_task_type(task_type)
    num_labels = 1 if task_type == "regression" else len(facts["labels"])
    model = BertClassifier(BertConfig.from_dict(saved.config), num_labels=num_labels)
    for name, variable in variables_by_name(model).items():
        variable.assign(saved.arrays[name])
    tokenizer = BertTokenizer(saved.vocabulary, do_lower_case=bool(saved.do_lower_case))
    return ServedClassifier(
        model, tokenizer, facts["labels"], facts["pair"], facts["max_seq_length"],
        task_type, facts.get("threshold", _THRESHOLD),
    )  # fmt: skip


def export(checkpoint: str, export_dir: str) -> str:
    """Writes the model of a checkpoint as a SavedModel, and checks the SavedModel's outputs.

    Args:
        checkpoint: A checkpoint folder that run_classifier wrote.
        export_dir: Folder that contains a numbered folder for each version of the model, as
            TensorFlow Serving expects. The new version gets the next number.

    Returns:
        The folder of the new version.

    Raises:
        InputError: The checkpoint does not contain a fine-tuned classifier, or `export_dir` is a
            file.
    """
    if tf.io.gfile.exists(export_dir) and not tf.io.gfile.isdir(export_dir):
        raise InputError(f"{export_dir} is a file. Give the path of a folder for the versions.")
    served = load_classifier(checkpoint)
    version = os.path.join(export_dir, str(_next_version(export_dir)))
    with files.atomic_folder(version, weights.FACTS_FILE) as place:
        tf.saved_model.save(served, place, signatures=served.signatures())
        for name in (weights.CONFIG_FILE, weights.VOCABULARY_FILE, weights.FACTS_FILE):
            content = files.read_bytes(posixpath.join(checkpoint, name))
            files.write_bytes(posixpath.join(place, "assets.extra", name), content)
        _check(served, place)
    return version


def export_model(
    model: BertClassifier,
    tokenizer: BertTokenizer,
    path: str | os.PathLike[str],
    *,
    labels: Sequence[str] | None = None,
    pair: bool = False,
    max_seq_length: int = 128,
    task_type: str = "classification",
    threshold: float = _THRESHOLD,
) -> str:
    """Writes a classifier and its tokenizer as a SavedModel, and checks the SavedModel's outputs.

    The SavedModel has float32 weights and activations, whatever the dtype policy of `model` is. It
    is equal to the SavedModel that `export` writes for a checkpoint with the same weights.

    Args:
        model: The classifier, such as one that `fit` trained.
        tokenizer: The tokenizer that the classifier was trained with.
        path: Folder that contains a numbered folder for each version of the model, as TensorFlow
            Serving expects. The new version gets the next number.
        labels: The labels, in the order of the classifier's outputs; none for regression.
        pair: Whether the classifier takes pairs of texts.
        max_seq_length: Longer texts or pairs are truncated to this number of tokens.
        task_type: "classification" (one label for each text), "multi_label" (any number of labels;
            the model was trained with a sigmoid cross entropy) or "regression" (a score; the model
            has num_labels=1).
        threshold: The lowest probability, between 0 and 1, of the labels that a multi-label
            classifier returns. Ignored for other types.

    Returns:
        The folder of the new version.

    Raises:
        InputError: The model is not a classifier with a number of outputs that suits `task_type`,
            the labels or the vocabulary do not match the model, or `max_seq_length` or `threshold`
            is out of range.
    """
    _check_task_type(task_type)
    _check_outputs(model, task_type)
    check_tokenizer(tokenizer)
    _check_length(model, pair, max_seq_length)
    facts: dict[str, Any] = {"labels": [] if labels is None else labels}
    if task_type != TASK_TYPES[0]:
        facts["task_type"] = task_type
    if task_type == "multi_label":
        facts["threshold"] = _check_threshold(threshold)
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = save_checkpoint(
            model, tokenizer, posixpath.join(folder, "model"),
            **facts, pair=bool(pair), max_seq_length=int(max_seq_length),
        )  # fmt: skip
        return export(checkpoint, os.fspath(path))


def _check_task_type(task_type: Any) -> None:
    if task_type not in TASK_TYPES:
        raise InputError(
            f"task_type must be one of {', '.join(TASK_TYPES)}. Received: {task_type!r}."
        )


def _check_outputs(model: Any, task_type: str) -> None:
    """Raises `InputError` if `model` is not a classifier with the outputs of the task type."""
    outputs = model.num_labels if isinstance(model, BertClassifier) else 0
    least = {"classification": 2, "multi_label": 1, "regression": 1}[task_type]
    if outputs < least or (task_type == "regression" and outputs != 1):
        number = "1 output" if task_type == "regression" else f"at least {least} labels"
        raise InputError(
            f"export_model exports a BertClassifier with {number} for {task_type}. Received: "
            f"{type(model).__name__} with {getattr(model, 'num_labels', 'no')} labels."
        )


def _check_length(model: BertClassifier, pair: bool, max_seq_length: Any) -> None:
    """Raises `InputError` if the model cannot compute sequences of `max_seq_length` tokens."""
    positions = model.config.max_position_embeddings
    shortest = 3 if pair else 2  # [CLS] and [SEP]
    is_int = isinstance(max_seq_length, (int, np.integer))
    if not is_int or not shortest <= max_seq_length <= positions:
        raise InputError(
            f"max_seq_length must be an integer from {shortest} to {positions}, the model's "
            f"max_position_embeddings. Received: {max_seq_length!r}."
        )


def _check_threshold(threshold: Any) -> float:
    is_number = isinstance(threshold, (int, float, np.number))
    if not is_number or not 0 < threshold < 1:
        raise InputError(
            f"threshold must be a number between 0 and 1, such as 0.5. Received: {threshold!r}."
        )
    return float(threshold)


def _next_version(export_dir: str) -> int:
    if not tf.io.gfile.exists(export_dir):
        return 1
    names = (name.rstrip("/") for name in tf.io.gfile.listdir(export_dir))
    return 1 + max((int(name) for name in names if name.isdigit()), default=0)


def _check(served: ServedClassifier, folder: str) -> None:
    """Raises `RuntimeError` if the SavedModel and the original model give different outputs."""
    name = "score" if served.task_type == "regression" else "probabilities"
    texts = tf.constant(["", "The answer.", "A longer text, with words that are not known: żółw."])
    loaded = tf.saved_model.load(folder).signatures["serving_default"]
    if served.pair:
        expected, found = served.classify(texts, texts), loaded(text_a=texts, text_b=texts)
    else:
        expected, found = served.classify(texts), loaded(text=texts)
    difference = np.abs(expected[name] - found[name]).max()
    # A score may have any size, and float32 rounding grows with it.
    if not difference <= _TOLERANCE * max(1, np.abs(expected[name]).max()):
        raise RuntimeError(f"The saved model differs from the original model by {difference}.")
