"""Model files, in TFLite or ONNX: their content, and served models that run them.

Each of these formats has a module (`formats.FORMATS`) with two functions:

* `prepare(job)` checks an `ExportJob`, and returns `PreparedFiles`.
* `open_file(path, content, num_threads, runtime)` checks a file, and returns an
  `OpenFile`. The runtime, one of `formats.RUNTIMES`, has an effect on ONNX files only.
"""

import abc
import dataclasses
import json
import os
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.conversion import CheckpointContents
from bert_tf.errors import InputError
from bert_tf.export.assets import text_files
from bert_tf.export.formats import check_installed, format_of_file, module_of
from bert_tf.export.job import ExportJob
from bert_tf.export.served import ServedModel, load_served
from bert_tf.export.serving_settings import ServingSettings
from bert_tf.modeling.inputs import POSITIONS
from bert_tf.pretrained import Pretrained
from bert_tf.storage import files, integrity, json_files
from bert_tf.storage.weights import VOCABULARY_FILE

FACTS_FILE = "bert_tf.json"
# The names of the texts in each file from which the served model is built.
STORED_TEXTS = (FACTS_FILE, VOCABULARY_FILE)
IDS = "input_ids"
# The inputs or the outputs of a file, by name.
Arrays = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class ModelFile:
    """A TFLite or ONNX file of an export, whose weights have the dtype `precision`.

    The inputs are texts if `takes_texts`, otherwise token ids. `has_metadata` says
    whether the file has metadata for MediaPipe. `runtime` is in `formats.RUNTIMES`.
    """

    precision: str
    takes_texts: bool = False
    has_metadata: bool = False
    path: str = ""
    runtime: str = "auto"

    @property
    def name(self) -> str:
        """The name of the file without the ending."""
        return f"{self.precision}{'_text' if self.takes_texts else ''}"


@dataclasses.dataclass(frozen=True)
class FileFacts:
    """The content of `bert_tf.json` in a TFLite or ONNX file.

    Attributes:
        config: The architecture, as in `bert_config.json`.
        heads: The names of the weights outside of the encoder.
        model_sha256: The SHA-256 of a TFLite file without its ZIP archive; "" for ONNX.
        facts_sha256: The SHA-256 of all other values. Only earlier versions check it.
    """

    config: Mapping[str, Any]
    facts: Mapping[str, Any]
    settings: Mapping[str, Any]
    heads: Sequence[str]
    do_lower_case: bool
    takes_texts: bool = False
    model_sha256: str = ""
    facts_sha256: str = ""


def embedded_files(
    job: ExportJob, served: ServedModel, **facts: Any
) -> dict[str, bytes]:
    """Returns the texts to embed in a model file, by name: vocabulary, labels and facts.

    `facts` are the fields of `FileFacts` that differ between the files of an export.
    """
    checkpoint = job.checkpoint
    settings = dataclasses.replace(
        job.settings, precision="float32", max_seq_length=served.max_seq_length
    )
    values = dataclasses.asdict(settings)
    if settings.dimensions is None:  # so that files without it keep their bytes
        del values["dimensions"]
    stored = FileFacts(
        config=checkpoint.config.to_dict(),
        facts=job.facts,
        settings=values,
        heads=sorted(
            name for name in checkpoint.weights if not name.startswith("bert/")
        ),
        do_lower_case=served.tokenizer.do_lower_case,
        **facts,
    )
    sealed = integrity.seal(dataclasses.asdict(stored))
    content = json.dumps(sealed, indent=2, sort_keys=True).encode()
    return {**text_files(job), FACTS_FILE: content}


class PreparedFiles(NamedTuple):
    """The files of an export in one format, before they are written.

    Attributes:
        served: The model in memory, with float32 weights.
        content: Converts the model to one of the files, and returns its content.
        length: The fixed number of tokens of all sequences; None if it may vary.
        other_run: For a file that is checked in a second runtime too, returns the file
            with this runtime, and a title of the runtime; otherwise None.
        extra: The contents of further files for the folder `layout.EXTRA`, by name.
    """

    served: ServedModel
    files: Sequence[ModelFile]
    content: Callable[[ModelFile], bytes]
    length: int | None = None
    other_run: Callable[[ModelFile], tuple[ModelFile, str] | None] = lambda _: None
    extra: Mapping[str, bytes] = {}


class OpenFile(NamedTuple):
    """A model file that has been read, but does not run yet.

    Attributes:
        texts: The content of each of `STORED_TEXTS`.
        model_sha256: The SHA-256 of the model in the file; "" for ONNX.
        forward: Prepares the model to run, and returns its `FileForward`.
    """

    texts: Sequence[bytes]
    model_sha256: str
    forward: "Callable[[], FileForward]"


class FileForward(abc.ABC):
    """Runs a model file on batches. Several threads can call it at the same time.

    A call takes the inputs of the file, tensors [B, ...] by name, and returns its
    outputs, float32 [B, ...] by name. `ranks` has the rank of each output.
    """

    def __init__(self, inputs: Collection[str], ranks: Mapping[str, int]) -> None:
        self._inputs = inputs
        self._ranks = ranks

    def __call__(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the outputs for a batch; see the docstring of the class."""
        names = [name for name in self._inputs if name in inputs]
        values = tf.numpy_function(
            lambda *arrays: self.run(dict(zip(names, arrays, strict=True))),
            [inputs[name] for name in names],
            [tf.float32] * len(self._ranks),
        )
        # A single output may be a tensor instead of a list.
        outputs = dict(zip(self._ranks, tf.nest.flatten(values), strict=True))
        for name, value in outputs.items():
            value.set_shape([None] * self._ranks[name])
        return outputs

    def run(self, batch: Arrays) -> list[np.ndarray]:
        """Returns the outputs for a batch of NumPy arrays, in the order of `ranks`."""
        rows = len(next(iter(batch.values())))
        if POSITIONS in self._inputs and POSITIONS not in batch:  # all positions
            positions = np.arange(batch[IDS].shape[1], dtype=np.int32)
            batch = {**batch, POSITIONS: np.tile(positions, (rows, 1))}

        # A file cannot run on zero rows or zero positions. It then runs on one of them,
        # and the outputs of this one are removed.
        has_positions = POSITIONS not in batch or batch[POSITIONS].shape[1] > 0
        if not has_positions:
            batch = {**batch, POSITIONS: np.zeros([rows, 1], np.int32)}
        if not rows:
            batch = {name: _one_row(array) for name, array in batch.items()}

        results = self._run_rows(batch)
        outputs = [results[name][:rows] for name in self._ranks]
        if has_positions:
            return outputs
        return [array[:, :0] if array.ndim == 3 else array for array in outputs]

    @abc.abstractmethod
    def _run_rows(self, batch: Arrays) -> Arrays:
        """Returns the outputs of a batch with at least one row and one position."""


def _one_row(array: np.ndarray) -> np.ndarray:
    """Returns an array with one row of padding in place of an array without rows, [0, ...]."""
    padding = b"" if array.dtype == object else 0
    return np.full([1, *array.shape[1:]], padding, array.dtype)


class _Checkpoint(Pretrained):
    """The config, vocabulary and facts in a model file, as a checkpoint without weights."""

    def model(self, model_class: Any, **arguments: Any) -> Any:
        """Returns an object that replaces the Keras model: it has a config but no variables."""
        return types.SimpleNamespace(
            config=self.config, variables_by_name=dict, **arguments
        )


def open_file(path: str, num_threads: int, runtime: str) -> OpenFile:
    """Opens a TFLite or ONNX file with the module of its format, which its ending names."""
    content = files.read_bytes(path)
    name = format_of_file(path)
    check_installed(name)
    return module_of(name).open_file(path, content, num_threads, runtime)


def load_file(
    path: str, num_threads: int | None = None, runtime: str = "auto"
) -> tuple[ServedModel, dict[str, Any]]:
    """Loads a TFLite or ONNX file; returns its served model and its facts.

    TensorFlow tokenizes texts and decodes outputs, as in a SavedModel. The file computes
    the outputs of the model, by default with as many threads as this process has cores.

    Raises:
        InputError: The file is missing or damaged, another program or an incompatible
            version of bert-tf wrote it, or a package that runs it is not installed.
    """
    if num_threads is None and hasattr(os, "sched_getaffinity"):  # not on macOS
        num_threads = len(os.sched_getaffinity(0))
    opened = open_file(path, num_threads or os.cpu_count() or 1, runtime)
    stored, served = _served_model(path, *opened.texts)

    # The runtime does not find all damage of a model, and may end the process.
    if opened.model_sha256 != stored.model_sha256:
        raise InputError(
            f"{path} is damaged: its model has another SHA-256 than {FACTS_FILE} in it "
            "states. Export the model again."
        )

    served.replace_forward(opened.forward(), takes_texts=stored.takes_texts)
    return served, dict(stored.facts)


def _served_model(
    path: str, facts_file: bytes, vocabulary: bytes
) -> tuple[FileFacts, ServedModel]:
    """Returns the facts in a file, and its served model, which cannot run yet.

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
            facts=stored.facts,
        )
        settings = ServingSettings(**stored.settings)
        return stored, load_served(_Checkpoint(config, contents), settings)
    except (TypeError, LookupError) as error:
        raise InputError(
            f"{path} was written by another version of bert-tf, which stored other "
            f"facts: {error}. Export the model again."
        ) from error
