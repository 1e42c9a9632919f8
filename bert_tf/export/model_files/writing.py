"""Writes the files of an export in one format, and checks them."""

import dataclasses
import json
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from bert_tf.export import assets
from bert_tf.export.gate_process import Gate, GateError
from bert_tf.export.job import ExportJob
from bert_tf.export.model_files import file_gate
from bert_tf.export.model_files.measure import measure
from bert_tf.export.model_files.model_file import FACTS_FILE, FileFacts, ModelFile
from bert_tf.export.model_files.report import NAMES, table_of
from bert_tf.export.requests import labelled_requests
from bert_tf.export.served import ServedModel
from bert_tf.storage import sealed

_LOGGER = logging.getLogger(__name__)
# Converts a model, and writes it as a file to a folder.
WriteFile = Callable[[ExportJob, ServedModel, str, ModelFile], ModelFile]


def writer(
    format: str,
    job: ExportJob,
    served: ServedModel,
    found: Sequence[ModelFile],
    write: WriteFile,
) -> Callable[[Gate, str], dict[str, Any]]:
    """Reads the labelled examples of an export.

    Args:
        format: "tflite" or "onnx": the name of the folder of the files, and their
            ending.
        job: The model and the settings.
        served: The model.
        found: The files to write.
        write: Writes one of them.

    Returns:
        A function that writes the files to a folder, checks them in a process, and
        returns the report. A file with other outputs than the model in memory or a
        metric that is too low is removed, with a warning. The function raises
        `GateError` if no file of the export is left.
    """
    labelled = (
        labelled_requests(served, job.dev_data, [served.labelled_signature])
        if job.dev_data
        else []
    )

    def write_all(process: Gate, folder: str) -> dict[str, Any]:
        place = os.path.join(folder, format)
        tf.io.gfile.makedirs(place)
        written = [write(job, served, place, each) for each in found]
        reports = file_gate.check(process, served, labelled, written)
        errors = [each for each in reports if isinstance(each, GateError)]
        if len(errors) == len(reports) and job.settings.format == format:
            raise errors[0]
        rows, left_out = [], []
        for row, each in zip(reports, written, strict=True):
            if isinstance(row, GateError):
                tf.io.gfile.remove(each.path)
                left_out.append(
                    str(row).replace("Nothing was exported.", "This file is left out.")
                )
                _LOGGER.warning(
                    "warning: %s --%s_precisions chooses the files.",
                    left_out[-1],
                    format,
                )
                continue
            row["max_seq_length"] = served.max_seq_length
            rows.append(row | measure(each, served, job.settings.tflite_length))
        report = {
            "max_seq_length": served.max_seq_length,
            f"{format}_left_out": left_out,
        }
        if not rows:
            tf.io.gfile.rmtree(place)
            return report
        _LOGGER.info("%s files:\n%s", NAMES[format], table_of(rows))
        return {**report, format: rows}

    return write_all


def embedded_files(
    job: ExportJob, served: ServedModel, **facts: Any
) -> dict[str, bytes]:
    """Returns the texts that a file contains: vocabulary, labels and facts.

    Args:
        job: The model and the settings.
        served: The model.
        **facts: The other fields of `FileFacts`.
    """
    checkpoint = job.checkpoint
    settings = dataclasses.replace(
        job.settings, precision="float32", max_seq_length=served.max_seq_length
    )
    stored = FileFacts(
        config=checkpoint.config.to_dict(),
        facts=job.facts,
        settings=dataclasses.asdict(settings),
        heads=tuple(
            sorted(each for each in checkpoint.weights if not each.startswith("bert/"))
        ),
        do_lower_case=served.tokenizer.do_lower_case,
        **facts,
    )
    values = sealed.seal(dataclasses.asdict(stored))
    content = json.dumps(values, indent=2, sort_keys=True).encode()
    return {**assets.text_files(job), FACTS_FILE: content}
