"""Writes the TFLite files of an export."""

import dataclasses
import logging
import os
from collections.abc import Callable
from typing import Any

from bert_tf.errors import InputError
from bert_tf.export.assets import LABELS_FILE
from bert_tf.export.gate_process import Gate
from bert_tf.export.job import ExportJob
from bert_tf.export.lite import mediapipe_metadata
from bert_tf.export.lite.conversion import convert
from bert_tf.export.lite.embedded_files import with_files
from bert_tf.export.model_files import writing
from bert_tf.export.model_files.model_file import ModelFile
from bert_tf.export.model_files.packages import check_installed
from bert_tf.export.served import ServedModel, load_served
from bert_tf.head_config import HeadConfig
from bert_tf.storage import files
from bert_tf.storage.weights import VOCABULARY_FILE

_LOGGER = logging.getLogger(__name__)


def prepare(job: ExportJob) -> Callable[[Gate, str], dict[str, Any]]:
    """Reads everything that TFLite files need, before anything is written.

    Args:
        job: The model and the settings.

    Returns:
        A function that writes and checks a TFLite file for each precision; see
        `writing.writer`.

    Raises:
        InputError: The checkpoint cannot be exported for the task or has LSTM layers,
            or LiteRT is not installed.
    """
    check_installed("lite", "ai_edge_litert.interpreter")
    length = job.settings.tflite_length
    positions = job.checkpoint.config.max_position_embeddings
    if length is not None and not 3 <= length <= positions:
        raise InputError(
            f"tflite_length must be from 3 to {positions}, the model's "
            f"max_position_embeddings. Received: {length}."
        )
    if HeadConfig.from_dict(job.checkpoint.facts.get("head")).kind == "bilstm":
        raise InputError(
            "TFLite cannot represent the loops of the LSTM layers of this model. Give "
            "format=saved_model, or train with head=linear."
        )
    settings = dataclasses.replace(
        job.settings,
        precision="float32",
        max_seq_length=length or job.settings.max_seq_length,
    )
    served = load_served(job.checkpoint, settings)
    if settings.tflite_text_input and not served.lite_takes_texts:
        raise InputError(
            f"A TFLite file for the task {job.task} cannot take texts, because TFLite "
            "lacks the operations, also those of long_texts=windows. Leave out "
            "tflite_text_input; the file takes token ids."
        )
    has_metadata = _can_run_in_mediapipe(served)
    found = [
        ModelFile(precision, takes_texts, has_metadata and not takes_texts)
        for takes_texts in ([False, True] if settings.tflite_text_input else [False])
        for precision in dict.fromkeys(settings.tflite_precisions)
    ]
    return writing.writer("tflite", job, served, found, _write_file)


def _can_run_in_mediapipe(served: ServedModel) -> bool:
    """Returns whether the files get metadata for MediaPipe; logs why not."""
    if not served.runs_in_mediapipe:
        return False
    if not served.tokenizer.do_lower_case:
        reason = "MediaPipe lower-cases all texts, and the model is cased"
    elif not mediapipe_metadata.is_installed():
        reason = "mediapipe cannot be imported (pip install 'bert-tf[mediapipe]')"
    else:
        return True
    _LOGGER.info("The TFLite files have no metadata for MediaPipe: %s.", reason)
    return False


def _write_file(
    job: ExportJob, served: ServedModel, place: str, file: ModelFile
) -> ModelFile:
    """Converts a model, and writes it with its vocabulary, labels and facts."""
    name = f"{file.precision}{'_text' if file.takes_texts else ''}.tflite"
    _LOGGER.info("converting %s", name)
    model = convert(served, file, job.settings.tflite_length)
    if file.has_metadata:
        labels = LABELS_FILE if job.checkpoint.facts.get("labels") else None
        model = mediapipe_metadata.with_metadata(model, VOCABULARY_FILE, labels)
    embedded = writing.embedded_files(
        job, served, takes_texts=file.takes_texts, model_sha256=files.sha256(model)
    )
    path = os.path.join(place, name)
    files.write_bytes(path, with_files(model, embedded))
    return dataclasses.replace(file, path=path)
