"""`Predictor`: predictions of an exported model, for lists of texts of any length.

A program that predicts with a SavedModel needs no Keras.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers operations of the SavedModel)

from bert_tf.errors import InputError, plain_message
from bert_tf.export.layout import newest_version
from bert_tf.export.saved_model_loading import explain_damage, load_saved_model
from bert_tf.file_checks import check_no_file_scheme

Prediction = dict[str, Any]
# The order of inputs that are not in alphabetical order.
_ORDER = ("question", "context", "choices")
# The outputs with one value for each word of a text, and for each entity.
_OF_WORDS = ("words", "tags", "probabilities", "start", "end")
_OF_ENTITIES = ("entities", "entity_types", "entity_start", "entity_end")
# The outputs with one value for each text of a list.
_LIST_OUTPUTS = ("probabilities", "ranking", "tags")
# The outputs that `decode` needs if there is the first one: the kind of their dtype, and a letter
# for each dimension: B is the batch and L the labels; the sizes with another letter are equal.
_FORMS = (
    {"tokens": "O BMK", "probabilities": "f BMK", "num_masks": "i B"},
    {"ranking": "i BK", "probabilities": "f BK", "choice": "O B", "index": "i B"},
    {"entities": "O BE", "entity_types": "O BE", "entity_start": "i BE", "entity_end": "i BE",
     "words": "O BW", "tags": "O BW", "probabilities": "f BW", "start": "i BW", "end": "i BW"},
    {"tags": "O BW", "probabilities": "f BW"},
    {"labels": "O B", "probabilities": "f BL"},
    {"label": "O B", "probabilities": "f BL"},
    {"answer": "O B", "start": "i B", "end": "i B", "score": "f B", "probability": "f B",
     "no_answer": "b B"},
    {"embedding": "f BH"},
    {"is_next": "f B"},
    {"score": "f B"},
)  # fmt: skip
_FURTHER = {"null_score_diff": "f B", "num_tokens": "i B"}


class Predictor:
    """An exported model in memory. Several threads can call it at the same time.

    Example:
        predictor = bert_tf.Predictor("served")
        predictor(["A wonder.", "A bore."])  # [{"label": "positive", "probability": 0.98, ...

    Args:
        path: The folder of an exported model, whose highest version is loaded, the folder of a
            version, or a `.tflite` file, for which ai-edge-litert must be installed. For single
            texts on a CPU, a TFLite file of int8 is the fastest one.
        batch_size: Texts per batch. Texts of similar length are in the same batch.
        signature: A signature of the model that takes texts, such as "score" of a pretrained model
            or "words" of a model of named entities.
        num_threads: Threads for the computation of a TFLite file. Default: the number of cores.
        trust: Whether to load a SavedModel without a check of its graph. A SavedModel is a program;
            without the check, it may do anything that this process may do. See SECURITY.md.

    Attributes:
        names: The names of the texts that a prediction needs, such as ("question", "context").
        list_names: Those of `names` that stand for a list of texts: ("choices",) for a model of
            multiple choice, else ().

    Call arguments:
        *texts: For each name in `names`, a list of N str, or a single str for one prediction. For
            each name in `list_names`, a list of N lists of str, or a list of str for one
            prediction. The lists may have different lengths.

    Returns:
        For N texts, N dicts, in the order of the texts; for one prediction, one dict. Its keys are:

        * classification: `label`, `probability`, and `probabilities` by label, best first;
        * multi-label: `labels` (list of str) and `probabilities` by label, best first;
        * regression: `score`;
        * questions: `answer` (str), `start` and `end` (its place in the context, in bytes of
          UTF-8), `score`, `probability`, `no_answer` (bool) and, for SQuAD 2.0, `null_score_diff`;
        * multiple choice: `choice` (str), its `index` and `probability`, the `probabilities` of all
          choices (list), and their indices in `ranking` (list), best first. An empty text is no
          choice. Without choices, `choice` is "" and `index` is -1;
        * named entities: `entities`, a list of dicts with `text`, `type`, `start` and `end`; and
          lists with one value for each word: `words`, `tags`, `probabilities`, `start`, `end`.
          The places are in bytes of UTF-8;
        * signature "words": `tags` and `probabilities`, a list each;
        * fill-mask: `masks`: for each [MASK], the `probabilities` of the best tokens by token;
        * signature "score": `score` and `num_tokens`; "next_sentence": `is_next`;
        * embedding: `embedding`, float32 [H].

    Raises:
        InputError: The folder contains no exported model, or its files are damaged or contain what
            models of bert-tf do not need; the model has no such signature; the texts are not lists
            of str of the same length; or ai-edge-litert is not installed.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        batch_size: int = 32,
        signature: str = "serving_default",
        num_threads: int | None = None,
        trust: bool = False,
    ) -> None:
        _check_count("batch_size", batch_size)
        if num_threads is not None:
            _check_count("num_threads", num_threads)
        if not isinstance(trust, bool):
            raise InputError(f"trust must be True or False. Received: {trust!r}.")
        path = str(os.fspath(path))
        check_no_file_scheme(path)
        with explain_damage(path):
            if path.endswith(".tflite"):
                self._model, signatures, self._facts = _load_lite(path, signature, num_threads)
            else:
                # The signatures do not keep the weights alive.
                self._model, self._facts = load_saved_model(newest_version(path), trust)
                signatures = self._model.signatures
            self._signature = _signature(signatures, signature, path)
            _, inputs = self._signature.structured_input_signature
            self.names = _in_order(inputs)
            self.list_names = tuple(name for name in self.names if inputs[name].shape.rank == 2)
        self._batch_size = batch_size

    def __call__(self, *texts: Any) -> Any:
        """Returns the predictions for texts; see the docstring of the class."""
        if not texts:
            return self._refuse(texts)
        # An empty list is a list of no texts, and not one text without words.
        is_one = all(map(self._is_one, self.names, texts))
        if is_one and (isinstance(texts[0], str) or texts[0]):
            return next(self._predict([[each] for each in texts]))
        return list(self._predict(texts))

    def _is_one(self, name: str, value: Any) -> bool:
        """Returns whether a value is the input of one prediction."""
        if name not in self.list_names:
            return isinstance(value, str)
        is_sequence = isinstance(value, (list, tuple))
        return is_sequence and all(isinstance(text, str) for text in value)

    def _predict(self, texts: Sequence[Sequence[str]]) -> Iterator[Prediction]:
        """Yields the predictions in the order of the texts."""
        if not all(map(_is_list, texts)) or len(texts) != len(self.names):
            self._refuse(texts)
        columns = [
            [_encoded_list(each) if name in self.list_names else _encoded(each) for each in column]
            for name, column in zip(self.names, texts, strict=True)
        ]
        if len({len(column) for column in columns}) > 1:
            raise InputError(
                f"{' and '.join(self.names)} must have the same number of texts. Received: "
                f"{' and '.join(str(len(column)) for column in columns)}."
            )
        # Choices become a sequence each, and the words of a list one sequence.
        of_list = sum if "words" in self.names else max
        lengths = np.array([[_length(each, of_list) for each in c] for c in columns], int).sum(0)
        order = np.argsort(lengths, kind="stable")
        found: dict[int, Prediction] = {}
        for start in range(0, len(order), self._batch_size):
            rows = order[start : start + self._batch_size].tolist()
            batch = [_tensor([column[row] for row in rows]) for column in columns]
            arrays = self._outputs(dict(zip(self.names, batch, strict=True)), len(rows))
            for number, row in enumerate(rows):
                values = {name: value[number] for name, value in arrays.items()}
                is_of_list = "ranking" in values or "tags" in values
                for name in self.list_names if is_of_list else ():
                    # The lists of a batch are padded to the longest one.
                    size = len(columns[self.names.index(name)][row])
                    values |= {n: values[n][:size] for n in _LIST_OUTPUTS if n in values}
                found[row] = decode(values, self._facts)
        return (found[row] for row in range(len(order)))

    def _outputs(self, inputs: Mapping[str, Any], rows: int) -> dict[str, np.ndarray]:
        """Returns the outputs that `decode` needs."""
        try:
            outputs = self._signature(**inputs)
            arrays = {name: value.numpy() for name, value in outputs.items()}
        except tf.errors.OpError as error:
            reason = " ".join(plain_message(error).split())
            raise InputError(
                f"The model cannot compute these texts: {reason:.300}. Give a smaller batch_size "
                "or other texts. If no text works, export the model again."
            ) from error
        return _checked(arrays, rows, len(self._facts.get("labels") or []))

    def _refuse(self, texts: Sequence[Any]) -> Any:
        names = (f"{n} (a list of lists)" if n in self.list_names else n for n in self.names)
        raise InputError(
            f"The model takes a list of texts for each of {', '.join(names)}. Received: "
            f"{len(texts)} values of the types {', '.join(type(each).__name__ for each in texts)}."
        )


def _check_count(name: str, value: Any) -> None:
    is_number = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not (is_number and value >= 1):
        raise InputError(f"{name} must be a whole number from 1. Received: {value!r}.")


def _checked(
    arrays: Mapping[str, np.ndarray], num_rows: int, num_labels: int
) -> dict[str, np.ndarray]:
    """Returns those of the outputs of a signature that `decode` needs.

    Raises:
        InputError: One of them is missing, is not finite, or has another dtype or shape.
    """
    form = next((each for each in _FORMS if next(iter(each)) in arrays), {"score": "f B"})
    form = form | {name: _FURTHER[name] for name in _FURTHER.keys() & arrays.keys()}
    sizes = {"B": num_rows, "L": num_labels}
    for name, each in form.items():
        kind, letters = each.split()
        array = np.asarray(arrays.get(name))
        is_valid = array.dtype.kind == kind and array.ndim == len(letters)
        pairs = zip(letters, array.shape, strict=False)
        if kind == "f" and is_valid and not np.isfinite(array).all():
            raise InputError(
                f"The output {name} of the model has NaN or infinite values. The training of the "
                "model has diverged, or its files are damaged. Export an earlier checkpoint."
            )
        if not is_valid or any(sizes.setdefault(*pair) != pair[1] for pair in pairs):
            raise InputError(
                f"The model has no output {name} of a model of bert-tf. Its outputs are "
                f"{', '.join(f'{n} {v.dtype}{list(v.shape)}' for n, v in arrays.items()):.300}, "
                f"and it has {num_labels} labels. Export the model again."
            )
    return {name: arrays[name] for name in form}


def decode(outputs: Mapping[str, Any], facts: Mapping[str, Any]) -> Prediction:
    """Converts the outputs of `serving_default` for one request to Python values.

    Args:
        outputs: The output arrays without the batch dimension, by name.
        facts: The facts of the model, with `labels` and `threshold` if it has labels.
    """
    if "tokens" in outputs:
        pairs = list(zip(outputs["tokens"], outputs["probabilities"], strict=True))
        masks = [_by_name(*pair) for pair in pairs[: int(outputs["num_masks"])]]
        return {"masks": [{"probabilities": each} for each in masks]}
    if "ranking" in outputs:
        return _of_choices(outputs)
    if "entities" in outputs:
        return _of_words(outputs)
    if "tags" in outputs:
        return {name: list(map(_plain, values)) for name, values in outputs.items()}
    if "probabilities" not in outputs:
        return {name: _plain(value) for name, value in outputs.items()}
    values, labels = outputs["probabilities"], facts["labels"]
    order = np.argsort(-values, kind="stable")
    probabilities = {labels[index]: float(values[index]) for index in order.tolist()}
    if "labels" in outputs:
        # The output joins the labels by commas, and a label may contain a comma.
        threshold = facts.get("threshold")
        reached = values >= (np.nan if threshold is None else threshold)
        chosen = [label for label, is_in in zip(labels, reached, strict=True) if is_in]
        _check_facts(",".join(chosen), outputs["labels"])
        return {"labels": chosen, "probabilities": probabilities}
    label = labels[int(order[0])]
    _check_facts(label, outputs["label"])
    return {"label": label, "probability": probabilities[label], "probabilities": probabilities}


def _check_facts(computed: str, output: bytes) -> None:
    """Checks the labels and the threshold of the facts with an output of the graph."""
    if computed.encode("utf-8", "replace") != output:
        raise InputError(
            f"The labels or the threshold in weights.json were changed after the export: the model "
            f"returns {output.decode('utf-8', 'replace')!r:.60}, and they give {computed!r:.60}. "
            "Export the model again."
        )


def _load_lite(
    path: str, signature: str, num_threads: int | None
) -> tuple[Any, Mapping[str, Any], Mapping[str, Any]]:
    """Returns the served model of a TFLite file, one or all of its signatures, and its facts."""
    from bert_tf.export.lite.load import load_lite  # imports Keras

    served, facts = load_lite(path, num_threads)
    # Tracing takes a second for each signature. If there is none, the message names the others.
    of_texts = {name for name, each in served.endpoints().items() if each.kind == "texts"}
    return served, served.signatures(*({signature} & of_texts)), facts


def _signature(signatures: Mapping[str, Any], name: str, path: str) -> Any:
    """Returns a signature of an exported model.

    Raises:
        InputError: There is no such signature, or it does not take texts.
    """
    of_texts = [
        each for each, function in signatures.items()
        if {spec.dtype for spec in function.structured_input_signature[1].values()} == {tf.string}
        and "inputs" not in function.structured_input_signature[1]
    ]  # fmt: skip
    if name not in of_texts:
        raise InputError(
            f"{path} has no signature {name!r} that takes texts. It has: "
            f"{', '.join(sorted(of_texts))}."
        )
    return signatures[name]


def _of_words(outputs: Mapping[str, Any]) -> Prediction:
    """Returns the prediction of a model of named entities, without padding."""
    lists = {
        name: [_plain(value) for value in values[: np.count_nonzero(outputs[key] != b"")]]
        for key, names in (("words", _OF_WORDS), ("entities", _OF_ENTITIES))
        for name, values in ((name, outputs[name]) for name in names)
    }
    entities = zip(*(lists.pop(name) for name in _OF_ENTITIES), strict=True)
    found = [dict(zip(("text", "type", "start", "end"), each, strict=True)) for each in entities]
    return {"entities": found, **lists}


def _of_choices(outputs: Mapping[str, Any]) -> Prediction:
    """Returns the prediction of a model of multiple choice."""
    index, probabilities = int(outputs["index"]), outputs["probabilities"].tolist()
    return {
        "choice": _plain(outputs["choice"]),
        "index": index,
        "probability": probabilities[index] if 0 <= index < len(probabilities) else 0.0,
        "probabilities": probabilities,
        "ranking": outputs["ranking"].tolist(),
    }


def _by_name(tokens: Any, probabilities: Any) -> dict[str, float]:
    return {_plain(token): float(value) for token, value in zip(tokens, probabilities, strict=True)}


def _plain(value: Any) -> Any:
    """Converts one value of a NumPy array to a value of Python; leaves vectors as they are."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value.item() if np.ndim(value) == 0 else value


def _encoded(text: Any) -> bytes:
    if not isinstance(text, str):
        raise InputError(f"A text must be a str. Received: {text!r:.60}.")
    return text.encode("utf-8", "replace")  # a str can contain lone surrogates


def _encoded_list(texts: Any) -> list[bytes]:
    if not _is_list(texts):
        raise InputError(f"The texts of a row must be a list of str. Received: {texts!r:.60}.")
    return [_encoded(text) for text in texts]


def _is_list(value: Any) -> bool:
    is_scalar = isinstance(value, np.ndarray) and value.ndim == 0
    is_scalar = is_scalar or isinstance(value, (str, bytes, Mapping))
    return isinstance(value, Iterable) and not is_scalar


def _length(value: bytes | list[bytes], of_list: Callable[[list[int]], int]) -> int:
    """Returns the number of bytes of a text, or a sum or maximum of those of a list."""
    return len(value) if isinstance(value, bytes) else of_list([0, *map(len, value)])


def _tensor(column: Sequence[Any]) -> Any:
    """Returns texts as string [B]; lists as string [B, K], padded with ""."""
    if isinstance(column[0], bytes):
        return tf.constant(column, tf.string)
    return tf.ragged.constant(column, dtype=tf.string, ragged_rank=1).to_tensor()


def _in_order(inputs: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the names of the inputs in their natural order."""
    place = {name: number for number, name in enumerate(_ORDER)}
    return tuple(sorted(inputs, key=lambda name: (place.get(name, 0), name)))
