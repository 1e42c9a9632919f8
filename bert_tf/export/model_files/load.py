"""`load_file`: a served model whose outputs a TFLite or ONNX file computes."""

from typing import Any

import numpy as np

from bert_tf import files, json_files
from bert_tf.config import BertConfig
from bert_tf.conversion import CheckpointContents
from bert_tf.errors import InputError
from bert_tf.export.lite.embedded_files import read_files
from bert_tf.export.lite.lite_forward import LiteForward
from bert_tf.export.model_files.file_forward import FileForward, num_cores
from bert_tf.export.model_files.model_file import FACTS_FILE, FileFacts
from bert_tf.export.onnx.onnx_forward import OnnxForward
from bert_tf.export.onnx.onnx_metadata import read_metadata
from bert_tf.export.served import ServedModel, load_served
from bert_tf.export.settings import ServingSettings
from bert_tf.pretrained import Pretrained
from bert_tf.weights import VOCABULARY_FILE


class _ModelOfFile:
    """Stands for the Keras model, which the file replaces, in a served model."""

    def __init__(
        self, config: BertConfig, next_sentence: bool = False, num_labels: int | None = None
    ) -> None:
        self.config, self.next_sentence, self.num_labels = config, next_sentence, num_labels

    def variables_by_name(self) -> dict[str, Any]:
        """Returns the variables that TensorFlow has: none."""
        return {}


class _Checkpoint(Pretrained):
    """The contents of a file in the form of a checkpoint, without its weights."""

    def model(self, model_class: Any, **arguments: Any) -> Any:
        """Returns what a served model needs to know about the Keras model."""
        next_sentence, num_labels = map(arguments.get, ("next_sentence", "num_labels"))
        return _ModelOfFile(self.config, bool(next_sentence), num_labels)


def forward_of(
    path: str, num_threads: int | None, outputs_of_tokens: bool, content: bytes | None = None
) -> FileForward:
    """Returns what runs a file.

    Args:
        path: The file.
        num_threads: The number of threads. Default: the number of cores of this process.
        outputs_of_tokens: Whether the outputs have one value for each token.
        content: The content of the file. Default: it is read.

    Raises:
        InputError: As those of `LiteForward` and `OnnxForward`.
    """
    content = files.read_bytes(path) if content is None else content
    run = OnnxForward if path.endswith(".onnx") else LiteForward
    return run(path, content, num_threads or num_cores(), outputs_of_tokens)


def load_file(path: str, num_threads: int | None = None) -> tuple[ServedModel, dict[str, Any]]:
    """Loads a TFLite or ONNX file.

    Tokenizer and decoding are those of SavedModels, in TensorFlow; the file computes the rest.

    Args:
        path: The file, which ends in .tflite or .onnx.
        num_threads: The number of threads. Default: the number of cores of this process.

    Returns:
        The served model, and the facts of the model.

    Raises:
        InputError: The file is missing or damaged, bert-tf or this version of it did not write it,
            or the package that runs it is not installed.
    """
    content = files.read_bytes(path)
    names, model = (FACTS_FILE, VOCABULARY_FILE), None
    if path.endswith(".onnx"):
        facts_file, vocabulary = read_metadata(path, content, *names)
    else:
        model, (facts_file, vocabulary) = read_files(path, content, *names)
    try:
        stored = FileFacts(**json_files.parse(facts_file.decode(), path))
        served = _served_model(path, stored, vocabulary.decode().split("\n")[:-1])
    except (TypeError, LookupError) as error:
        raise InputError(
            f"{path} was written by another version of bert-tf, which stored other facts: {error}. "
            "Export the model again."
        ) from error
    # LiteRT does not find all damage, and can end the process.
    if model is not None and files.sha256(model) != stored.model_sha256:
        raise InputError(
            f"{path} is damaged: its model has another SHA-256 than {FACTS_FILE} in it states. "
            "Export the model again."
        )
    forward = forward_of(path, num_threads, served.outputs_of_tokens, content)
    served.replace_forward(forward, takes_texts=stored.takes_texts)
    return served, dict(stored.facts)


def _served_model(path: str, stored: FileFacts, vocabulary: list[str]) -> ServedModel:
    """Returns the served model of a file, without a function of ids."""
    config = BertConfig.from_dict(dict(stored.config))
    contents = CheckpointContents(
        source=path,
        dialect="bert-tf",
        arrays={name: np.zeros(0, np.float32) for name in stored.heads},
        config=config,
        vocabulary=vocabulary,
        do_lower_case=stored.do_lower_case,
        extra=stored.facts,
    )
    return load_served(_Checkpoint(config, contents), ServingSettings(**stored.settings))
