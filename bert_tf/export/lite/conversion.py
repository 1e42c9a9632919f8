"""TFLite files: converts served models, writes and reads files, and runs them.

A file ends with a ZIP archive of vocabulary, labels and facts, which TFLite ignores.
MediaPipe's tasks read vocabulary and labels from such an archive.
"""

import concurrent.futures
import contextlib
import dataclasses
import functools
import io
import logging
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.errors import InputError
from bert_tf.export.formats import as_export_check_error
from bert_tf.export.job import ExportJob
from bert_tf.export.lite import mediapipe_metadata
from bert_tf.export.model_file import (
    FACTS_FILE,
    IDS,
    STORED_TEXTS,
    Arrays,
    FileForward,
    ModelFile,
    OpenFile,
    PreparedFiles,
    embedded_files,
)
from bert_tf.export.served import ServedModel, load_served
from bert_tf.head_config import HeadConfig
from bert_tf.modeling.inputs import INPUT_NAMES, POSITIONS
from bert_tf.storage import files

_LOGGER = logging.getLogger(__name__)
# The date of all files in an archive, so that equal exports have equal bytes: the first
# one that ZIP can represent.
_DATE = (1980, 1, 1, 0, 0, 0)
# The outputs with a value for each token.
_OF_TOKENS = {"logits", "start_logits", "end_logits"}


def prepare(job: ExportJob) -> PreparedFiles:
    """Reads everything that TFLite files need, before anything is written.

    There is one file for each precision and, with `tflite_text_input`, another one that
    takes texts. Raises `InputError` if TFLite lacks a part of the model, such as LSTMs.
    """
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
    if settings.tflite_text_input and not served.file_takes_texts:
        raise InputError(
            f"A TFLite file for the task {job.task} cannot take texts, because TFLite "
            "lacks the operations, also those of long_texts=windows. Leave out "
            "tflite_text_input; the file takes token ids."
        )
    if settings.tflite_text_input and _may_join_words(served):
        raise InputError(
            f"The last word of the prompt {served.prompt!r} may continue in the text, "
            "which a TFLite file cannot represent. Leave out tflite_text_input, or give "
            "another prompt_name."
        )

    # A file for each precision, and each kind of inputs.
    has_metadata = _can_run_in_mediapipe(served)
    model_files = [
        ModelFile(precision, takes_texts, has_metadata and not takes_texts)
        for takes_texts in ([False, True] if settings.tflite_text_input else [False])
        for precision in dict.fromkeys(settings.tflite_precisions)
    ]
    content = functools.partial(_content, job, served)
    return PreparedFiles(served, model_files, content, length)


def _may_join_words(served: ServedModel) -> bool:
    """Returns whether the last word of the prompt may merge with the first word of a text."""
    texts = [f"{served.prompt}a", served.prompt, "a"]
    together, prompt, text = served.tokenizer.words(texts).to_list()
    return bool(together != prompt + text)


def _can_run_in_mediapipe(served: ServedModel) -> bool:
    """Returns whether the files get metadata for MediaPipe; if not, logs the reason."""
    if not served.runs_in_mediapipe:
        return False
    if not served.tokenizer.do_lower_case:
        reason = "MediaPipe lower-cases all texts, and the model is cased"
    elif served.prompt:
        reason = "MediaPipe puts no prompt before texts"
    elif not mediapipe_metadata.is_installed():
        reason = "mediapipe cannot be imported (pip install 'bert-tf[mediapipe]')"
    else:
        return True
    _LOGGER.info("The TFLite files have no metadata for MediaPipe: %s.", reason)
    return False


def _content(job: ExportJob, served: ServedModel, file: ModelFile) -> bytes:
    """Returns the content of a file: the converted model with vocabulary, labels and facts."""
    model = convert(served, file, job.settings.tflite_length)
    if file.has_metadata:
        has_labels = bool(job.checkpoint.facts.get("labels"))
        model = mediapipe_metadata.with_metadata(model, has_labels)
    embedded = embedded_files(
        job, served, takes_texts=file.takes_texts, model_sha256=files.sha256(model)
    )
    return with_files(model, embedded)


def convert(served: ServedModel, file: ModelFile, length: int | None) -> bytes:
    """Converts `served.forward`, which is float32, to a TFLite file for one sequence.

    The batch size is 1, because TFLite computed wrong masked-LM logits for some larger
    batches, without an error. The inputs are texts, string [1], or `input_ids`,
    `input_mask` and `segment_ids`, int32 [1, S tokens], and, for a masked LM,
    `masked_lm_positions`, int32 [1, P predicted tokens]. Without a `length`, S and P may
    have any value; otherwise S is `length`, and P is 1. The activations are float32; in
    an int8 file, matrix products quantize them while the model runs.
    """
    if file.takes_texts:
        specs = {
            name: tf.TensorSpec([1], tf.string, name=name) for name in served.text_names
        }
    else:
        specs = {
            name: tf.TensorSpec([1, length], tf.int32, name=name)
            for name in INPUT_NAMES
        }
        if served.takes_masks:
            positions = None if length is None else 1
            specs[POSITIONS] = tf.TensorSpec([1, positions], tf.int32, name=POSITIONS)

    def outputs(**inputs: Any) -> dict[str, Any]:
        if file.takes_texts:
            texts = [inputs[name] for name in served.text_names]
            inputs = _encoded(served, texts, length)
        elif file.has_metadata and length is None:
            inputs = _truncated(inputs, served.max_seq_length, served.tokenizer.sep_id)
        all_outputs = served.outputs(inputs)
        return {name: all_outputs[name] for name in served.file_outputs}

    function = tf.function(outputs, autograph=False).get_concrete_function(**specs)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], served)
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    converter.allow_custom_ops = file.takes_texts  # the operations of tensorflow_text
    if file.precision != "float32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if file.precision == "float16":
        converter.target_spec.supported_types = [tf.float16]
    with as_export_check_error("tflite"):
        return bytes(converter.convert())


def _encoded(
    served: ServedModel, texts: list[Any], length: int | None
) -> dict[str, Any]:
    """Returns the inputs of the model, int32 [1, S], for texts, string [1] each.

    The ids equal those of `BertTokenizer.encode`, except for texts that
    `tokenize_in_lite` splits differently.
    """
    ids = [served.tokenizer.tokenize_in_lite(each) for each in texts]
    if served.prompt:
        ids = [_after_prompt(served, each) for each in ids]
    limit = served.max_seq_length  # `length`, if there is one
    packed = served.tokenizer.pack(
        *ids, seq_length=limit, trim_to_longest=length is None
    )
    # TFLite does not know that there is one row.
    return {
        name: tf.reshape(value, [1, length or -1]) for name, value in packed.items()
    }


def _after_prompt(served: ServedModel, ids: Any) -> Any:
    """Puts the ids of the prompt before the ids of a text, ragged int32 [1, None]."""
    with tf.init_scope():  # the prompt is a constant of the file
        prompt = served.tokenizer.tokenize(served.prompt).numpy()
    values = tf.concat([prompt, ids.values], 0)
    splits = ids.row_splits + np.array([0, len(prompt)])
    return tf.RaggedTensor.from_row_splits(values, splits, validate=False)


def _truncated(inputs: dict[str, Any], limit: int, sep_id: int) -> dict[str, Any]:
    """Truncates a sequence that is too long for the model, like `BertTokenizer.encode`.

    MediaPipe does not truncate texts for a file without a fixed length.
    """
    is_too_long = tf.shape(inputs["input_ids"])[1] > limit
    cut = {name: value[:, :limit] for name, value in inputs.items()}
    position = tf.range(tf.shape(cut["input_ids"])[1])[tf.newaxis]
    is_last = is_too_long & (position == limit - 1)
    return {**cut, "input_ids": tf.where(is_last, sep_id, cut["input_ids"])}


def with_files(model: bytes, embedded: Mapping[str, bytes]) -> bytes:
    """Appends other files to a TFLite file, as an uncompressed ZIP archive."""
    buffer = io.BytesIO(model)
    with zipfile.ZipFile(buffer, "a") as archive:
        for name, content in embedded.items():
            archive.writestr(zipfile.ZipInfo(name, _DATE), content)
    return buffer.getvalue()


class LiteForward(FileForward):
    """Computes the outputs of a TFLite file for a batch.

    Each row of the batch is a separate run of the file. Padding at the end of a row is
    removed unless an output has a value for each token. A single row uses all threads;
    of several rows, each one uses one thread, with an interpreter of its own. Unused
    interpreters are kept for later rows.
    """

    def __init__(self, path: str, content: bytes, num_threads: int) -> None:
        # All interpreters load this content, because the file may be replaced while a
        # server runs.
        self._path = path
        self._content = content
        self._num_threads = num_threads
        # The unused interpreters by number of threads: 1 if a batch has several rows,
        # `num_threads` for a single row.
        self._free: dict[int, list[Any]] = {1: [], num_threads: []}
        with self._runner(num_threads) as runner:
            inputs, outputs = runner.get_input_details(), runner.get_output_details()
        super().__init__(
            inputs,
            {
                name: len(details["shape_signature"])
                for name, details in outputs.items()
            },
        )
        self._is_of_tokens = not _OF_TOKENS.isdisjoint(outputs)
        # The fixed number of tokens of all rows; -1 if it may vary.
        self._length = int(inputs[IDS]["shape_signature"][1]) if IDS in inputs else -1

    def _run_rows(self, batch: Arrays) -> Arrays:
        """Returns the outputs of a batch with at least one row."""
        count = len(next(iter(batch.values())))
        if count == 1:
            return self._run_row(batch, self._num_threads)
        rows = [
            {name: each[row : row + 1] for name, each in batch.items()}
            for row in range(count)
        ]
        with concurrent.futures.ThreadPoolExecutor(self._num_threads) as pool:
            outputs_of_rows = list(pool.map(self._run_row, rows, [1] * count))
        return {
            name: np.concatenate([each[name] for each in outputs_of_rows])
            for name in self._ranks
        }

    def _run_row(self, row: Arrays, num_threads: int) -> Arrays:
        """Returns the outputs of one row, [1, ...] each."""
        with self._runner(num_threads) as runner:
            if IDS not in row:
                return dict(runner(**row))
            length = row[IDS].shape[1]
            used = length if self._is_of_tokens else _num_tokens(row, length)
            inputs = {
                name: self._with_length(array, used)
                for name, array in row.items()
                if name != POSITIONS
            }
            if POSITIONS in row:
                return self._run_positions(runner, inputs, row[POSITIONS])
            outputs = dict(runner(**inputs))
        if self._is_of_tokens:
            outputs = {name: value[:, :length] for name, value in outputs.items()}
        return outputs

    def _run_positions(
        self, runner: Any, inputs: Arrays, positions: np.ndarray
    ) -> Arrays:
        """Returns the outputs of one row for the positions to predict, int32 [1, P]."""
        step = 1 if self._length > 0 else positions.shape[1]
        parts = [
            runner(**{**inputs, POSITIONS: positions[:, first : first + step]})
            for first in range(0, positions.shape[1], step)
        ]
        return {
            name: np.concatenate([part[name] for part in parts], axis=1)
            if value.ndim == 3
            else value
            for name, value in parts[0].items()
        }

    def _with_length(self, value: np.ndarray, used: int) -> np.ndarray:
        """Returns the first `used` tokens of a row, padded if the file has a fixed length."""
        value = value[:, :used]
        missing = self._length - value.shape[1]
        return np.pad(value, [(0, 0), (0, missing)]) if self._length > 0 else value

    @contextlib.contextmanager
    def _runner(self, num_threads: int) -> Iterator[Any]:
        """Yields the runner of an unused or new interpreter, and stores it for the next use."""
        free = self._free[num_threads]
        try:
            runner = free.pop()  # append and pop of a list are atomic
        except IndexError:
            runner = self._new_runner(num_threads)
        yield runner
        free.append(runner)

    def _new_runner(self, num_threads: int) -> Any:
        """Returns the signature runner of a new interpreter, with tensorflow_text's operations."""
        import tensorflow_text
        from ai_edge_litert.interpreter import InterpreterWithCustomOps

        try:
            interpreter = InterpreterWithCustomOps(
                custom_op_registerers=tensorflow_text.tflite_registrar.SELECT_TFTEXT_OPS,
                model_content=self._content,
                num_threads=num_threads,
            )
            return interpreter.get_signature_runner()
        except (ValueError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            raise InputError(
                f"{self._path} is not a file that LiteRT can run: {reason}"
            ) from error


def _num_tokens(row: Arrays, length: int) -> int:
    """Returns the length of a row without its padding; includes all positions to predict."""
    last = int(
        np.max(
            np.flatnonzero(row["input_mask"][0]), initial=np.max(row.get(POSITIONS, 0))
        )
    )
    return min(length, 1 + last)


def open_file(path: str, content: bytes, num_threads: int, _: str) -> OpenFile:
    """Opens a TFLite file of bert-tf; see `model_file`.

    Raises:
        InputError: The file is damaged (ZIP has checksums), or not a file of bert-tf.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            size = min(member.header_offset for member in archive.infolist())
            texts = [archive.read(name) for name in STORED_TEXTS]
    except (zipfile.BadZipFile, LookupError, ValueError, EOFError, OSError) as error:
        raise InputError(
            f"{path} contains no {FACTS_FILE}: it is not a TFLite file of bert-tf, or "
            "it is damaged. Export the model again with --format=tflite."
        ) from error
    forward = functools.partial(LiteForward, path, content, num_threads)
    return OpenFile(texts, files.sha256(content[:size]), forward)
