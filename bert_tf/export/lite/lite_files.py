"""Writes the TFLite files of an export."""

import dataclasses
import functools
import json
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from bert_tf import files, json_files
from bert_tf.errors import InputError
from bert_tf.export import assets
from bert_tf.export.gate_process import Gate, GateError
from bert_tf.export.job import ExportJob, facts_of
from bert_tf.export.layout import LITE
from bert_tf.export.lite import lite_gate, mediapipe_metadata
from bert_tf.export.lite.conversion import convert
from bert_tf.export.lite.embedded_files import FACTS_FILE, with_files
from bert_tf.export.lite.lite_forward import check_installed
from bert_tf.export.lite.lite_gate import LiteFile
from bert_tf.export.lite.load import LiteFacts
from bert_tf.export.lite.measure import measure
from bert_tf.export.lite.operations import check_operations
from bert_tf.export.lite.report import table_of
from bert_tf.export.requests import Request, labelled_requests
from bert_tf.export.served import ServedModel, load_served
from bert_tf.head_config import HeadConfig
from bert_tf.weights import VOCABULARY_FILE

_LOGGER = logging.getLogger(__name__)


def prepare(job: ExportJob) -> Callable[[Gate, str], dict[str, Any]]:
    """Reads everything that TFLite files need, before anything is written.

    Args:
        job: The model and the settings.

    Returns:
        A function that writes a TFLite file for each precision to a folder, checks them in a
        process, and returns the report. A file with other outputs than the model in memory or a
        metric that is too low is removed, with a warning. The function raises `GateError` if no
        format is left, or for operations that TFLite lacks.

    Raises:
        InputError: The checkpoint cannot be exported for the task or has LSTM layers, or LiteRT is
            not installed.
    """
    check_installed()
    length = job.settings.tflite_length
    positions = job.origin.checkpoint.config.max_position_embeddings
    if length is not None and not 3 <= length <= positions:
        raise InputError(
            f"tflite_length must be from 3 to {positions}, the model's max_position_embeddings. "
            f"Received: {length}."
        )
    if HeadConfig.from_dict(job.origin.checkpoint.facts.get("head")).kind == "bilstm":
        raise InputError(
            "TFLite cannot represent the loops of the LSTM layers of this model. Give format="
            "saved_model, or train with head=linear."
        )
    settings = dataclasses.replace(
        job.settings, precision="float32", max_seq_length=length or job.settings.max_seq_length
    )
    served = load_served(job.origin.checkpoint, settings)
    if settings.tflite_text_input and not served.lite_takes_texts:
        raise InputError(
            f"A TFLite file for the task {job.origin.task} cannot take texts, because TFLite lacks "
            "the operations. Leave out tflite_text_input; the file takes token ids."
        )
    settings = dataclasses.replace(settings, max_seq_length=served.max_seq_length)
    job = dataclasses.replace(job, settings=settings)
    names = [served.labelled_signature]
    labelled = labelled_requests(served, job.dev_data, names) if job.dev_data else []
    return functools.partial(_write, job, served, labelled)


def _write(
    job: ExportJob, served: ServedModel, labelled: Sequence[Request], process: Gate, folder: str
) -> dict[str, Any]:
    """Writes and checks the files; see `prepare`."""
    settings, has_metadata = job.settings, _can_run_in_mediapipe(served)
    place = os.path.join(folder, LITE)
    tf.io.gfile.makedirs(place)
    found = [
        _write_file(
            job, served, place, LiteFile(precision, takes_texts, has_metadata and not takes_texts)
        )
        for takes_texts in ([False, True] if settings.tflite_text_input else [False])
        for precision in dict.fromkeys(settings.tflite_precisions)
    ]  # fmt: skip
    reports = lite_gate.check(process, served, labelled, found)
    errors = [each for each in reports if isinstance(each, GateError)]
    if len(errors) == len(reports) and settings.format == "tflite":
        raise errors[0]
    rows, left_out = [], []
    for row, each in zip(reports, found, strict=True):
        if isinstance(row, GateError):
            tf.io.gfile.remove(each.path)
            left_out.append(str(row).replace("Nothing was exported.", "This file is left out."))
            _LOGGER.warning("warning: %s --tflite_precisions chooses the files.", left_out[-1])
            continue
        row["max_seq_length"] = served.max_seq_length
        rows.append(row | measure(each.path, served, settings.tflite_length, each.takes_texts))
    report = {"max_seq_length": served.max_seq_length, "tflite_left_out": left_out}
    if not rows:
        tf.io.gfile.rmtree(place)
        return report
    _LOGGER.info("TFLite files:\n%s", table_of(rows))
    return {**report, "tflite": rows}


def _can_run_in_mediapipe(served: ServedModel) -> bool:
    """Returns whether the files get metadata for MediaPipe; logs why not."""
    if not served.mediapipe_task:
        return False
    if not served.tokenizer.do_lower_case:
        reason = "MediaPipe lower-cases all texts, and the model is cased"
    elif not mediapipe_metadata.is_installed():
        reason = "mediapipe cannot be imported (pip install 'bert-tf[mediapipe]')"
    else:
        return True
    _LOGGER.info("The TFLite files have no metadata for MediaPipe: %s.", reason)
    return False


def _write_file(job: ExportJob, served: ServedModel, place: str, file: LiteFile) -> LiteFile:
    """Converts a model, and writes it with its vocabulary, labels and facts."""
    name = f"{file.precision}{'_text' if file.takes_texts else ''}.tflite"
    _LOGGER.info("converting %s", name)
    model = convert(served, file, job.settings.tflite_length)
    operations = check_operations(model, name, file.takes_texts)
    embedded = assets.text_files(job.origin)
    if file.has_metadata:
        labels = assets.LABELS_FILE if assets.LABELS_FILE in embedded else None
        model = mediapipe_metadata.with_metadata(model, VOCABULARY_FILE, labels)
    checkpoint = job.origin.checkpoint
    facts = LiteFacts(
        config=checkpoint.config.to_dict(),
        facts=facts_of(job.origin),
        settings=dataclasses.asdict(job.settings),
        heads=tuple(sorted(each for each in checkpoint.weights if not each.startswith("bert/"))),
        do_lower_case=served.tokenizer.do_lower_case,
        takes_texts=file.takes_texts,
        model_sha256=files.sha256(model),
    )
    values = dataclasses.asdict(facts)
    values["facts_sha256"] = json_files.sha256_of_values(values)
    stored = json.dumps(values, indent=2, sort_keys=True).encode()
    path = os.path.join(place, name)
    files.write_bytes(path, with_files(model, {**embedded, FACTS_FILE: stored}))
    return dataclasses.replace(file, path=path, operations=operations)
