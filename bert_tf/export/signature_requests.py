"""Builds requests for the signatures of a served model from texts or labelled examples."""

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.errors import InputError
from bert_tf.export.served import ServedModel
from bert_tf.export.served.base import Endpoint

_BATCH_SIZE = 32
# One value for each input of a model: a text or, for an input in
# `ServedModel.list_names`, a list of texts.
Row = tuple[bytes | list[bytes], ...]


class Request(NamedTuple):
    """A request for one signature.

    `correct` has the correct output of each row, or is None for unlabelled rows.
    """

    signature: str
    inputs: Mapping[str, np.ndarray]
    correct: Sequence[Any] | None = None


def labelled_requests(
    served: ServedModel, path: str, names: Collection[str] = ()
) -> list[Request]:
    """Returns requests for signatures with the labelled examples of a file.

    `names` are the signatures, by default all. Only requests for the signature
    `served.labelled_signature` have correct outputs. If `path` is "", returns [].

    Raises:
        InputError: The file is malformed or has no examples, or the task has no metric.
    """
    if not path:
        return []
    examples = list(served.read_examples(path))
    if not examples:
        raise InputError(
            f"{path} has no labelled examples. Give a file with at least one."
        )
    requests = []
    for name in names or served.endpoints():
        rows = [tuple(map(_encoded, served.row_for(name, row))) for row, _ in examples]
        is_labelled = name == served.labelled_signature
        correct = [output for _, output in examples] if is_labelled else None
        requests += _requests(served, name, rows, correct)
    return requests


def example_requests(
    served: ServedModel, names: Iterable[str], *batches: Sequence[bytes]
) -> list[Request]:
    """Returns requests for each signature with each batch of texts.

    For a signature with several inputs, the order of the texts differs between inputs.
    An input that takes lists of texts gets lists with the lengths 1, 2, 3 and so on.
    """
    return [
        request
        for texts in batches
        for name in names
        for request in _requests(served, name, _rows(served, name, texts))
    ]


def _encoded(value: Any) -> Any:
    """Converts a text, or each text of a list, to UTF-8."""
    if not isinstance(value, str):
        return [_encoded(text) for text in value]
    # A str from JSON can contain lone surrogates, and UTF-8 cannot.
    return value.encode("utf-8", "replace")


def _rows(served: ServedModel, signature: str, texts: Sequence[bytes]) -> list[Row]:
    """Returns a row for each text; see `example_requests`."""
    columns: list[Any] = []
    for shift, name in enumerate(_row_names(served, served.endpoints()[signature])):
        column = [*texts[shift:], *texts[:shift]]
        lists = [column[: number + 1] for number in range(len(column))]
        columns.append(lists if name in served.list_names else column)
    return list(zip(*columns, strict=True))


def _row_names(served: ServedModel, endpoint: Endpoint) -> Sequence[str]:
    """Returns the name of each value in a row from which a request is made."""
    return list(endpoint.inputs) if endpoint.kind == "texts" else served.text_names


def _requests(
    served: ServedModel,
    signature: str,
    rows: Sequence[Row],
    correct: Sequence[Any] | None = None,
) -> list[Request]:
    """Divides rows into batches, and returns a request for each batch.

    Without rows, there is one request with an empty batch. If the signature takes token
    ids, each text of a list becomes a sequence of its own.
    """
    endpoint = served.endpoints()[signature]
    requests = []
    if endpoint.kind == "ids":
        lists = (
            [each if isinstance(each, list) else [each] for each in r] for r in rows
        )
        rows = [row for each in lists for row in itertools.product(*each)]
    # The lists of all requests have the same length, so that their outputs can be
    # concatenated.
    longest = max(
        (len(each) for row in rows for each in row if isinstance(each, list)), default=1
    )
    for first in range(0, max(len(rows), 1), _BATCH_SIZE):
        batch = slice(first, first + _BATCH_SIZE)
        inputs = _inputs(served, endpoint, rows[batch], longest)
        requests.append(Request(signature, inputs, correct and correct[batch]))
    return requests


def _inputs(
    served: ServedModel, endpoint: Endpoint, rows: Sequence[Row], longest: int
) -> dict[str, np.ndarray]:
    """Returns the inputs of a signature for a batch; lists are padded to `longest` texts."""
    names = _row_names(served, endpoint)
    if endpoint.kind == "examples":
        examples = [
            serialized_example(dict(zip(names, row, strict=True))) for row in rows
        ]
        return {"inputs": np.array(examples, object)}

    columns = {name: [row[index] for row in rows] for index, name in enumerate(names)}
    if endpoint.kind == "texts":
        return {
            name: _array(column, longest, name in served.list_names)
            for name, column in columns.items()
        }

    encoded = served.encode(*(tf.constant(c, tf.string) for c in columns.values()))
    inputs = {name: value.numpy() for name, value in encoded.items()}
    inputs["lengths"] = inputs["input_mask"].sum(axis=1, dtype=np.int32)
    return {name: inputs[name] for name in endpoint.inputs}


def _array(column: Sequence[Any], longest: int, is_list: bool) -> np.ndarray:
    """Returns an array of dtype object: texts [B], or lists [B, longest] padded with ""."""
    if not is_list:
        return np.array(column, object)
    padded = [[*texts, *[b""] * (longest - len(texts))] for texts in column]
    return np.array(padded, object).reshape(len(column), longest)


def serialized_example(texts: Mapping[str, Any]) -> bytes:
    """Returns a serialized `tf.train.Example` with one text for each feature."""
    example = tf.train.Example()
    for name, text in texts.items():
        example.features.feature[name].bytes_list.value.append(text)
    return bytes(example.SerializeToString())
