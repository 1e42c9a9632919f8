"""A TFLite or ONNX file: what is in it, and the base class of what runs it.

The module of a format (`formats.FORMATS`) has three functions, which differ only in the
format:

* `prepare(job)` checks an `ExportJob`, and returns `PreparedFiles`.
* `open_file(path, content, num_threads)` checks a file, and returns an `OpenFile`.
* `run_file(path, content, num_threads, outputs_of_tokens)` returns the `FileForward` of
  a file that needs no checks.
"""

import abc
import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.export.assets import text_files
from bert_tf.export.job import ExportJob
from bert_tf.export.served import ServedModel
from bert_tf.modeling.inputs import POSITIONS
from bert_tf.storage import sealed
from bert_tf.storage.weights import VOCABULARY_FILE

FACTS_FILE = "bert_tf.json"
# The texts in each file from which the served model is built.
STORED_TEXTS = (FACTS_FILE, VOCABULARY_FILE)
IDS = "input_ids"


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
    return {**text_files(job), FACTS_FILE: content}


class PreparedFiles(NamedTuple):
    """The files of an export in one format, before they are written.

    Attributes:
        served: The model with float32 weights.
        files: The files to write.
        write: Writes one of them to a folder, and returns it with its path.
        extra: Files for the folder `layout.EXTRA`, by name.
    """

    served: ServedModel
    files: Sequence[ModelFile]
    write: Callable[[str, ModelFile], ModelFile]
    extra: Mapping[str, bytes] = {}


class OpenFile(NamedTuple):
    """The content of a file, before its model runs.

    Attributes:
        texts: The content of each of `STORED_TEXTS`.
        model_sha256: The SHA-256 of the model, if the facts state it; else "".
        forward: Returns what runs the model; its argument is `outputs_of_tokens` of
            `FileForward`.
    """

    texts: Sequence[bytes]
    model_sha256: str
    forward: "Callable[[bool], FileForward]"


class FileForward(abc.ABC):
    """The outputs of a file for a batch. Several threads can call it at the same time.

    Args:
        inputs: The names of the inputs of the file.
        outputs: The shape of each output, by name; -1 for a size that is not fixed.
        outputs_of_tokens: Whether the outputs have one value for each token.

    Call arguments:
        inputs: Tensors [B, ...] of inputs of the file, by name.

    Returns:
        The outputs of the file, float32 [B, ...], by name.
    """

    def __init__(
        self,
        inputs: Sequence[str],
        outputs: Mapping[str, Sequence[int]],
        outputs_of_tokens: bool,
    ) -> None:
        self._inputs, self._outputs = tuple(inputs), dict(outputs)
        self._outputs_of_tokens = outputs_of_tokens

    def __call__(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the outputs for a batch; see the docstring of the class."""
        names = [name for name in self._inputs if name in inputs]
        values = tf.numpy_function(
            lambda *arrays: self.run(dict(zip(names, arrays, strict=True))),
            [inputs[name] for name in names],
            [tf.float32] * len(self._outputs),
        )
        values = tf.nest.flatten(
            values
        )  # a single output may be a tensor instead of a list
        for value, shape in zip(values, self._outputs.values(), strict=True):
            value.set_shape([None] * len(shape))
        return dict(zip(self._outputs, values, strict=True))

    def run(self, batch: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Returns the outputs of all rows, in the order of `outputs`."""
        rows = len(next(iter(batch.values())))
        if not rows:
            return [
                np.zeros(self._empty_shape(s, batch), np.float32)
                for s in self._outputs.values()
            ]
        if POSITIONS in self._inputs and POSITIONS not in batch:  # all positions
            positions = np.arange(batch[IDS].shape[1], dtype=np.int32)
            batch = {**batch, POSITIONS: np.tile(positions, (rows, 1))}
        if POSITIONS not in batch or batch[POSITIONS].shape[1]:
            found = self._run_rows(batch)
            return [found[name] for name in self._outputs]
        # Files cannot compute outputs for no position.
        found = self._run_rows({**batch, POSITIONS: np.zeros([rows, 1], np.int32)})
        return [
            found[n][:, :0] if len(s) == 3 else found[n]
            for n, s in self._outputs.items()
        ]

    @abc.abstractmethod
    def _run_rows(self, batch: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Returns the outputs of at least one row, and one position if it has any."""

    def _empty_shape(
        self, shape: Sequence[int], batch: Mapping[str, np.ndarray]
    ) -> list[int]:
        """Returns the shape of an output for a batch without rows."""
        rest = [abs(size) for size in shape[1:]]
        if self._outputs_of_tokens:
            rest[0] = batch[IDS].shape[1]
        return [0, *rest]
