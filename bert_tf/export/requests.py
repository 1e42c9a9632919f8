"""Requests for the signatures of a model, made from texts."""

import dataclasses
import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.errors import InputError
from bert_tf.export.served import ServedModel

_BATCH_SIZE = 32
# The value of one input of a request: a text, or a list of texts for `ServedModel.list_names`.
Value = bytes | list[bytes]


@dataclasses.dataclass(frozen=True)
class Request:
    """A request for one signature.

    Attributes:
        signature: The name of the signature.
        inputs: The value of each input, by name.
        correct: The correct output of each row; None if they are not known.
    """

    signature: str
    inputs: Mapping[str, np.ndarray]
    correct: Sequence[Any] | None = None


def labelled_requests(served: ServedModel, path: str, names: Collection[str] = ()) -> list[Request]:
    """Returns requests for signatures with the labelled examples of a file.

    Only those for `labelled_signature` have correct outputs.

    Args:
        served: The model.
        path: A file that `served.read_examples` reads.
        names: The names of the signatures; () for all.

    Raises:
        InputError: The file is malformed or has no examples, or the task has no metric.
    """
    examples = list(served.read_examples(path))
    if not examples:
        raise InputError(f"{path} has no labelled examples. Give a file with at least one.")
    found = []
    rows, correct = zip(*examples, strict=True)
    for name in names or served.endpoints():
        columns = zip(*(served.row_for(name, row) for row in rows), strict=True)
        encoded = [list(map(_encoded, each)) for each in columns]
        # The lists of all requests have the same length, so that their outputs can be concatenated.
        # Ids have one sequence for each text of a list.
        is_ids = served.endpoints()[name].kind == "ids"
        equal = _one_by_one(encoded) if is_ids else list(map(_with_equal_lists, encoded))
        is_labelled = name == served.labelled_signature
        for first in range(0, len(equal[0]), _BATCH_SIZE):
            batch = slice(first, first + _BATCH_SIZE)
            inputs = inputs_for_rows(served, name, [column[batch] for column in equal])
            found.append(Request(name, inputs, correct[batch] if is_labelled else None))
    return found


def _encoded(value: str | list[str]) -> Value:
    """Converts a text or the texts of a list to UTF-8."""
    if isinstance(value, str):
        # "replace" is needed for lone surrogates, which JSON can contain and UTF-8 cannot.
        return value.encode("utf-8", "replace")
    return [text.encode("utf-8", "replace") for text in value]


def _with_equal_lists(column: Sequence[Value]) -> list[Value]:
    """Pads the lists of a column with "" to the longest one; returns texts unchanged."""
    longest = max((len(each) for each in column if isinstance(each, list)), default=0)
    return [
        [*each, *[b""] * (longest - len(each))] if isinstance(each, list) else each
        for each in column
    ]


def inputs_for(
    served: ServedModel, signature: str, texts: Sequence[bytes]
) -> dict[str, np.ndarray]:
    """Returns the inputs of a signature for a batch of texts.

    Args:
        served: The model.
        signature: The name of the signature.
        texts: The texts. A signature with several texts gets them in another order for each input.
            The lists of an input with several texts have the lengths 1, 2, 3 and so on.
    """
    endpoint = served.endpoints()[signature]
    is_text = endpoint.kind == "texts"
    columns: list[Sequence[Value]] = []
    for shift, name in enumerate(endpoint.inputs if is_text else served.text_names):
        column = [*texts[shift:], *texts[:shift]]
        is_list = is_text and name in served.list_names
        lists = [column[: number + 1] for number in range(len(column))]
        columns.append(_with_equal_lists(lists) if is_list else column)
    return inputs_for_rows(served, signature, columns)


def inputs_for_rows(
    served: ServedModel, signature: str, columns: Sequence[Sequence[Value]]
) -> dict[str, np.ndarray]:
    """Returns the inputs of a signature for the columns of a table of texts.

    Args:
        served: The model.
        signature: The name of the signature.
        columns: For each input of `serving_default`, B values. Lists have equal lengths. A
            signature that takes token ids gets one sequence for each text of a list.
    """
    endpoint = served.endpoints()[signature]
    if endpoint.kind == "texts":
        ranks = [spec.shape.rank for spec in endpoint.inputs.values()]
        arrays = map(_array, columns, ranks)
        return dict(zip(endpoint.inputs, arrays, strict=True))
    if endpoint.kind == "examples":
        names = served.text_names
        rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        return {"inputs": np.array([serialized_example(row) for row in rows], object)}
    encoded = served.encode(*(tf.constant(column, tf.string) for column in _one_by_one(columns)))
    inputs = {name: value.numpy() for name, value in encoded.items()}
    lengths = inputs["input_mask"].sum(axis=1, dtype=np.int32)
    return {name: {**inputs, "lengths": lengths}[name] for name in endpoint.inputs}


def _array(column: Sequence[Value], rank: int) -> np.ndarray:
    """Returns the values of an input as an array of bytes: object [B], or [B, K] for lists."""
    return np.array(column, object) if column else np.empty([0] + [1] * (rank - 1), object)


def _one_by_one(columns: Sequence[Sequence[Value]]) -> list[Any]:
    """Returns columns with one row for each text of a list, and without lists."""
    rows = [
        row
        for values in zip(*columns, strict=True)
        for row in itertools.product(*(v if isinstance(v, list) else [v] for v in values))
    ]
    return list(zip(*rows, strict=True)) or [[] for _ in columns]


def array_of(serialized: bytes) -> np.ndarray:
    """Returns the values of a serialized `TensorProto`; texts are an array of bytes objects."""
    proto = tf.make_tensor_proto(0)
    proto.ParseFromString(serialized)
    array: np.ndarray = tf.make_ndarray(proto)
    return array


def serialized_example(texts: Mapping[str, bytes]) -> bytes:
    """Returns a serialized `tf.train.Example` with one text for each feature."""
    features = {
        name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[text]))
        for name, text in texts.items()
    }
    return bytes(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
