"""Writes the TFLite files of an export, and reads the texts in them.

A file ends with a ZIP archive of vocabulary, labels and facts, which TFLite ignores.
MediaPipe's tasks read vocabulary and labels from such an archive.
"""

import dataclasses
import functools
import io
import logging
import os
import zipfile
from collections.abc import Mapping

from bert_tf.errors import InputError
from bert_tf.export.assets import LABELS_FILE
from bert_tf.export.formats import check_installed
from bert_tf.export.job import ExportJob
from bert_tf.export.lite import mediapipe_metadata
from bert_tf.export.lite.lite_conversion import convert
from bert_tf.export.lite.lite_forward import LiteForward
from bert_tf.export.model_file import (
    STORED_TEXTS,
    FileForward,
    ModelFile,
    OpenFile,
    PreparedFiles,
    embedded_files,
)
from bert_tf.export.served import ServedModel, load_served
from bert_tf.head_config import HeadConfig
from bert_tf.storage import files
from bert_tf.storage.weights import VOCABULARY_FILE

_LOGGER = logging.getLogger(__name__)
# The first date that ZIP can represent, so that equal files are equal.
_DATE = (1980, 1, 1, 0, 0, 0)


def prepare(job: ExportJob) -> PreparedFiles:
    """Reads everything that TFLite files need, before anything is written.

    Args:
        job: The model and the settings.

    Returns:
        A file for each precision, and, if the settings say so, another one that takes
        texts.

    Raises:
        InputError: The checkpoint cannot be exported for the task or has LSTM layers,
            or LiteRT is not installed.
    """
    check_installed("tflite", to_write=True)

    # Check what TFLite cannot represent.
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

    # A file for each precision, and each kind of inputs.
    has_metadata = _can_run_in_mediapipe(served)
    found = [
        ModelFile(precision, takes_texts, has_metadata and not takes_texts)
        for takes_texts in ([False, True] if settings.tflite_text_input else [False])
        for precision in dict.fromkeys(settings.tflite_precisions)
    ]
    return PreparedFiles(served, found, functools.partial(_write_file, job, served))


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
    embedded = embedded_files(
        job, served, takes_texts=file.takes_texts, model_sha256=files.sha256(model)
    )
    path = os.path.join(place, name)
    files.write_bytes(path, with_files(model, embedded))
    return dataclasses.replace(file, path=path)


def with_files(model: bytes, embedded: Mapping[str, bytes]) -> bytes:
    """Returns a TFLite file with other files appended, without compression.

    Args:
        model: A TFLite file without an archive.
        embedded: The content of each file, by name.
    """
    buffer = io.BytesIO(model)
    with zipfile.ZipFile(buffer, "a") as archive:
        for name, content in embedded.items():
            archive.writestr(zipfile.ZipInfo(name, _DATE), content)
    return buffer.getvalue()


def read_files(path: str, content: bytes, *names: str) -> tuple[bytes, list[bytes]]:
    """Separates a TFLite file from the files that it contains.

    ZIP checks their checksums.

    Args:
        path: The path of the TFLite file, for messages.
        content: Its content.
        *names: The names of files.

    Returns:
        The model, that is, the bytes before the archive, and the content of each file.

    Raises:
        InputError: The file is damaged, or bert-tf did not write it.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            size = min(each.header_offset for each in archive.infolist())
            return content[:size], [archive.read(name) for name in names]
    except (zipfile.BadZipFile, LookupError, ValueError, EOFError, OSError) as error:
        raise InputError(
            f"{path} contains no {names[0]}: it is not a TFLite file of bert-tf, or it "
            "is damaged. Export the model again with --format=tflite."
        ) from error


def open_file(path: str, content: bytes, num_threads: int) -> OpenFile:
    """Reads what is in a TFLite file of bert-tf; see `model_file`.

    Raises:
        InputError: The file is damaged, or bert-tf did not write it.
    """
    model, texts = read_files(path, content, *STORED_TEXTS)
    forward = functools.partial(LiteForward, path, content, num_threads)
    return OpenFile(texts, files.sha256(model), forward)


def run_file(
    path: str, content: bytes, num_threads: int, outputs_of_tokens: bool
) -> FileForward:
    """Returns what runs a TFLite file; see `LiteForward`."""
    return LiteForward(path, content, num_threads, outputs_of_tokens)
