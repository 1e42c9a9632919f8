"""`Predictor`: predictions of an exported model, for lists of texts of any length.

Imports foundation modules, `layout`, and TensorFlow; a program that predicts needs no Keras.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers operations of the SavedModel)

from bert_tf import files
from bert_tf.errors import InputError
from bert_tf.export.layout import EXTRA, newest_version
from bert_tf.weights import FACTS_FILE

Prediction = dict[str, Any]


class Predictor:
    """An exported model in memory. Several threads can call it at the same time.

    Example:
        predictor = bert_tf.Predictor("served")
        predictor(["A wonder.", "A bore."])  # [{"label": "positive", "probability": 0.98, ...

    Args:
        path: The folder of an exported model, whose highest version is loaded, or the folder of a
            version.
        batch_size: Texts per batch. Texts of similar length are in the same batch.

    Attributes:
        names: The names of the texts that a prediction needs, such as ("question", "context").

    Call arguments:
        *texts: For each name in `names`, a list of N str, or a single str for one prediction.

    Returns:
        For lists, N dicts, in the order of the texts; for str, one dict. Its keys are:

        * classification: `label`, `probability`, and `probabilities` by label, best first;
        * multi-label: `labels` (list of str) and `probabilities` by label, best first;
        * regression: `score`;
        * questions: `answer` (str), `start` and `end` (its place in the context, in bytes of
          UTF-8), `score`, `probability`, `no_answer` (bool) and, for SQuAD 2.0, `null_score_diff`;
        * fill-mask: `masks`: for each [MASK], the `probabilities` of the best tokens by token;
        * embedding: `embedding`, float32 [H].

    Raises:
        InputError: The folder contains no exported model, or the texts are not lists of str of the
            same length.
    """

    def __init__(self, path: str | os.PathLike[str], batch_size: int = 32) -> None:
        if batch_size < 1:
            raise InputError(f"batch_size must be at least 1. Received: {batch_size}.")
        folder = newest_version(os.fspath(path))
        self._model = tf.saved_model.load(folder)  # the signature does not keep the weights alive
        self._signature = self._model.signatures["serving_default"]
        self._batch_size = batch_size
        _, inputs = self._signature.structured_input_signature
        self.names = _in_order(inputs)
        self._facts = files.read_json(os.path.join(folder, EXTRA, FACTS_FILE))

    def __call__(self, *texts: Any) -> Any:
        """Returns the predictions for texts; see the docstring of the class."""
        if all(isinstance(each, str) for each in texts):
            return next(self._predict([[each] for each in texts])) if texts else self._refuse(texts)
        return list(self._predict(texts))

    def _predict(self, texts: Sequence[Sequence[str]]) -> Iterator[Prediction]:
        """Yields the predictions in the order of the texts."""
        are_lists = all(isinstance(each, Iterable) and not isinstance(each, str) for each in texts)
        if not are_lists or len(texts) != len(self.names):
            self._refuse(texts)
        columns = [[_encoded(text) for text in column] for column in texts]
        if len({len(column) for column in columns}) > 1:
            raise InputError(
                f"{' and '.join(self.names)} must have the same number of texts. Received: "
                f"{' and '.join(str(len(column)) for column in columns)}."
            )
        lengths = np.array([[len(text) for text in column] for column in columns], int).sum(axis=0)
        order = np.argsort(lengths, kind="stable")
        found: dict[int, Prediction] = {}
        for start in range(0, len(order), self._batch_size):
            rows = order[start : start + self._batch_size].tolist()
            batch = [tf.constant([column[row] for row in rows]) for column in columns]
            outputs = self._signature(**dict(zip(self.names, batch, strict=True)))
            arrays = {name: value.numpy() for name, value in outputs.items()}
            for number, row in enumerate(rows):
                values = {name: value[number] for name, value in arrays.items()}
                found[row] = decode(values, self._facts)
        return (found[row] for row in range(len(order)))

    def _refuse(self, texts: Sequence[Any]) -> Any:
        raise InputError(
            f"The model takes a list of texts for each of {', '.join(self.names)}. Received: "
            f"{len(texts)} values of the types {', '.join(type(each).__name__ for each in texts)}."
        )


def decode(outputs: Mapping[str, Any], facts: Mapping[str, Any]) -> Prediction:
    """Converts the outputs of `serving_default` for one request to Python values.

    Args:
        outputs: The output arrays without the batch dimension, by name.
        facts: The facts of the model, with `labels` and `threshold` if it has labels.
    """
    if "tokens" in outputs:
        pairs = list(zip(outputs["tokens"], outputs["probabilities"], strict=True))
        masks = [_by_name(*pair) for pair in pairs[: int(outputs["num_masks"])]]
        return {"masks": [{"probabilities": each} for each in masks]}
    if "probabilities" not in outputs:
        return {name: _plain(value) for name, value in outputs.items()}
    values, labels = outputs["probabilities"], facts["labels"]
    order = np.argsort(-values, kind="stable")
    probabilities = {labels[index]: float(values[index]) for index in order.tolist()}
    if "labels" in outputs:
        # The output joins the labels by commas, and a label may contain a comma.
        reached = values >= facts["threshold"]
        chosen = [label for label, is_in in zip(labels, reached, strict=True) if is_in]
        return {"labels": chosen, "probabilities": probabilities}
    label = labels[int(order[0])]
    return {"label": label, "probability": probabilities[label], "probabilities": probabilities}


def _by_name(tokens: Any, probabilities: Any) -> dict[str, float]:
    return {_plain(token): float(value) for token, value in zip(tokens, probabilities, strict=True)}


def _plain(value: Any) -> Any:
    """Converts one value of a NumPy array to a value of Python; leaves vectors as they are."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value.item() if np.ndim(value) == 0 else value


def _encoded(text: Any) -> bytes:
    if not isinstance(text, str):
        raise InputError(f"A text must be a str. Received: {text!r:.60}.")
    return text.encode("utf-8", "replace")  # a str can contain lone surrogates


def _in_order(inputs: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the names of the inputs in their natural order."""
    return tuple(sorted(inputs, key=lambda name: (name == "context", name)))
