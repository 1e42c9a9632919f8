"""`ServedModel`: the base class of the models that are exported, and their signatures."""

import abc
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from bert_tf.errors import InputError
from bert_tf.export.served.tensor_operations import (
    checked_ids,
    checked_lengths,
    in_parts,
)
from bert_tf.export.serving_settings import ServingSettings
from bert_tf.modeling import variables_by_name
from bert_tf.modeling.inputs import INPUT_NAMES
from bert_tf.pretrained import Pretrained
from bert_tf.tasks.task import DEFAULT_LENGTH, Outputs
from bert_tf.training.step.objective import Tensors

# The inputs and the correct output of each labelled example.
LabelledExamples = Iterator[tuple[tuple[Any, ...], Any]]
TensorFunction = Callable[..., Tensors]
# Functions of texts, with the names of their arguments, by signature name.
TextFunctions = dict[str, tuple[TensorFunction, tuple[str, ...]]]


class Endpoint(NamedTuple):
    """The function of a signature, whose arguments have the names of `inputs`.

    `kind` says what the inputs are: "texts", "ids" or "examples" (`tf.train.Example`).
    """

    function: TensorFunction
    inputs: Mapping[str, tf.TensorSpec]
    kind: str


class ServedModel(tf.Module, abc.ABC):
    """A tokenizer and a model in one graph.

    Each served model has these signatures, and may have more:

    * `serving_default`: the inputs are texts, string [B] each, whose names are
      `text_names`. Inputs in `list_names` have several texts for each request, string
      [B, K]. No content of the texts makes it fail. Bytes that are not valid UTF-8 are
      ignored.
    * `ids`: `input_ids`, `input_mask`, `segment_ids`, int32 [B, S] each.
    * `ids_lengths`: `input_ids` and `segment_ids`, int32 [B, S] each, and `lengths`,
      int32 [B], the number of tokens of each sequence; later tokens are ignored. This
      signature is for TensorFlow Serving with `pad_variable_length_inputs`, which pads
      each tensor with its first element, so that a mask would be padded with 1.

    `ids` and `ids_lengths` fail for the whole batch if one id in it is out of range.

    A subclass takes a checkpoint and the settings of the export. It raises `InputError`
    if the facts of the checkpoint do not match the model, or the model has fewer
    positions than the sequences need.

    Args:
        default_length: The largest number of tokens of a sequence if neither the
            settings nor the facts of the checkpoint state it.
        **arguments: Further arguments of `model_class`.

    Attributes:
        file_outputs: The outputs of `forward` that a TFLite or ONNX file has.
        labelled_signature: The signature whose outputs `metric` evaluates.
        prompt: The text that is put before each text.
        takes_masks: Whether [MASK] in a text stands for a token to predict.
        file_takes_texts: Whether a TFLite file can contain the tokenizer.
        runs_in_mediapipe: Whether a task of MediaPipe can run a TFLite file.
        pipeline_tag: The name of the task on the Hugging Face hub.
        head: Names of the weights of the head.
        own_settings: The fields of `ServingSettings` that have an effect for this task
            only.
        facts: The facts that the task needs, with their defaults.
    """

    file_outputs: tuple[str, ...]
    text_names: tuple[str, ...]
    list_names: tuple[str, ...] = ()
    prompt = ""
    takes_masks = False
    file_takes_texts = False
    runs_in_mediapipe = False
    labelled_signature = "serving_default"
    pipeline_tag: str
    head: tuple[str, ...] = ()
    own_settings: tuple[str, ...] = ()
    facts: Mapping[str, Any] = {}

    @classmethod
    def default_facts(cls, task: str, stated: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the facts that the task needs, with their defaults; None means no default."""
        return dict(cls.facts)

    def __init__(
        self,
        checkpoint: Pretrained,
        settings: ServingSettings,
        model_class: Any,
        default_length: int = DEFAULT_LENGTH,
        **arguments: Any,
    ) -> None:
        default = checkpoint.facts.get("max_seq_length", default_length)
        length = settings.sequence_length(checkpoint, default)
        model = checkpoint.model(model_class, dtype=settings.precision, **arguments)
        super().__init__()
        self.tokenizer = checkpoint.tokenizer
        self.max_seq_length = length
        # Only the weights are tracked. Of a tracked Keras model, TensorFlow would also
        # save a graph for each layer, which takes longer than everything else.
        self._get_model = lambda: model
        # All signatures call the same function, so the model is traced and saved once.
        self.replace_forward(
            tf.function(
                lambda each: self.forward(each), autograph=False, reduce_retracing=True
            )
        )
        self._weights = [
            variable.value for variable in variables_by_name(model).values()
        ]

    @property
    def model(self) -> Any:
        """The Keras model, without the tokenizer."""
        return self._get_model()

    @abc.abstractmethod
    def from_texts(self, *texts: Any) -> Tensors:
        """Returns the outputs of `serving_default`; the texts are in the order of `text_names`."""

    def from_ids(self, inputs: Tensors) -> Tensors:
        """Returns the outputs of the signature `ids` for its inputs, int32 [B, S] each."""
        return self.outputs(inputs)

    def from_examples(self) -> dict[str, TensorFunction]:
        """Returns the signatures that take a `tf.train.Example`: functions of texts, by name."""
        return {}

    def from_other_texts(self) -> TextFunctions:
        """Returns further signatures that take texts: functions and their inputs, by name."""
        return {}

    def encode(self, *texts: Any) -> Tensors:
        """Converts texts or pairs, string [B] each, to the inputs of the method `outputs`."""
        if self._takes_texts:
            return dict(zip(self.text_names, texts, strict=True))
        # Padding takes as much computation as text, so sequences are padded only to the
        # length of the longest sequence in the batch.
        inputs = self.tokenizer.encode(
            *texts, seq_length=self.max_seq_length, trim_to_longest=True
        )
        # The model needs at least one position, also for a batch without texts.
        missing = tf.cast(tf.shape(inputs["input_ids"])[0] == 0, tf.int32)
        return {
            name: tf.pad(value, [[0, 0], [0, missing]])
            for name, value in inputs.items()
        }

    def forward(self, inputs: Tensors) -> Tensors:
        """Runs the model without dropout. The outputs are float32."""
        outputs = self.model(dict(inputs), training=False)
        return {
            name: tf.cast(value, tf.float32)
            for name, value in outputs.items()
            if tf.is_tensor(value)
        }

    def replace_forward(
        self, forward: Callable[[Tensors], Tensors], takes_texts: bool = False
    ) -> None:
        """Uses a function in place of `forward`, such as one that runs a TFLite file.

        The function returns at least the outputs in `file_outputs`. If `takes_texts`,
        it takes the texts of `serving_default` instead of token ids.
        """
        self._get_forward = lambda: forward
        self._takes_texts = takes_texts

    def outputs(self, inputs: Tensors) -> Tensors:
        """Returns the outputs of `forward`, or of the function that replaces it."""
        return dict(self._get_forward()(dict(inputs)))

    def outputs_in_parts(
        self, inputs: Tensors, *names: str, rank: int = 2
    ) -> tuple[Any, ...]:
        """Runs the model on a few of R sequences at a time, which needs little memory.

        Returns the outputs `names`, float32 [R, ...], which all have the rank `rank`.
        """

        def of_part(rows: Tensors) -> tuple[Any, ...]:
            outputs = self.outputs(rows)
            return tuple(outputs[name] for name in names)

        return in_parts(of_part, inputs, [rank] * len(names))

    def gaps(self, outputs: Outputs, others: Outputs) -> Mapping[str, Any]:
        """Returns the gap, or margin, by which each decoded output was decided, by name.

        Decoded outputs, such as "label", are not floats. The gap is the difference
        between the score that decided and the next score or a threshold: float, of a
        shape that can be broadcast to the output. `outputs` and `others` are the
        outputs of two models. They may decide differently where the gap is about as
        small as the tolerance of the scores. An output without a gap must be equal.
        """
        return {}

    def row_for(self, signature: str, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """Converts the inputs of an example of `read_examples` to those of a signature."""
        return row

    def read_examples(self, path: str) -> LabelledExamples:
        """Yields the inputs of each labelled example in a file, and the correct output.

        An input is a text, or a list of texts. The file is a `.tsv`, `.csv`, `.jsonl`
        or `.parquet` file with the columns `text_names` and a column of the correct
        output.

        Raises:
            InputError: The file is malformed, or the task has no metric.
        """
        raise InputError(
            f"{path}: models of this task have no metric of labelled examples. Leave "
            "out dev_data."
        )

    def metric(self, outputs: Outputs, correct: Sequence[Any]) -> tuple[str, float]:
        """Returns the name and the value, in percent, of the metric of some examples.

        `outputs` are the outputs of `labelled_signature` for these examples.
        """
        raise NotImplementedError

    def endpoints(self) -> dict[str, Endpoint]:
        """Returns the function and the inputs of each signature, by signature name."""
        # Signatures that take texts, or texts in serialized examples.
        of_texts: TextFunctions = {
            "serving_default": (self.from_texts, self.text_names),
            **self.from_other_texts(),
        }
        endpoints = {
            name: Endpoint(_of_texts(function, names), self._text_specs(names), "texts")
            for name, (function, names) in of_texts.items()
        }
        for name, function in self.from_examples().items():
            function = functools.partial(self._from_serialized, function)
            specs = self._text_specs(["inputs"])
            endpoints[name] = Endpoint(function, specs, "examples")

        # Signatures that take ids. A file that takes texts has none.
        if self._takes_texts:
            return endpoints
        ids = _int_specs(INPUT_NAMES, 2)
        lengths = ids | _int_specs(["lengths"], 1)
        del lengths["input_mask"]
        return {
            **endpoints,
            "ids": Endpoint(self._from_checked_ids, ids, "ids"),
            "ids_lengths": Endpoint(self._from_ids_and_lengths, lengths, "ids"),
        }

    def signatures(self, *names: str) -> dict[str, Any]:
        """Traces the named signatures (by default all); returns the concrete functions by name."""
        return {
            name: tf.function(
                _with_names(endpoint), autograph=False
            ).get_concrete_function(**endpoint.inputs)
            for name, endpoint in self.endpoints().items()
            if not names or name in names
        }

    def _text_specs(self, names: Iterable[str]) -> dict[str, tf.TensorSpec]:
        return {
            name: tf.TensorSpec(
                [None] * (1 + (name in self.list_names)), tf.string, name=name
            )
            for name in names
        }

    def _from_checked_ids(self, **inputs: Any) -> Tensors:
        return self.from_ids(checked_ids(inputs, self.model.config))

    def _from_ids_and_lengths(
        self, input_ids: Any, segment_ids: Any, lengths: Any
    ) -> Tensors:
        lengths = checked_lengths(lengths, input_ids)
        mask = tf.sequence_mask(lengths, tf.shape(input_ids)[1], tf.int32)
        inputs = {"input_ids": input_ids * mask, "segment_ids": segment_ids * mask}
        return self._from_checked_ids(**inputs, input_mask=mask)

    def _from_serialized(self, function: TensorFunction, inputs: Any) -> Tensors:
        """Parses serialized `tf.train.Example`s, and calls a function with their texts."""
        spec = {name: tf.io.FixedLenFeature([], tf.string) for name in self.text_names}
        parsed = tf.io.parse_example(inputs, spec)
        return function(*(parsed[name] for name in self.text_names))


def _int_specs(names: Iterable[str], rank: int) -> dict[str, tf.TensorSpec]:
    return {name: tf.TensorSpec([None] * rank, tf.int32, name=name) for name in names}


def _of_texts(function: TensorFunction, names: tuple[str, ...]) -> TensorFunction:
    """Returns a function that calls `function`, but takes its texts as keyword arguments."""
    return lambda **texts: function(*(texts[name] for name in names))


def _with_names(endpoint: Endpoint) -> TensorFunction:
    """Returns a function with keyword arguments, so that a signature takes inputs by name."""
    return lambda **inputs: endpoint.function(**inputs)
