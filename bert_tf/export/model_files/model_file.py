"""`ModelFile` and `FileFacts`: a file of an export that contains a model, and what is in it."""

import dataclasses
from collections.abc import Mapping
from typing import Any

FACTS_FILE = "bert_tf.json"


@dataclasses.dataclass(frozen=True)
class ModelFile:
    """A TFLite or ONNX file of an export.

    Attributes:
        precision: The dtype of its weights.
        takes_texts: Whether its inputs are texts.
        has_metadata: Whether it has metadata for MediaPipe.
        path: Its path.
    """

    precision: str
    takes_texts: bool = False
    has_metadata: bool = False
    path: str = ""


@dataclasses.dataclass(frozen=True)
class FileFacts:
    """The content of `bert_tf.json` in a file.

    Attributes:
        config: The architecture, as in `bert_config.json`.
        facts: The facts of the checkpoint, such as `labels` and the SHA-256 of the
            vocabulary.
        settings: The settings of the export.
        heads: The names of the weights outside of the encoder.
        do_lower_case: Whether the tokenizer lower-cases text.
        takes_texts: Whether the inputs are texts.
        model_sha256: The SHA-256 of a TFLite model, without the archive.
        facts_sha256: The SHA-256 of the other values, which earlier versions check.
    """

    config: Mapping[str, Any]
    facts: Mapping[str, Any]
    settings: Mapping[str, Any]
    heads: tuple[str, ...]
    do_lower_case: bool
    takes_texts: bool = False
    model_sha256: str = ""
    facts_sha256: str = ""
