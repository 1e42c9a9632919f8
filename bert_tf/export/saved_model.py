"""Writes a SavedModel that takes raw text, and checks its outputs."""

import dataclasses
import functools
import logging
import os
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import fingerprint_pb2

from bert_tf.export import gate, server_files
from bert_tf.export.formats import GateError
from bert_tf.export.gate import GateProcess
from bert_tf.export.job import ExportJob
from bert_tf.export.requests import Request, example_requests, labelled_requests
from bert_tf.export.saved_model_loading import foreign_parts, read_graph
from bert_tf.export.served import ServedModel, load_served
from bert_tf.export.settings import ServingSettings
from bert_tf.pretrained import Pretrained
from bert_tf.storage import files
from bert_tf.training.strategy import emulation_of_bfloat16

_LOGGER = logging.getLogger(__name__)


def prepare(job: ExportJob) -> Callable[[GateProcess, str], dict[str, Any]]:
    """Reads everything that a SavedModel needs, before anything is written.

    Args:
        job: The model and the settings.

    Returns:
        A function that writes a SavedModel and the files that TensorFlow Serving reads
        to a folder, checks them in a process, and returns the report. It raises
        `GateError` if the SavedModel and the model in memory have different outputs.

    Raises:
        InputError: The checkpoint cannot be exported for the task.
    """
    served = _load(job.checkpoint, job.settings)
    if emulation := _emulation(job.settings):
        _LOGGER.warning("warning: %s", emulation)

    labelled = labelled_requests(served, job.dev_data) if job.dev_data else []
    return functools.partial(_write, job, served, labelled)


def _load(checkpoint: Pretrained, settings: ServingSettings) -> ServedModel:
    """Returns a served model that computes nothing on padding."""
    served = load_served(checkpoint, settings)
    served.model.skip_padding = True
    return served


def _emulation(settings: ServingSettings) -> str | None:
    """Returns a remark about an export in a dtype that this machine emulates."""
    emulation = emulation_of_bfloat16() if settings.precision == "bfloat16" else None
    remedy = "Give precision=float32 for servers like this machine."
    return emulation and f"{emulation} {remedy}"


def _write(
    job: ExportJob,
    served: ServedModel,
    labelled: Sequence[Request],
    process: GateProcess,
    folder: str,
) -> dict[str, Any]:
    """Writes and checks a SavedModel; see `prepare`."""
    settings, checkpoint = job.settings, job.checkpoint

    # Write the graph and the files of TensorFlow Serving.
    signatures = served.signatures()
    tf.saved_model.save(served, folder, signatures=signatures)
    _replace_random_number(folder)
    server_files.write(folder, served, job)
    if found := foreign_parts(read_graph(folder)):
        raise GateError(
            f"The SavedModel contains {', '.join(found)}, which TensorFlow Serving "
            "2.12 may lack, or which may read or write files. Nothing was exported."
        )

    # Run it in the other process.
    requests = [
        *server_files.warm_up_requests(served),
        *labelled,
        *example_requests(served, signatures, gate.EXAMPLES, ()),
    ]
    (outputs,) = process.run([folder], [requests])

    # A SavedModel of another precision is compared with the float32 model, too.
    if settings.precision != "float32":
        single = dataclasses.replace(settings, precision="float32")
        signatures = _load(checkpoint, single).signatures()
    expected = gate.outputs_in_memory(signatures, requests)
    limits = gate.LIMITS[settings.precision]
    try:
        report = gate.judge(served, requests, expected, outputs, limits)
    except GateError as error:
        raise GateError(
            " ".join([str(error), _emulation(settings) or ""]).strip()
        ) from error

    # Report how close the outputs are.
    _LOGGER.info(
        "%d outputs compared with the model in memory: the largest difference is %.1e "
        "(export_report.json states all).",
        len(report["outputs"]),
        max((each["difference"] for each in report["outputs"]), default=0.0),
    )
    if metric := report["metric"]:
        baseline = metric["baseline"]
        _LOGGER.info(
            "%s on %d examples: %.2f, and %.2f before the export%s",
            metric["name"],
            metric["num_examples"],
            metric["exported"],
            metric["model"],
            "" if baseline is None else f"; {baseline:.2f} for a constant prediction",
        )

    return {
        "model": type(served).__name__,
        "precision": settings.precision,
        "max_seq_length": served.max_seq_length,
        **report,
    }


def _replace_random_number(folder: str) -> None:
    """Replaces the random number in fingerprint.pb: equal exports have equal bytes."""
    graph, path = (
        os.path.join(folder, name) for name in ("saved_model.pb", "fingerprint.pb")
    )
    fingerprint = fingerprint_pb2.FingerprintDef.FromString(files.read_bytes(path))
    fingerprint.uuid = str(uuid.UUID(files.sha256_of_file(graph)[:32]))
    files.write_bytes(path, fingerprint.SerializeToString(deterministic=True))
