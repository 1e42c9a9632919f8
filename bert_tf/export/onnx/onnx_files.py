"""Writes the ONNX files of an export."""

import dataclasses
import functools
import logging
import os
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from bert_tf.export.gate_process import Gate
from bert_tf.export.job import ExportJob
from bert_tf.export.layout import EXTRA
from bert_tf.export.model_files import writing
from bert_tf.export.model_files.model_file import ModelFile
from bert_tf.export.model_files.packages import check_installed
from bert_tf.export.onnx.onnx_conversion import convert, quantize
from bert_tf.export.onnx.onnx_metadata import with_metadata
from bert_tf.export.served import ServedModel, load_served
from bert_tf.storage import files

_LOGGER = logging.getLogger(__name__)
_CLIENT = "onnx_client.py"
_CLIENT_PATH = os.path.join(os.path.dirname(__file__), _CLIENT)


def prepare(job: ExportJob) -> Callable[[Gate, str], dict[str, Any]]:
    """Reads everything that ONNX files need, before anything is written.

    Args:
        job: The model and the settings.

    Returns:
        A function that writes and checks an ONNX file for each precision; see
        `writing.writer`. For tasks with one output for each text, it writes
        `onnx_client.py` too.

    Raises:
        InputError: The checkpoint cannot be exported for the task, or a package is not
            installed.
    """
    check_installed("onnx", "onnx", "onnxruntime", "tf2onnx")
    settings = dataclasses.replace(job.settings, precision="float32")
    served = load_served(job.checkpoint, settings)
    found = [
        ModelFile(precision) for precision in dict.fromkeys(settings.onnx_precisions)
    ]
    float32 = functools.cache(lambda: convert(served))
    write_files = writing.writer(
        "onnx", job, served, found, functools.partial(_write_file, float32)
    )

    def write_all(process: Gate, folder: str) -> dict[str, Any]:
        if served.lite_takes_texts:
            place = os.path.join(folder, EXTRA)
            tf.io.gfile.makedirs(place)
            files.write_bytes(
                os.path.join(place, _CLIENT), files.read_bytes(_CLIENT_PATH)
            )
        return write_files(process, folder)

    return write_all


def _write_file(
    float32: Callable[[], bytes],
    job: ExportJob,
    served: ServedModel,
    place: str,
    file: ModelFile,
) -> ModelFile:
    """Writes a model with its vocabulary, labels and facts."""
    name = f"{file.precision}.onnx"
    _LOGGER.info("converting %s", name)
    model = quantize(float32()) if file.precision == "int8" else float32()
    path = os.path.join(place, name)
    files.write_bytes(path, with_metadata(model, writing.embedded_files(job, served)))
    return dataclasses.replace(file, path=path)
