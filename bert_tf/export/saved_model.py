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

# Maximum difference between a probability of the saved model and that of the original model. This
# maximum allows for float32 rounding.
_TOLERANCE = 1e-5


class ServedClassifier(tf.Module):
    """A tokenizer and a classifier in one graph.

    Both signatures return `probabilities`, float32 [B, labels], and `label`, string [B].
    The inputs of the two signatures are:

    * `serving_default`: `text`, string [B]; for pairs `text_a` and `text_b`, string [B] each.
    * `ids`: `input_ids`, `input_mask`, `segment_ids`, int32 [B, S].

    Args:
        model: The classifier with trained weights.
        tokenizer: The tokenizer that the classifier was trained with.
        labels: The labels, in the order of the classifier's outputs.
        pair: Whether the classifier takes pairs of texts.
        max_seq_length: Longer texts or pairs are truncated to this number of tokens.
    """

    def __init__(
        self,
        model: BertClassifier,
        tokenizer: BertTokenizer,
        labels: list[str],
        pair: bool,
        max_seq_length: int,
    ) -> None:
        super().__init__()
        self.model, self.tokenizer = model, tokenizer
        self._labels, self.pair = tf.constant(labels), pair
        self._max_seq_length = max_seq_length

    def classify_ids(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Returns the label probabilities and the most probable label for token ids."""
        probabilities = tf.nn.softmax(self.model(inputs, training=False)["logits"])
        label = tf.gather(self._labels, tf.argmax(probabilities, axis=-1))
        return {"probabilities": probabilities, "label": label}

    def classify(self, text_a: Any, text_b: Any = None) -> dict[str, Any]:
        """Returns the label probabilities and the most probable label for raw text."""
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
    missing = [key for key in ("labels", "pair", "max_seq_length") if key not in saved.extra]
    if missing or saved.vocabulary is None:
        raise InputError(
            f"{folder} is not a fine-tuned classifier: it lacks "
            f"{', '.join(missing) or 'a vocabulary'}. Give a checkpoint of run_classifier."
        )
    config = BertConfig.from_dict(saved.config)
    model = BertClassifier(config, num_labels=len(saved.extra["labels"]))
    for name, variable in variables_by_name(model).items():
        variable.assign(saved.arrays[name])
    tokenizer = BertTokenizer(saved.vocabulary, do_lower_case=bool(saved.do_lower_case))
    return ServedClassifier(
        model, tokenizer, saved.extra["labels"], saved.extra["pair"], saved.extra["max_seq_length"]
    )


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
    labels: Sequence[str],
    pair: bool = False,
    max_seq_length: int = 128,
) -> str:
    """Writes a classifier and its tokenizer as a SavedModel, and checks the SavedModel's outputs.

    The SavedModel has float32 weights and activations, whatever the dtype policy of `model` is. It
    is equal to the SavedModel that `export` writes for a checkpoint with the same weights.

    Args:
        model: The classifier, such as one that `fit` trained.
        tokenizer: The tokenizer that the classifier was trained with.
        path: Folder that contains a numbered folder for each version of the model, as TensorFlow
            Serving expects. The new version gets the next number.
        labels: The labels, in the order of the classifier's outputs.
        pair: Whether the classifier takes pairs of texts.
        max_seq_length: Longer texts or pairs are truncated to this number of tokens.

    Returns:
        The folder of the new version.

    Raises:
        InputError: The model is not a classifier with at least two labels, the labels or the
            vocabulary do not match the model, or `max_seq_length` is out of range.
    """
    if not isinstance(model, BertClassifier) or model.num_labels < 2:
        raise InputError(
            "export_model exports a BertClassifier with at least 2 labels. Received: "
            f"{type(model).__name__} with {getattr(model, 'num_labels', 'no')} labels."
        )
    check_tokenizer(tokenizer)
    positions = model.config.max_position_embeddings
    shortest = 3 if pair else 2  # [CLS] and [SEP]
    is_int = isinstance(max_seq_length, (int, np.integer))
    if not is_int or not shortest <= max_seq_length <= positions:
        raise InputError(
            f"max_seq_length must be an integer from {shortest} to {positions}, the model's "
            f"max_position_embeddings. Received: {max_seq_length!r}."
        )
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = save_checkpoint(
            model, tokenizer, posixpath.join(folder, "model"),
            labels=labels, pair=bool(pair), max_seq_length=int(max_seq_length),
        )  # fmt: skip
        return export(checkpoint, os.fspath(path))


def _next_version(export_dir: str) -> int:
    if not tf.io.gfile.exists(export_dir):
        return 1
    names = (name.rstrip("/") for name in tf.io.gfile.listdir(export_dir))
    return 1 + max((int(name) for name in names if name.isdigit()), default=0)


def _check(served: ServedClassifier, folder: str) -> None:
    """Raises `RuntimeError` if the SavedModel and the original model give different outputs."""
    texts = tf.constant(["", "The answer.", "A longer text, with words that are not known: żółw."])
    loaded = tf.saved_model.load(folder).signatures["serving_default"]
    if served.pair:
        expected, found = served.classify(texts, texts), loaded(text_a=texts, text_b=texts)
    else:
        expected, found = served.classify(texts), loaded(text=texts)
    difference = np.abs(expected["probabilities"] - found["probabilities"]).max()
    if not difference <= _TOLERANCE:
        raise RuntimeError(f"The saved model differs from the original model by {difference}.")
