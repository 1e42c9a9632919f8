"""Compares TFLite files with the model in memory."""

import dataclasses
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.export import gate
from bert_tf.export.gate import Limits
from bert_tf.export.gate_process import Gate, GateError
from bert_tf.export.lite import mediapipe_tasks
from bert_tf.export.requests import Request
from bert_tf.export.served import ServedModel

_LOGGER = logging.getLogger(__name__)
# float16 and int8 are the dtypes of the weights. int8 is judged by its metric, whose limit for few
# examples is that of two of them, or by its answers (`_limits_of`). For outputs without answers,
# the limits of int8 must find wrong ones: unit vectors [384] of unrelated texts differ by 0.17, and
# a zero vector by 0.13.
_LIMITS = {
    "float32": Limits(1e-4, 100, 0.5, allows_gain=True),
    "float16": Limits(1e-2, 99, 1.0, allows_gain=True),
    "int8": Limits(0.1, 99, 1.0, True, 0.3, metric_examples=2, different_answers=0.1),
}
# With so many labelled examples, the metric alone decides on int8.
_MANY_EXAMPLES = 100
# Texts for which the tokenizer of TFLite has the same ids as that of TensorFlow.
_VALID_TEXTS = tuple(text for text in gate.EXAMPLES if b"\xff" not in text)


@dataclasses.dataclass(frozen=True)
class LiteFile:
    """A TFLite file of an export.

    Attributes:
        precision: The dtype of its weights.
        takes_texts: Whether its inputs are texts.
        has_metadata: Whether it has metadata for MediaPipe.
        path: Its path.
        operations: The number of uses of each operation, by name.
    """

    precision: str
    takes_texts: bool
    has_metadata: bool
    path: str = ""
    operations: Mapping[str, int] = dataclasses.field(default_factory=dict)


def check(
    process: Gate, served: ServedModel, labelled: Sequence[Request], found: Sequence[LiteFile]
) -> list[dict[str, Any] | GateError]:
    """Compares the outputs of all files with those of the model in memory.

    Args:
        process: The process that runs the files.
        served: The model in memory.
        labelled: Requests with correct outputs.
        found: The files.

    Returns:
        For each file its report, or the `GateError` if an output or the metric differs too much or
        MediaPipe cannot run the file.

    Raises:
        GateError: LiteRT cannot run a file.
    """
    kinds = {name: each.kind for name, each in served.endpoints().items()}
    names = {
        False: [name for name, kind in kinds.items() if kind != "examples"],
        True: [name for name, kind in kinds.items() if kind == "texts"],
    }
    requests = {
        takes_texts: [
            *gate.example_requests(
                served, names[takes_texts], _VALID_TEXTS if takes_texts else gate.EXAMPLES
            ),
            *labelled,
        ]
        for takes_texts in {each.takes_texts for each in found}
    }
    actual = process.run(
        [each.path for each in found], [requests[each.takes_texts] for each in found]
    )
    signatures = served.signatures(*names[False])
    expected = {key: _expected(served, signatures, each) for key, each in requests.items()}
    reports: list[dict[str, Any] | GateError] = []
    for file, outputs in zip(found, actual, strict=True):
        given = requests[file.takes_texts], expected[file.takes_texts]
        try:
            reports.append(_report(served, file, *given, outputs))
        except GateError as error:
            reports.append(error)
    return reports


def _expected(
    served: ServedModel, signatures: Mapping[str, Any], requests: Sequence[Request]
) -> list[Mapping[str, np.ndarray]]:
    """Returns the outputs of the model in memory that TFLite files have too."""
    found = gate.outputs_in_memory(signatures, requests)
    is_ids = [served.endpoints()[each.signature].kind == "ids" for each in requests]
    return [
        {name: outputs[name] for name in served.lite_outputs} if ids else outputs
        for outputs, ids in zip(found, is_ids, strict=True)
    ]


def _report(
    served: ServedModel,
    file: LiteFile,
    requests: Sequence[Request],
    expected: Sequence[Mapping[str, np.ndarray]],
    actual: Sequence[Mapping[str, np.ndarray]],
) -> dict[str, Any]:
    """Compares one file; returns its report."""
    name, limits = os.path.basename(file.path), _LIMITS[file.precision]
    # The labelled texts may be among those that the tokenizer of TFLite splits differently.
    places = [
        place for place, each in enumerate(requests)
        if not (file.takes_texts and each.correct is not None)
    ]  # fmt: skip
    metric = gate.metric(served, requests, expected, actual, limits, name)
    if file.precision == "int8":
        limits = _limits_of(limits, metric, expected)
    comparisons = gate.check(
        served, [requests[each] for each in places], [expected[each] for each in places],
        [actual[each] for each in places], limits, name,
    )  # fmt: skip
    report = {
        "file": name,
        "size_bytes": tf.io.gfile.stat(file.path).length,
        "operations": dict(file.operations),
        "outputs": [dataclasses.asdict(each) for each in comparisons],
        "metric": dataclasses.asdict(metric) if metric else None,
        "takes_texts": file.takes_texts,
    }
    if file.has_metadata:
        report["mediapipe"] = _compare_with_mediapipe(served, file, requests, actual)
    return report


def _limits_of(limits: Limits, metric: gate.Metric | None, expected: Sequence[Any]) -> Limits:
    """Returns the limits of outputs that a metric of many examples or answers replace."""
    if metric and metric.num_examples >= _MANY_EXAMPLES:
        return dataclasses.replace(limits, judges_values=False, different_answers=None)
    answers = any(each.dtype.kind != "f" for outputs in expected for each in outputs.values())
    return dataclasses.replace(limits, judges_values=not answers)


def _compare_with_mediapipe(
    served: ServedModel,
    file: LiteFile,
    requests: Sequence[Request],
    actual: Sequence[Mapping[str, np.ndarray]],
) -> dict[str, Any]:
    """Runs the labelled texts, or else the examples, in MediaPipe; logs and returns the report."""
    (text_name,), (output_name,) = served.text_names, served.lite_outputs
    of_texts = [
        (request, outputs) for request, outputs in zip(requests, actual, strict=True)
        if request.signature == "serving_default"
    ]  # fmt: skip
    texts, outputs = (
        np.concatenate(each)
        for each in zip(
            *((request.inputs[text_name], found[output_name]) for request, found in of_texts),
            strict=True,
        )
    )
    # The labelled texts are the last ones.
    num_labelled = sum(len(request.correct or ()) for request, _ in of_texts)
    report = mediapipe_tasks.compare(
        file.path, texts.tolist(), outputs, served.mediapipe_task, num_labelled or len(texts)
    )
    _LOGGER.info(
        "%s in MediaPipe: %.1f %% of %d texts have other outputs, because of its tokenizer; %.1f %%"
        " have another label.", os.path.basename(file.path), 100 * report.different_outputs,
        report.num_texts, 100 * report.different_labels,
    )  # fmt: skip
    return dataclasses.asdict(report)
