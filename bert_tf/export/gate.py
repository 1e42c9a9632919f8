"""Compares a written SavedModel with the model in memory, before the SavedModel is published."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.export.gate_process import Gate, GateError
from bert_tf.export.operations import unknown_operations
from bert_tf.export.requests import Request, inputs_for
from bert_tf.export.served import ServedModel
from bert_tf.tasks.task import Outputs

# Largest difference of a float output, and of the 99th percentile in bfloat16. Differences of
# values above 1 are relative to the largest value of the output.
_TOLERANCES = {"float32": 1e-5, "bfloat16": 2e-2}
_METRIC_LIMIT = 0.5  # in percentage points
_PERCENTILE = {"float32": 100, "bfloat16": 99}
_EXAMPLES = (
    b"", b"A short text.", "Żółw, naïve: 東京 😀 [MASK] #42".encode(), b"\tmany   blanks\n",
    b"The quick brown fox jumps over the lazy dog. " * 40, b"not UTF-8: caf\xe9 \xff\xfe",
)  # fmt: skip


# The outputs of the model in memory, and those of the SavedModel.
Pair = tuple[Outputs, Outputs]


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The largest difference of one output of a signature.

    Attributes:
        signature: The name of the signature.
        output: The name of the output.
        difference: The largest difference, or the share of different values if they are not float.
        limit: The largest allowed difference.
    """

    signature: str
    output: str
    difference: float
    limit: float

    @property
    def passed(self) -> bool:
        """Whether the difference is allowed; NaN is not."""
        return self.difference <= self.limit


@dataclasses.dataclass(frozen=True)
class Metric:
    """The metric of labelled examples, in percent.

    Attributes:
        name: The name of the metric.
        num_examples: The number of examples.
        model: The value of the model in memory.
        saved_model: The value of the SavedModel.
    """

    name: str
    num_examples: int
    model: float
    saved_model: float


def check(
    gate: Gate,
    served: ServedModel,
    signatures: Mapping[str, Any],
    requests: Sequence[Request],
    folder: str,
    precision: str,
) -> tuple[list[Comparison], Metric | None]:
    """Compares all signatures of a SavedModel with the model in memory.

    Args:
        gate: The process that runs the SavedModel.
        served: The model in memory.
        signatures: The signatures of the model in memory, in float32.
        requests: Requests to run in addition to those of this module, such as labelled ones.
        folder: The SavedModel.
        precision: The dtype of the SavedModel's weights, a key of `_TOLERANCES`.

    Returns:
        The differences, and the metric of the requests with correct outputs, if there are any.

    Raises:
        GateError: The SavedModel does not run, or a difference is too large.
    """
    batches = [
        Request(name, inputs_for(served, name, texts))
        for name in signatures for texts in (_EXAMPLES, ())
    ]  # fmt: skip
    unknown = unknown_operations(folder)
    if unknown:
        raise GateError(
            f"The SavedModel has operations that TensorFlow Serving 2.20 lacks: "
            f"{', '.join(unknown)}. Nothing was exported."
        )
    found = [*requests, *batches]
    outputs = gate.run(folder, found)
    pairs: dict[str, list[Pair]] = {}
    labelled: list[tuple[Request, Pair]] = []
    for request, actual in zip(found, outputs, strict=True):
        inputs = {name: _tensor(value) for name, value in request.inputs.items()}
        with tf.device("CPU"):  # as in the other process
            tensors = signatures[request.signature](**inputs)
        pair = {name: value.numpy() for name, value in tensors.items()}, actual
        pairs.setdefault(request.signature, []).append(pair)
        if request.correct is not None:
            labelled.append((request, pair))
    comparisons = [
        each for name, own in pairs.items() for each in compare(served, name, own, precision)
    ]
    failed = [each for each in comparisons if not each.passed]
    if failed:
        worst = failed[0]
        raise GateError(
            f"The SavedModel differs from the model in memory: {worst.output} of "
            f"{worst.signature} by {worst.difference:.2g}, and at most {worst.limit:.2g} is "
            "allowed. Nothing was exported."
        )
    return comparisons, _metric(served, labelled) if labelled else None


def _metric(served: ServedModel, labelled: Sequence[tuple[Request, Pair]]) -> Metric:
    """Returns the metric of labelled requests.

    Args:
        served: The model.
        labelled: Each request, with the outputs of the model in memory and of the SavedModel.

    Raises:
        GateError: The two models differ in the metric.
    """
    correct = [each for request, _ in labelled for each in request.correct or ()]
    values = []
    for outputs in zip(*(pair for _, pair in labelled), strict=True):
        joined = {name: np.concatenate([each[name] for each in outputs]) for name in outputs[0]}
        name, value = served.metric(joined, correct)
        values.append(value)
    if not abs(values[0] - values[1]) <= _METRIC_LIMIT:
        raise GateError(
            f"The {name} on {len(correct)} examples of the dev split is {values[1]:.2f} with the "
            f"SavedModel and {values[0]:.2f} with the model in memory, and at most "
            f"{_METRIC_LIMIT} points of difference are allowed. Nothing was exported."
        )
    return Metric(name, len(correct), *values)


def compare(
    served: ServedModel, signature: str, pairs: Sequence[Pair], precision: str
) -> Iterator[Comparison]:
    """Compares the outputs of a signature for all of its requests.

    Args:
        served: The model.
        signature: The name of the signature.
        pairs: The outputs for each request.
        precision: The dtype of the model, a key of `_TOLERANCES`.
    """
    limit = _TOLERANCES[precision]
    for name, first in pairs[0][0].items():
        is_float = np.issubdtype(first.dtype, np.floating)
        arrays = [(expected[name], actual[name]) for expected, actual in pairs]
        if not is_float:
            arrays = [_with_equal_widths(*each) for each in arrays]
        if any(one.shape != other.shape for one, other in arrays):
            yield Comparison(signature, name, float("inf"), limit)
        elif is_float:
            difference = _float_difference(arrays, _PERCENTILE[precision])
            yield Comparison(signature, name, difference, limit)
        else:
            parts = [
                (one != other) & ~np.asarray(served.near_ties(name, *pair, 2 * limit))
                for (one, other), pair in zip(arrays, pairs, strict=True)
            ]
            different = np.concatenate([part.reshape(-1) for part in parts])
            yield Comparison(signature, name, different.sum() / max(different.size, 1), 0.0)


def _float_difference(arrays: Sequence[tuple[np.ndarray, np.ndarray]], percentile: int) -> float:
    """Returns a percentile of the differences; NaN if a value is NaN."""
    found = np.concatenate([np.abs(one - other).reshape(-1) for one, other in arrays])
    if not found.size:
        return 0.0
    scale = max(1.0, *(float(np.abs(one).max(initial=0)) for one, _ in arrays))
    return float(np.percentile(found, percentile)) / scale


def _with_equal_widths(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pads two decoded outputs [B, E], such as lists of entities, to the same number of columns."""
    if not (first.ndim == second.ndim == 2 and len(first) == len(second)):
        return first, second
    width = max(first.shape[1], second.shape[1])
    arrays = []
    for each in (first, second):
        missing, padding = width - each.shape[1], b"" if each.dtype == object else 0
        columns = np.full([len(each), missing], padding, each.dtype)
        arrays.append(np.concatenate([each, columns], axis=1))
    return arrays[0], arrays[1]


def _tensor(value: np.ndarray) -> Any:
    return tf.constant(value, tf.string if value.dtype == object else None)
