"""Writes, checks and measures the TFLite or ONNX files of an export."""

import contextlib
import dataclasses
import functools
import logging
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.export import check
from bert_tf.export.assets import table_of
from bert_tf.export.check import CheckProcess, Limits
from bert_tf.export.check_process import outputs_of
from bert_tf.export.formats import (
    FILE_FORMATS,
    ExportCheckError,
    check_installed,
    module_of,
)
from bert_tf.export.job import ExportJob
from bert_tf.export.layout import EXTRA
from bert_tf.export.model_file import Arrays, ModelFile, PreparedFiles, open_file
from bert_tf.export.served import ServedModel
from bert_tf.export.signature_requests import (
    Request,
    example_requests,
    labelled_requests,
)
from bert_tf.modeling.inputs import POSITIONS
from bert_tf.storage import files
from bert_tf.tasks.task import Outputs

_LOGGER = logging.getLogger(__name__)
# The limits by the dtype of the weights. int8 is judged by its metric, which may always
# differ by two examples, or by its answers, such as labels (`_limits_of`). If all
# outputs are floats, the limits of int8 must find wrong vectors: at the 99th percentile,
# unit vectors [384] of unrelated texts differ by 0.17, and a zero vector by 0.13.
_LIMITS = {
    "float32": Limits(1e-4, 100, 0.5, allows_gain=True),
    "bfloat16": check.LIMITS["bfloat16"],  # OpenVINO, whose weights are float32
    "float16": Limits(1e-2, 99, 1.0, allows_gain=True),
    "int8": Limits(
        0.1,
        99,
        metric_loss=1.0,
        allows_gain=True,
        of_large_values=0.3,
        metric_examples=2,
        different_answers=0.1,
    ),
}
# With so many labelled examples, the metric alone decides on int8.
_MANY_EXAMPLES = 100
# Texts for which the tokenizer of TFLite has the same ids as that of TensorFlow.
_VALID_TEXTS = tuple(text for text in check.EXAMPLES if b"\xff" not in text)
# The numbers of tokens and threads with which each file is measured, and the smallest
# total time and number of runs of a measurement.
_LENGTHS = (32, 128)
_NUM_THREADS = (1, 2)
_MIN_SECS = 0.3
_MIN_RUNS = 5


def prepare(name: str, job: ExportJob) -> Callable[[CheckProcess, str], dict[str, Any]]:
    """Reads everything that the files of a format need, before anything is written.

    The returned function writes the files to a folder, checks them in a process, and
    returns the report. It removes a file, with a warning, if its outputs differ too
    much from those of the model in memory, or its metric is too low. It raises
    `ExportCheckError` if it removes all files and the export has no other format.

    Raises:
        InputError: The checkpoint cannot be exported for the task or in this format, or
            a package of the format is not installed.
    """
    check_installed(name, to_write=True)
    prepared: PreparedFiles = module_of(name).prepare(job)
    served = prepared.served
    labelled = labelled_requests(served, job.dev_data, [served.labelled_signature])
    return functools.partial(_write, name, job, prepared, labelled)


def _write(
    name: str,
    job: ExportJob,
    prepared: PreparedFiles,
    labelled: Sequence[Request],
    process: CheckProcess,
    folder: str,
) -> dict[str, Any]:
    """Writes, checks and measures the files; see `prepare`."""
    extra = os.path.join(folder, EXTRA)
    files_folder = os.path.join(folder, name)
    for each in (extra, files_folder):
        tf.io.gfile.makedirs(each)
    for file_name, content in prepared.extra.items():
        files.write_bytes(os.path.join(extra, file_name), content)

    # Write all files, and run them in the process.
    served = prepared.served
    written = []
    for file in prepared.files:
        path = os.path.join(files_folder, f"{file.name}.{name}")
        _LOGGER.info("converting %s", os.path.basename(path))
        files.write_bytes(path, prepared.content(file))
        written.append(dataclasses.replace(file, path=path))

    reports = compare(process, served, labelled, written)
    errors = [each for each in reports if isinstance(each, ExportCheckError)]
    if len(errors) == len(reports) and job.settings.format == name:
        raise errors[0]

    # A file that differs too much is removed, and the others are measured.
    rows = []
    left_out = []
    for row, file in zip(reports, written, strict=True):
        if isinstance(row, ExportCheckError):
            tf.io.gfile.remove(file.path)
            reason = str(row).replace("Nothing was exported.", "This file is left out.")
            left_out.append(reason)
            _LOGGER.warning(
                "warning: %s --%s_precisions chooses the files.", reason, name
            )
            continue
        row["max_seq_length"] = served.max_seq_length
        rows.append(row | measure(file, prepared))

        # The file stays if only another runtime has other outputs.
        try:
            if other := _report_of_other_run(prepared, labelled, file):
                rows.append(row | other)
        except Exception as error:  # OpenVINO has many classes of errors
            reason = f"With OpenVINO, {' '.join(str(error).split())}".replace(
                "Nothing was exported", "Use ONNX Runtime"
            )
            left_out.append(reason)
            _LOGGER.warning("warning: %s", reason)

    report = {"max_seq_length": served.max_seq_length, f"{name}_left_out": left_out}
    if not rows:
        tf.io.gfile.rmtree(files_folder)
        return report
    _LOGGER.info("%s files:\n%s", FILE_FORMATS[name].title, table_of(rows))
    return {**report, name: rows}


def _report_of_other_run(
    prepared: PreparedFiles, labelled: Sequence[Request], file: ModelFile
) -> dict[str, Any]:
    """Checks and measures a file in a second runtime; returns {} if there is none."""
    other = prepared.other_run(file)
    if other is None:
        return {}
    file, runtime = other
    with contextlib.closing(check.CheckProcess()) as process:
        (report,) = compare(process, prepared.served, labelled, [file])
    if isinstance(report, ExportCheckError):
        raise report
    return {**report, **measure(file, prepared), "runtime": runtime}


def compare(
    process: CheckProcess,
    served: ServedModel,
    labelled: Sequence[Request],
    found: Sequence[ModelFile],
) -> list[dict[str, Any] | ExportCheckError]:
    """Compares the outputs of all files with those of the model in memory.

    All files in `found` have the same runtime. Returns for each file its report, or an
    `ExportCheckError` if an output or the metric differs too much. Raises
    `ExportCheckError` if the runtime cannot run a file.
    """
    endpoints = served.endpoints()
    names = [name for name in endpoints if endpoints[name].kind != "examples"]
    of_texts = [name for name in names if endpoints[name].kind == "texts"]

    # Files that take texts get other requests than those that take ids.
    signatures = served.signatures(*names)
    references = {}
    for takes_texts in {each.takes_texts for each in found}:
        examples = (of_texts, _VALID_TEXTS) if takes_texts else (names, check.EXAMPLES)
        requests = [*example_requests(served, *examples, ()), *labelled]
        references[takes_texts] = requests, outputs_of(signatures, requests)
    actual = process.run(
        [each.path for each in found],
        [references[each.takes_texts][0] for each in found],
        found[0].runtime,
    )

    return [
        _report(served, file, *references[file.takes_texts], outputs)
        for file, outputs in zip(found, actual, strict=True)
    ]


def _report(
    served: ServedModel,
    file: ModelFile,
    requests: Sequence[Request],
    expected: Sequence[Outputs],
    actual: Sequence[Outputs],
) -> dict[str, Any] | ExportCheckError:
    """Compares one file with the model in memory; see `compare`."""
    name = os.path.basename(file.path)
    num_examples = sum(len(request.correct or ()) for request in requests)
    try:
        report = check.judge(
            served,
            requests,
            expected=expected,
            actual=actual,
            limits=_limits_of(file.precision, num_examples, expected),
            name=name,
            # The labelled texts may be among those that the tokenizer of TFLite splits
            # differently.
            compares_labelled=not file.takes_texts,
        )
    except ExportCheckError as error:
        return error
    return {
        **report,
        "file": name,
        "size_bytes": tf.io.gfile.stat(file.path).length,
        "takes_texts": file.takes_texts,
    }


def _limits_of(
    precision: str, num_examples: int, expected: Sequence[Outputs]
) -> Limits:
    """Returns the limits for a file whose weights have the dtype `precision`.

    For int8 with many labelled examples, only the metric has a limit. For int8 with few
    of them, float outputs have no limit if there are also other outputs, such as labels.
    """
    limits = _LIMITS[precision]
    if precision != "int8":
        return limits
    if num_examples >= _MANY_EXAMPLES:
        return dataclasses.replace(limits, judges_values=False, different_answers=None)
    answers = any(
        array.dtype.kind != "f" for outputs in expected for array in outputs.values()
    )
    return dataclasses.replace(limits, judges_values=not answers)


def measure(file: ModelFile, prepared: PreparedFiles) -> dict[str, Any]:
    """Measures the speed of a file with one sequence at a time.

    Returns `load_ms`, the time to open the file and run it once (the first run converts
    the weights to the layout of the CPU), and `latency_ms`, the median time of a later
    run for each number of tokens and threads. The sequences have the fixed length of
    the file; without one, 32 tokens and, if the model allows so many, 128 tokens.
    """
    served = prepared.served
    longest = prepared.length or served.max_seq_length
    lengths = [
        num_tokens
        for num_tokens in _LENGTHS
        if num_tokens <= longest and not prepared.length
    ] or [longest]
    latency = {}
    for num_threads in _NUM_THREADS:
        start = time.perf_counter()
        forward = open_file(file.path, num_threads, file.runtime).forward()
        forward.run(_inputs(served, lengths[0], file.takes_texts))
        load_ms = 1e3 * (time.perf_counter() - start)
        for num_tokens in lengths:
            inputs = _inputs(served, num_tokens, file.takes_texts)
            name = (
                f"1x{num_tokens}, {num_threads} thread{'s' if num_threads > 1 else ''}"
            )
            latency[name] = _median_ms(functools.partial(forward.run, inputs))
    return {"load_ms": load_ms, "latency_ms": latency}


def _inputs(served: ServedModel, length: int, takes_texts: bool) -> Arrays:
    """Returns inputs of up to `length` tokens: ids of [UNK], or texts of question marks."""
    if takes_texts:
        names = served.text_names
        words = (length - 1 - len(names)) // len(names)
        return {name: np.array([b"? " * words], object) for name in names}
    zeros: np.ndarray = np.zeros([1, length], np.int32)
    inputs = {
        "input_ids": zeros + served.tokenizer.unk_id,
        "input_mask": zeros + 1,
        "segment_ids": zeros,
    }
    if served.takes_masks:
        inputs[POSITIONS] = np.zeros([1, 1], np.int32)
    return inputs


def _median_ms(run: Callable[[], Any]) -> float:
    """Returns the median time of a call of `run`, in milliseconds."""
    run()
    times: list[float] = []
    while len(times) < _MIN_RUNS or sum(times) < _MIN_SECS:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return 1e3 * float(np.median(times))
