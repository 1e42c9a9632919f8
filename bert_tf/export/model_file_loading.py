"""`load_file`: a served model whose outputs a TFLite or ONNX file computes."""

import os
import types
from typing import Any

import numpy as np

from bert_tf.config import BertConfig
from bert_tf.conversion import CheckpointContents
from bert_tf.errors import InputError
from bert_tf.export.formats import check_installed, format_of_file, module_of
from bert_tf.export.model_file import FACTS_FILE, FileFacts, FileForward, OpenFile
from bert_tf.export.served import ServedModel, load_served
from bert_tf.export.settings import ServingSettings
from bert_tf.pretrained import Pretrained
from bert_tf.storage import files, json_files


class _Checkpoint(Pretrained):
    """The contents of a file in the form of a checkpoint, without its weights."""

    def model(self, model_class: Any, **arguments: Any) -> Any:
        """Returns what a served model needs of the Keras model, without variables."""
        found = {"next_sentence": False, "num_labels": None, **arguments}
        return types.SimpleNamespace(
            config=self.config, variables_by_name=dict, **found
        )


def forward_of(path: str, num_threads: int, outputs_of_tokens: bool) -> FileForward:
    """Returns what runs a file.

    Args:
        path: The file.
        num_threads: The number of threads.
        outputs_of_tokens: Whether the outputs have one value for each token.

    Raises:
        InputError: The file is missing or damaged, or the package that runs it is not
            installed.
    """
    module, content = _module_and_content(path)
    forward: FileForward = module.run_file(
        path, content, num_threads, outputs_of_tokens
    )
    return forward


def load_file(
    path: str, num_threads: int | None = None
) -> tuple[ServedModel, dict[str, Any]]:
    """Loads a TFLite or ONNX file.

    Tokenizer and decoding are those of SavedModels, in TensorFlow; the file computes
    the rest.

    Args:
        path: The file, whose ending is the name of its format.
        num_threads: The number of threads. Default: the number of cores of this
            process.

    Returns:
        The served model, and the facts of the model.

    Raises:
        InputError: The file is missing or damaged, bert-tf or this version of it did
            not write it, or the package that runs it is not installed.
    """
    module, content = _module_and_content(path)
    opened: OpenFile = module.open_file(path, content, num_threads or num_cores())
    stored, served = _served_model(path, *opened.texts)

    # The program that runs the model may not find all damage, and may end the process.
    if opened.model_sha256 != stored.model_sha256:
        raise InputError(
            f"{path} is damaged: its model has another SHA-256 than {FACTS_FILE} in it "
            "states. Export the model again."
        )

    forward = opened.forward(served.outputs_of_tokens)
    served.replace_forward(forward, takes_texts=stored.takes_texts)
    return served, dict(stored.facts)


def _module_and_content(path: str) -> tuple[Any, bytes]:
    """Returns the module of the format of a file, and the content of the file."""
    content, name = files.read_bytes(path), format_of_file(path)
    check_installed(name)
    return module_of(name), content


def _served_model(
    path: str, facts_file: bytes, vocabulary: bytes
) -> tuple[FileFacts, ServedModel]:
    """Returns the facts in a file, and its served model without a function of ids.

    Raises:
        InputError: Another version of bert-tf wrote the file.
    """
    try:
        stored = FileFacts(**json_files.parse(facts_file.decode(), path))
        config = BertConfig.from_dict(dict(stored.config))
        contents = CheckpointContents(
            source=path,
            dialect="bert-tf",
            arrays={name: np.zeros(0, np.float32) for name in stored.heads},
            config=config,
            vocabulary=vocabulary.decode().split("\n")[:-1],
            do_lower_case=stored.do_lower_case,
            extra=stored.facts,
        )
        settings = ServingSettings(**stored.settings)
        return stored, load_served(_Checkpoint(config, contents), settings)
    except (TypeError, LookupError) as error:
        raise InputError(
            f"{path} was written by another version of bert-tf, which stored other "
            f"facts: {error}. Export the model again."
        ) from error


def num_cores() -> int:
    """Returns the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
