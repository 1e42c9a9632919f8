"""Runs an exported model in another process, and compares it with the model in memory.

The files of an export are published only if the outputs of both differ by no more than
`Limits`. The other process runs a SavedModel as a server does, without bert_tf.
"""

import collections
import contextlib
import dataclasses
import inspect
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bert_tf.export import check_process
from bert_tf.export.formats import ExportCheckError
from bert_tf.export.served import ServedModel
from bert_tf.export.signature_requests import Request
from bert_tf.storage.files import path_without_globs, temporary_folder
from bert_tf.tasks.task import Outputs

# Programs get this variable from `startup.set_environment`. A process that calls
# `export` from Python may lack it.
_DEFAULTS = {"TF_ENABLE_ONEDNN_OPTS": "1"}
# The check runs on the CPU, because this process may have taken all memory of the GPUs.
_ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
# The program is passed as text, because Python would add the folder of a file to
# `sys.path`.
_PROGRAM = inspect.getsource(check_process)
EXAMPLES = (
    b"",
    b"A short text.",
    "Żółw, naïve: 東京 😀 [MASK] #42".encode(),
    b"\tmany   blanks\n",
    b"The quick brown fox jumps over the lazy dog. " * 40,
    b"not UTF-8: caf\xe9 \xff\xfe",
)
# For one request, the outputs of the model in memory and those of the exported model.
Pair = tuple[Outputs, Outputs]


class CheckProcess:
    """A process that runs exported models on the CPU.

    It starts to import TensorFlow at once, while this process still writes the models.
    `python`, the path of its interpreter, may have another version of TensorFlow.
    """

    def __init__(self, python: str = sys.executable) -> None:
        self._process = subprocess.Popen(
            [python, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd=os.sep,
            env={**_DEFAULTS, **os.environ, **_ENVIRONMENT},
        )

    def run(
        self,
        paths: Sequence[str],
        found: Sequence[Sequence[Request]],
        runtime: str = "auto",
    ) -> list[list[Outputs]]:
        """Returns the outputs of each model for its requests, and ends the process.

        `paths` are SavedModels, TFLite files or ONNX files, and `found` has a list of
        requests for each. If a model cannot be loaded or a request fails, this raises
        `ExportCheckError`.
        """
        with contextlib.ExitStack() as stack:
            models = []
            for path, requests in zip(paths, found, strict=True):
                # The process runs in another folder, so it needs absolute paths.
                absolute = path if "://" in path else os.path.abspath(path)
                readable = stack.enter_context(path_without_globs(absolute))
                models.append((readable, [request[:2] for request in requests]))

            # Requests and outputs are exchanged as files.
            folder = stack.enter_context(temporary_folder())
            files = [os.path.join(folder, name) for name in ("requests", "outputs")]
            with open(files[0], "wb") as file:
                pickle.dump((runtime, models), file)
            _, errors = self._process.communicate("\n".join(files))
            if self._process.returncode:
                last = (errors.strip().splitlines() or ["no message"])[-1]
                raise ExportCheckError(
                    f"The exported model does not run in another process: {last}"
                )

            with open(files[1], "rb") as file:
                outputs: list[list[Outputs]] = pickle.load(file)
        return outputs

    def close(self) -> None:
        """Ends the process."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The difference between the exported model and the model in memory in one output.

    `difference` is a percentile of the absolute differences of a float output, and the
    share of different values of another output. A `limit` of None allows any finite
    difference.
    """

    signature: str
    output: str
    difference: float
    limit: float | None

    @property
    def passed(self) -> bool:
        """Whether the difference is allowed. NaN and infinity (different shapes) never are."""
        if self.limit is None:
            return bool(np.isfinite(self.difference))
        return self.difference <= self.limit


@dataclasses.dataclass(frozen=True)
class Limits:
    """The largest allowed differences between an exported model and the model in memory.

    Attributes:
        difference: The limit for float outputs. If the largest absolute value of an
            output is above 1, the differences are divided by this value.
        percentile: The percentile of the differences that must be within the limit.
        metric_loss: The limit for the metric, in percentage points.
        allows_gain: Whether the metric of the exported model may be better by any
            amount.
        of_large_values: Replaces `difference` for outputs with absolute values above 1,
            if it is not None.
        metric_examples: The metric may always differ by the percentage points that
            this number of examples is worth.
        different_answers: The largest share of values that differ in an output that is
            not float, such as labels. Near ties do not count. None allows any share.
        judges_values: Whether float outputs must be within the limit. If not, the limit
            only defines near ties.
    """

    difference: float
    percentile: int
    metric_loss: float
    allows_gain: bool = False
    of_large_values: float | None = None
    metric_examples: int = 0
    different_answers: float | None = 0.0
    judges_values: bool = True


LIMITS = {"float32": Limits(1e-5, 100, 0.5), "bfloat16": Limits(2e-2, 99, 0.5)}


def judge(
    served: ServedModel,
    requests: Sequence[Request],
    expected: Sequence[Outputs],
    actual: Sequence[Outputs],
    limits: Limits,
    name: str = "The SavedModel",
    compares_labelled: bool = True,
) -> dict[str, Any]:
    """Compares the outputs and the metric of an exported model with the model in memory.

    For each request, `expected` has the outputs of the model in memory, and `actual`
    those of the exported model, which may be fewer. Without `compares_labelled`,
    requests with correct outputs are used for the metric only.

    Returns:
        The report: `outputs`, a list with the fields of each `Comparison`; and
        `metric`, which is None if no request has correct outputs.

    Raises:
        ExportCheckError: The metric or an output differs too much, or an output is not
            finite.
    """
    # The pairs of outputs by signature, and the pairs of requests with correct outputs.
    labelled: list[tuple[Sequence[Any], Pair]] = []
    pairs: dict[str, list[Pair]] = {}
    outputs = zip(expected, actual, strict=True)
    for request, pair in zip(requests, outputs, strict=True):
        if request.correct is not None:
            labelled.append((request.correct, pair))
        if request.correct is None or compares_labelled:
            pairs.setdefault(request.signature, []).append(pair)

    metric = _metric(served, labelled, limits, name) if labelled else None
    # TensorFlow returns the outputs of a signature in a random order.
    comparisons = [
        comparison
        for key, own in pairs.items()
        for comparison in sorted(
            compare(served, key, own, limits), key=lambda it: it.output
        )
    ]

    # The first output that differs too much is reported.
    for worst in comparisons:
        if worst.passed:
            continue
        limit = (
            "any finite value" if worst.limit is None else f"at most {worst.limit:.2g}"
        )
        raise ExportCheckError(
            f"{name} differs from the model in memory: {worst.output} of "
            f"{worst.signature} by {worst.difference:.2g}, and {limit} is allowed. "
            "Nothing was exported."
        )

    return {
        "outputs": [dataclasses.asdict(comparison) for comparison in comparisons],
        "metric": metric,
    }


def _metric(
    served: ServedModel,
    labelled: Sequence[tuple[Sequence[Any], Pair]],
    limits: Limits,
    name: str,
) -> dict[str, Any]:
    """Compares the metrics of both models on labelled requests, and reports the values.

    The values are in percent. If the metric is the accuracy, `baseline` is the accuracy
    of a constant prediction; for other metrics, it is None.
    """
    correct = [each for answers, _ in labelled for each in answers]

    # The metric of the model in memory, and that of the exported one.
    values = []
    for outputs in zip(*(pair for _, pair in labelled), strict=True):
        joined = {
            name: np.concatenate([each[name] for each in outputs])
            for name in outputs[0]
        }
        kind, value = served.metric(joined, correct)
        values.append(value)

    loss = values[0] - values[1]
    allowed = max(limits.metric_loss, 100 * limits.metric_examples / len(correct))
    if not (loss if limits.allows_gain else abs(loss)) <= allowed:
        raise ExportCheckError(
            f"{name} has the {kind} {values[1]:.2f} on {len(correct)} examples of the "
            f"dev split, and the model in memory has {values[0]:.2f}. At most "
            f"{allowed:.1f} points of difference are allowed. Nothing was exported."
        )

    # An accuracy means little without that of a constant prediction.
    most_frequent = max(collections.Counter(map(str, correct)).values())
    baseline = 100 * most_frequent / len(correct) if kind == "accuracy" else None
    return {
        "name": kind,
        "num_examples": len(correct),
        "model": values[0],
        "exported": values[1],
        "baseline": baseline,
    }


def compare(
    served: ServedModel, signature: str, pairs: Sequence[Pair], limits: Limits
) -> Iterator[Comparison]:
    """Yields a `Comparison` for each output of a signature, over all requests in `pairs`."""
    for name, first in pairs[0][1].items():
        is_float = np.issubdtype(first.dtype, np.floating)
        arrays: list[Any] = [(one[name], other[name]) for one, other in pairs]
        limit = limits.difference
        if not is_float:
            arrays = [_with_equal_widths(*array_pair) for array_pair in arrays]

        if any(one.shape != other.shape for one, other in arrays):
            yield Comparison(signature, name, float("inf"), limit)
        elif is_float:
            difference, scale = _float_difference(arrays, limits.percentile)
            if scale > 1 and limits.of_large_values is not None:
                limit = limits.of_large_values
            yield Comparison(
                signature, name, difference, limit if limits.judges_values else None
            )
        else:
            # Values may differ where a decision is closer than twice the tolerance.
            parts = [
                (one != other)
                & np.logical_not(served.gaps(*pair).get(name, np.inf) <= 2 * limit)
                for (one, other), pair in zip(arrays, pairs, strict=True)
            ]
            different = np.concatenate(parts, axis=None)
            share = float(different.sum() / max(different.size, 1))
            yield Comparison(signature, name, share, limits.different_answers)


def _float_difference(
    arrays: Sequence[tuple[np.ndarray, np.ndarray]], percentile: int
) -> tuple[float, float]:
    """Returns a percentile of the absolute differences, divided by a scale, and the scale.

    The scale is the largest absolute value of the first arrays, but at least 1. The
    percentile is NaN if a value is not finite.
    """
    # A few infinite values would not change a percentile.
    if not all(np.isfinite(array).all() for pair in arrays for array in pair):
        return float("nan"), 1.0
    differences = np.concatenate(
        [np.abs(one - other) for one, other in arrays], axis=None
    )
    if not differences.size:
        return 0.0, 1.0
    scale = max(1.0, *(float(np.abs(one).max(initial=0)) for one, _ in arrays))
    return float(np.percentile(differences, percentile)) / scale, scale


def _with_equal_widths(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """Pads the rows of 2-D arrays, such as lists of entities, to equal lengths."""
    if any(array.ndim != 2 for array in arrays):
        return arrays
    width = max(array.shape[1] for array in arrays)
    padding = b"" if arrays[0].dtype == object else 0
    return tuple(
        np.pad(array, [(0, 0), (0, width - array.shape[1])], constant_values=padding)
        for array in arrays
    )
