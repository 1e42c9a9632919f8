"""`Predictor`: predictions of an exported model, for lists of texts of any length.

A program that predicts with a SavedModel needs no Keras.
"""

import functools
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers operations of the SavedModel)

from bert_tf.errors import InputError, Path, check_choice, plain_message
from bert_tf.export import text_limit
from bert_tf.export.formats import RUNTIMES, format_of_file
from bert_tf.export.layout import newest_version
from bert_tf.export.output_decoding import Prediction, decode
from bert_tf.export.saved_model_loading import load_saved_model
from bert_tf.storage.paths import check_no_file_scheme

_LOGGER = logging.getLogger(__name__)
# The positions of inputs that are not in alphabetical order.
_ORDER = {"question": 0, "context": 1, "choices": 2}
# The outputs with one value for each text of a list.
_LIST_OUTPUTS = ("probabilities", "ranking", "tags")
# The id of the process that loaded the first model. Forked processes inherit this value.
_process_of_models: list[int] = []


class Predictor:
    """An exported model in memory. Several threads can call it at the same time.

    Example:
        predictor = bert_tf.Predictor("served")
        predictor(["A wonder.", "A bore."])  # [{"label": "positive", ...}, {...}]

    Args:
        path: The folder of an exported model, of which the highest version is loaded;
            the folder of one version; or a `.tflite` or `.onnx` file, which needs the
            extra "lite" or "onnx". On a CPU, a TFLite file with int8 weights is the
            fastest.
        batch_size: Texts per batch. Texts of similar length are in the same batch.
        signature: A signature of the model that takes texts, such as "score" of a
            pretrained model or "words" of a model of named entities.
        num_threads: The number of threads that compute a `.tflite` or `.onnx` file.
            Default: the number of cores.
        trust: Whether to load a SavedModel without a check of its graph and of its
            checksums. A SavedModel is a program; without the check, it may do anything
            that this process may do. See SECURITY.md.
        runtime: What computes an `.onnx` file: "onnxruntime" (also "auto"), or
            "openvino" (extra "openvino"), which computes in bfloat16 on processors with
            such instructions.

    Attributes:
        names: The names of the texts that a prediction needs, such as ("question",
            "context").
        max_seq_length: The largest number of tokens of a sequence. None if the folder
            has no report of the export.
        list_names: The names in `names` that stand for a list of texts: ("choices",)
            for multiple choice, ("words",) for the signature "words", else ().
        facts: What the export states of the model, such as its `labels`.
        version_folder: The folder of the version of the export. For a file that was
            copied alone, it is another folder, which may not exist.

    Call arguments:
        *texts: For each name in `names`, a list of N str, or a single str for one
            prediction. For each name in `list_names`, a list of N lists of str, or a
            list of str for one prediction. The lists may have different lengths.
        on_batch: A function that is called after each batch with the number of its
            texts, to show progress.

    Returns:
        For N texts, N dicts, in the order of the texts; for one prediction, one dict.
        Its keys are:

        * classification: `label`, `probability`, and `probabilities` by label, best
          first;
        * multi-label: `labels` (list of str) and `probabilities` by label, best first;
        * regression: `score`;
        * questions: `answer` (str), `start` and `end` (its positions in the context, in
          bytes of UTF-8; `end` is exclusive), `score`, `probability`, `no_answer`
          (bool) and, for SQuAD 2.0, `null_score_diff`;
        * multiple choice: `choice` (str), its `index` and `probability`, the
          `probabilities` of all choices (list), and their indices in `ranking` (list),
          best first. An empty text is no choice. Without choices, `choice` is "" and
          `index` is -1;
        * named entities: `entities`, a list of dicts with `text`, `type`, `start` and
          `end`; and lists with one value for each word: `words`, `tags`,
          `probabilities`, `start`, `end`. `start` and `end` are as for questions;
        * signature "words": `tags` and `probabilities`, lists with one value for each
          word;
        * fill-mask: `masks`, a list with a dict for each [MASK]: `probabilities` of the
          best tokens, by token;
        * signature "score": `score` and `num_tokens`; "next_sentence": `is_next`;
        * embedding: `embedding`, float32 [H].

        If the model truncates long texts, each dict also has `truncated` (bool):
        whether the text was truncated. Models of questions and named entities, and
        classifiers with windows, read texts of any length.

    Raises:
        InputError: The folder contains no exported model, or its files are damaged or
            contain what models of bert-tf do not need; the model has no such signature;
            the texts are not lists of str of the same length; the package that runs
            the file is not installed; the runtime is for other files; or the process
            was forked from one that had loaded a model.
    """

    def __init__(
        self,
        path: Path,
        batch_size: int = 32,
        signature: str = "serving_default",
        num_threads: int | None = None,
        trust: bool = False,
        runtime: str = "auto",
    ) -> None:
        path = os.fspath(path)
        check_no_file_scheme(path)
        check_choice(RUNTIMES, "runtime", runtime)
        file_format = format_of_file(path)
        if runtime != "auto" and file_format != "onnx":
            raise InputError(
                f"runtime={runtime} is for .onnx files. Received: {path}. Leave it out, "
                "or export the model with --format=onnx."
            )

        _check_is_not_forked()
        if file_format:
            # The folder of a version contains a folder for each format of files.
            absolute = path if "://" in path else os.path.abspath(path)
            self.version_folder = os.path.dirname(os.path.dirname(absolute))
            self._model, signatures, self.facts = _load_file(
                path, signature, num_threads, runtime
            )
        else:
            self.version_folder = newest_version(path)
            # The signatures do not keep the weights alive.
            self._model, self.facts = load_saved_model(self.version_folder, trust)
            signatures = self._model.signatures
        self._signature = _signature(signatures, signature, path)

        # How long the texts may be.
        outputs = self._signature.structured_outputs
        self._truncates = text_limit.reads_starts_only(self.facts, outputs)
        if file_format:
            served = self._model
            limit = served.max_seq_length, lambda: served.tokenizer
            self._ids = functools.cache(lambda: served.signatures("ids")["ids"])
        else:
            limit = text_limit.limit_of_saved_model(
                self.version_folder, self.facts, outputs
            )
            self._ids = functools.cache(lambda: signatures["ids"])
        self.max_seq_length, make_tokenizer = limit
        self._truncates &= self.max_seq_length is not None
        self._tokenizer = functools.cache(make_tokenizer)
        self._prompt = self.facts.get("embedding", {}).get("prompt", "").encode()
        _, inputs = self._signature.structured_input_signature
        self.names = tuple(sorted(inputs, key=lambda name: (_ORDER.get(name, 0), name)))
        self.list_names = tuple(
            name for name in self.names if inputs[name].shape.rank == 2
        )
        self._batch_size = batch_size

    def __call__(
        self, *texts: Any, on_batch: Callable[[int], Any] | None = None
    ) -> Any:
        """Returns the predictions for texts; see the docstring of the class."""
        _check_is_not_forked()
        # An empty list is a list of no texts, and not one text without words.
        is_one = all(map(self._is_one, self.names, texts))
        if texts and is_one and (isinstance(texts[0], str) or texts[0]):
            return self._predict([[value] for value in texts], on_batch)[0]
        return self._predict(texts, on_batch)

    def tag_probabilities(self, words: Sequence[str]) -> np.ndarray | None:
        """Returns the probability of each tag for each word of a text.

        The model must be one of named entities.

        Args:
            words: The words, as the value `words` of a prediction.

        Returns:
            float32 [W, tags], in the order of `facts["labels"]`; None if the words have
            more tokens than a sequence.
        """
        tokenizer = self._tokenizer()
        pieces = tokenizer.tokenize(list(words))
        inputs = tokenizer.pack(pieces.values[None], seq_length=None)
        if inputs["input_ids"].shape[1] > self.max_seq_length:
            return None
        (logits,) = self._ids()(**inputs)["logits"]
        first_pieces = 1 + pieces.row_starts()
        return tf.nn.softmax(tf.gather(logits, first_pieces)).numpy()

    def _is_one(self, name: str, value: Any) -> bool:
        """Returns whether the value of an input is meant for one prediction, not for several."""
        if name not in self.list_names:
            return isinstance(value, str)
        is_sequence = isinstance(value, (list, tuple))
        return is_sequence and all(isinstance(text, str) for text in value)

    def _predict(
        self, texts: Sequence[Sequence[str]], on_batch: Callable[[int], Any] | None
    ) -> list[Prediction]:
        """Returns N predictions, in order; `texts` has N values for each input of the model."""
        columns = self._columns(texts)
        # Each choice becomes a sequence; the words of a list become one sequence.
        of_list = sum if "words" in self.names else max
        lengths = np.array(
            [[_length(each, of_list) for each in c] for c in columns], int
        ).sum(0)
        order = np.argsort(lengths, kind="stable")
        predictions: dict[int, Prediction] = {}
        for start in range(0, len(order), self._batch_size):
            rows = order[start : start + self._batch_size].tolist()
            batch = [[column[row] for row in rows] for column in columns]
            tensors = dict(zip(self.names, map(_tensor, batch), strict=True))
            arrays = self._outputs(tensors)
            truncated = self._truncated(rows, lengths, columns)
            for number, row in enumerate(rows):
                values = {name: value[number] for name, value in arrays.items()}
                for name in self.list_names:
                    # The lists of a batch are padded to the longest one.
                    size = len(columns[self.names.index(name)][row])
                    values |= {
                        n: values[n][:size] for n in _LIST_OUTPUTS if n in values
                    }
                predictions[row] = decode(values, self.facts)
                if self._truncates:
                    predictions[row]["truncated"] = row in truncated
            if on_batch:
                on_batch(len(rows))

        answers = [each["masks"] for each in predictions.values() if "masks" in each]
        masks = sum(text.count(b"[MASK]") for text in columns[0]) if answers else 0
        if lost := masks - sum(map(len, answers)):
            _LOGGER.warning(
                "warning: %d of %d [MASK] have no prediction, because they are after "
                "the longest sequence of the model. Split the texts, or export with a "
                "larger max_seq_length.",
                lost,
                masks,
            )
        return [predictions[row] for row in range(len(order))]

    def _truncated(
        self, rows: Sequence[int], lengths: np.ndarray, columns: Sequence[Sequence[Any]]
    ) -> list[int]:
        """Returns those of `rows` that the model truncates; `lengths` are in bytes of UTF-8."""
        if not self._truncates:
            return []
        room = self.max_seq_length - 1 - len(columns)  # without [CLS] and [SEP]
        # A token has at least one byte, so most texts need no tokenizer.
        longer = [row for row in rows if lengths[row] + len(self._prompt) > room]
        if not longer:
            return []
        texts = [[column[row] for row in longer] for column in columns]
        if self._prompt:
            texts = [
                [self._prompt + text for text in column_texts] for column_texts in texts
            ]
        counts = text_limit.num_tokens(texts, self._tokenizer())
        return [row for row, count in zip(longer, counts, strict=True) if count > room]

    def _columns(self, texts: Sequence[Any]) -> list[list[Any]]:
        """Encodes texts as UTF-8; raises `InputError` if inputs are not lists of equal lengths."""
        # A str in place of a list would be read letter by letter.
        if not all(map(_is_list, texts)) or len(texts) != len(self.names):
            names = (
                f"{n} (a list of lists)" if n in self.list_names else n
                for n in self.names
            )
            raise InputError(
                f"The model takes a list of texts for each of {', '.join(names)}. "
                f"Received: {len(texts)} values of the types "
                f"{', '.join(type(value).__name__ for value in texts)}."
            )

        columns = [
            [_encoded(value, is_list=name in self.list_names) for value in column]
            for name, column in zip(self.names, texts, strict=True)
        ]
        if len({len(column) for column in columns}) > 1:
            raise InputError(
                f"{' and '.join(self.names)} must have the same number of texts. "
                f"Received: {' and '.join(str(len(column)) for column in columns)}."
            )
        return columns

    def _outputs(self, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Runs the signature; raises `InputError` if this fails or an output is not finite."""
        try:
            outputs = self._signature(**inputs)
            arrays = {name: value.numpy() for name, value in outputs.items()}
        except tf.errors.OpError as error:
            reason = " ".join(plain_message(error).split())
            raise InputError(
                f"The model cannot compute these texts: {reason:.300}. Give a smaller "
                "batch_size or other texts. If no text works, export the model again."
            ) from error
        for name, array in arrays.items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise InputError(
                    f"The output {name} of the model has NaN or infinite values. The "
                    "training of the model has diverged, or its files are damaged. "
                    "Export an earlier checkpoint."
                )
        return arrays


def _check_is_not_forked() -> None:
    """Raises `InputError` if the process was forked from one that had loaded a model.

    TensorFlow would wait forever in such a process.
    """
    if not _process_of_models:
        _process_of_models.append(os.getpid())
    if _process_of_models != [os.getpid()]:
        raise InputError(
            f"The process {_process_of_models[0]} loaded a model and was then forked, "
            "and TensorFlow does not work in the new process. Load the model in each "
            "worker, after the fork: gunicorn without --preload, celery in "
            "worker_process_init, multiprocessing with the start method spawn."
        )


def _load_file(
    path: str, signature: str, num_threads: int | None, runtime: str
) -> tuple[Any, Mapping[str, Any], Mapping[str, Any]]:
    """Returns the served model of a file, its signatures, and its facts.

    If the model has the signature `signature`, only this one is traced and returned.
    """
    from bert_tf.export.model_file import load_file  # imports Keras

    served, facts = load_file(path, num_threads, runtime)
    # Tracing takes a second for each signature. If there is none, the message names the
    # others.
    endpoint = served.endpoints().get(signature)
    names = [signature] if endpoint and endpoint.kind == "texts" else []
    return served, served.signatures(*names), facts


def _signature(signatures: Mapping[str, Any], name: str, path: str) -> Any:
    """Returns the signature `name`; raises `InputError` if there is none that takes texts."""
    of_texts = [
        key
        for key, function in signatures.items()
        if {spec.dtype for spec in function.structured_input_signature[1].values()}
        == {tf.string}
        and "inputs" not in function.structured_input_signature[1]
    ]
    if name not in of_texts:
        raise InputError(
            f"{path} has no signature {name!r} that takes texts. It has: "
            f"{', '.join(sorted(of_texts))}."
        )
    return signatures[name]


def _encoded(value: Any, is_list: bool) -> Any:
    """Converts a text or the texts of a list to UTF-8."""
    if is_list:
        if not _is_list(value):
            raise InputError(
                f"The texts of a row must be a list of str. Received: {value!r:.60}."
            )
        return [_encoded(text, is_list=False) for text in value]
    if not isinstance(value, str):
        raise InputError(f"A text must be a str. Received: {value!r:.60}.")
    return value.encode("utf-8", "replace")  # a str can contain lone surrogates


def _is_list(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))


def _length(value: bytes | list[bytes], of_list: Callable[[list[int]], int]) -> int:
    """Returns the number of bytes of a text; `of_list` combines the numbers of several texts."""
    return len(value) if isinstance(value, bytes) else of_list([0, *map(len, value)])


def _tensor(column: Sequence[Any]) -> Any:
    """Returns B texts as string [B], or B lists as string [B, longest list], padded with ""."""
    if isinstance(column[0], bytes):
        return tf.constant(column, tf.string)
    return tf.ragged.constant(column, dtype=tf.string, ragged_rank=1).to_tensor()
