"""Compares TFLite and ONNX files with the model in memory."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from bert_tf.export import gate
from bert_tf.export.gate import Limits
from bert_tf.export.gate_process import Gate, GateError
from bert_tf.export.model_files.model_file import ModelFile
from bert_tf.export.requests import Request, example_requests
from bert_tf.export.served import ServedModel
from bert_tf.tasks.task import Outputs

# float16 and int8 are the dtypes of the weights. int8 is judged by its metric, whose
# limit for few examples is that of two of them, or by its answers (`_limits_of`). For
# outputs without answers, the limits of int8 must find wrong ones: unit vectors [384]
# of unrelated texts differ by 0.17, and a zero vector by 0.13.
_LIMITS = {
    "float32": Limits(1e-4, 100, 0.5, allows_gain=True),
    "float16": Limits(1e-2, 99, 1.0, allows_gain=True),
    "int8": Limits(0.1, 99, 1.0, True, 0.3, metric_examples=2, different_answers=0.1),
}
# With so many labelled examples, the metric alone decides on int8.
_MANY_EXAMPLES = 100
# Texts for which the tokenizer of TFLite has the same ids as that of TensorFlow.
_VALID_TEXTS = tuple(text for text in gate.EXAMPLES if b"\xff" not in text)


def check(
    process: Gate,
    served: ServedModel,
    labelled: Sequence[Request],
    found: Sequence[ModelFile],
) -> list[dict[str, Any] | GateError]:
    """Compares the outputs of all files with those of the model in memory.

    Args:
        process: The process that runs the files.
        served: The model in memory.
        labelled: Requests with correct outputs.
        found: The files.

    Returns:
        For each file its report, or the `GateError` if an output or the metric differs
        too much.

    Raises:
        GateError: LiteRT or ONNX Runtime cannot run a file.
    """
    kinds = {name: each.kind for name, each in served.endpoints().items()}
    names = [name for name, kind in kinds.items() if kind != "examples"]
    of_texts = [name for name in names if kinds[name] == "texts"]
    signatures, requests, expected = served.signatures(*names), {}, {}
    for takes_texts in {each.takes_texts for each in found}:
        examples = (of_texts, _VALID_TEXTS) if takes_texts else (names, gate.EXAMPLES)
        own = [*example_requests(served, *examples, ()), *labelled]
        requests[takes_texts] = own
        expected[takes_texts] = gate.outputs_in_memory(signatures, own)
    actual = process.run(
        [each.path for each in found], [requests[each.takes_texts] for each in found]
    )
    reports: list[dict[str, Any] | GateError] = []
    for file, outputs in zip(found, actual, strict=True):
        given = requests[file.takes_texts], expected[file.takes_texts]
        try:
            reports.append(_report(served, file, *given, outputs))
        except GateError as error:
            reports.append(error)
    return reports


def _report(
    served: ServedModel,
    file: ModelFile,
    requests: Sequence[Request],
    expected: Sequence[Outputs],
    actual: Sequence[Outputs],
) -> dict[str, Any]:
    """Compares one file; returns its report."""
    name = os.path.basename(file.path)
    num_examples = sum(len(each.correct or ()) for each in requests)
    report = gate.judge(
        served,
        requests,
        expected,
        actual,
        _limits_of(file.precision, num_examples, expected),
        name,
        # The labelled texts may be among those that the tokenizer of TFLite splits
        # differently.
        compares_labelled=not file.takes_texts,
    )
    return {
        **report,
        "file": name,
        "size_bytes": tf.io.gfile.stat(file.path).length,
        "takes_texts": file.takes_texts,
    }


def _limits_of(
    precision: str, num_examples: int, expected: Sequence[Outputs]
) -> Limits:
    """Returns the limits of a file.

    For int8, many examples or answers replace those of outputs.
    """
    limits = _LIMITS[precision]
    if precision != "int8":
        return limits
    if num_examples >= _MANY_EXAMPLES:
        return dataclasses.replace(limits, judges_values=False, different_answers=None)
    answers = any(
        each.dtype.kind != "f" for outputs in expected for each in outputs.values()
    )
    return dataclasses.replace(limits, judges_values=not answers)
