"""`ServedClassifier`: classification, multi-label classification and regression."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.conversion.head_choice import check_labels
from bert_tf.errors import InputError
from bert_tf.export.output_decoding import separator_of
from bert_tf.export.served import windows
from bert_tf.export.served.base import LabelledExamples, ServedModel, TensorFunction
from bert_tf.export.served.tensor_operations import best_gaps, rank_gaps
from bert_tf.export.serving_settings import ServingSettings
from bert_tf.modeling import BertClassifier
from bert_tf.pretrained import Pretrained
from bert_tf.tasks.classification.classification_results import RESULTS_BY_TYPE
from bert_tf.tasks.classification.long_texts import SPECIAL_TOKENS, LongTexts
from bert_tf.tasks.classification.sources.glue_tasks import selecting_metric
from bert_tf.tasks.classification.text_examples import LabelParser, TextExample
from bert_tf.tasks.tables import column_values, place_of
from bert_tf.tasks.task import DEFAULT_LENGTH, Outputs, settings_from
from bert_tf.tasks.values import text_of
from bert_tf.training.step.objective import Tensors

DEFAULT_THRESHOLD = 0.5


class ServedClassifier(ServedModel):
    """A tokenizer and a classifier in one graph.

    `serving_default` takes `text` or, for pairs, `text_a` and `text_b`. The outputs
    depend on the task; `ids` and `ids_lengths` also return `logits`, float32 [B, labels]:

    * classification: `probabilities`, float32 [B, labels], and `label`, string [B].
    * multi_label: `probabilities`, float32 [B, labels], and `labels`, string [B]: the
      labels whose probability reaches the threshold, joined by
      `output_decoding.separator_of(labels)`; "" if there are none.
    * regression: `score`, float32 [B].

    TensorFlow Serving's Classify API uses the signature `classify`, with the outputs
    `classes` (string [B, labels], best first) and `scores` (float32 [B, labels]), and
    its Regress API the signature `regress`, with the output `outputs` (float32 [B]).
    Both take `inputs`, string [B]: serialized `tf.train.Example` messages whose
    features have the names of the texts.

    If the model was trained on windows (`LongTexts.in_windows`), texts may have any
    length. The signatures that take texts then return the means of the outputs over the
    windows of a text. For `ids` and `ids_lengths`, each row is one window.
    """

    file_takes_texts = True
    pipeline_tag = "text-classification"
    head = ("output_weights", "output_bias")

    @classmethod
    def default_facts(cls, task: str, stated: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the defaults of facts; see `ServedModel.default_facts`."""
        labels: list[str] | None = [] if task == "regression" else None
        return {"labels": labels, "pair": False, "max_seq_length": DEFAULT_LENGTH}

    def __init__(self, checkpoint: Pretrained, settings: ServingSettings) -> None:
        facts = checkpoint.facts
        task_type = facts.get("task_type", "classification")
        if settings.task not in (None, task_type):
            raise InputError(
                f"task must be {task_type}, for which the checkpoint was trained. "
                f"Received: {settings.task!r}."
            )

        is_regression = task_type == "regression"
        num_labels = 1 if is_regression else len(facts["labels"])
        super().__init__(checkpoint, settings, BertClassifier, num_labels=num_labels)
        labels = check_labels(self.model, facts["labels"], is_regression)
        if task_type == "classification" and len(labels) < 2:
            raise InputError(
                "A model for classification has at least 2 labels. Received: "
                f"{labels}. For a score, give task_type=regression and no labels."
            )

        self._labels = tf.constant(labels, tf.string)
        self._pair = facts["pair"]
        self._parse_label = LabelParser("label", task_type, tuple(labels))
        self._task_type = task_type
        self._separator = separator_of(labels)
        self._metric = selecting_metric(facts.get("task"), task_type)
        # The lowest probability of the labels that a multi-label classifier returns.
        self._threshold = facts.get("threshold", DEFAULT_THRESHOLD)

        self._long_texts = settings_from(LongTexts, facts)
        # Programs that compute the ids of a text themselves would truncate it.
        self.file_takes_texts = not self._long_texts.in_windows
        is_single = not self._pair and not is_regression
        self.runs_in_mediapipe = is_single and self.file_takes_texts

    @property
    def file_outputs(self) -> tuple[str, ...]:  # type: ignore[override]
        """The names of the outputs of a TFLite or ONNX file."""
        return ("score",) if self._task_type == "regression" else ("probabilities",)

    @property
    def text_names(self) -> tuple[str, ...]:  # type: ignore[override]
        """The names of the inputs of `serving_default`."""
        return ("text_a", "text_b") if self._pair else ("text",)

    def from_texts(self, *texts: Any) -> Tensors:
        """Returns the outputs of `serving_default` for texts or pairs, string [B] each."""
        if self._long_texts.in_windows:
            return self._decode(self._mean_of_windows(*texts))
        return self._decode(self.outputs(self.encode(*texts)))

    def _mean_of_windows(self, text: Any) -> Tensors:
        """Returns the means of `file_outputs` over the windows of each text, string [B]."""
        ids = self.tokenizer.tokenize(text)
        room = self.max_seq_length - SPECIAL_TOKENS
        rows = tf.fill(tf.shape(ids.row_splits)[:1] - 1, 1)
        stride = self._long_texts.stride(room)
        parts = windows.split(ids, room * rows, stride, rows, min_count=1)
        inputs = windows.sequences(parts, ids, None, self.tokenizer)
        rank = 1 if self._task_type == "regression" else 2
        (values,) = self.outputs_in_parts(inputs, *self.file_outputs, rank=rank)
        mean = tf.math.unsorted_segment_mean(values, parts.row, tf.size(rows))
        return dict.fromkeys(self.file_outputs, mean)

    def from_ids(self, inputs: Tensors) -> Tensors:
        """Returns the outputs of `serving_default`, and the logits, for token ids."""
        outputs = self.outputs(inputs)
        return {**outputs, **self._decode(outputs)}

    def forward(self, inputs: Tensors) -> Tensors:
        """Returns `logits`, and `probabilities` or `score`."""
        logits = super().forward(inputs)["logits"]
        if self._task_type == "regression":
            return {"logits": logits, "score": logits[:, 0]}
        function = tf.sigmoid if self._task_type == "multi_label" else tf.nn.softmax
        return {"logits": logits, "probabilities": function(logits)}

    def _decode(self, outputs: Tensors) -> Tensors:
        """Converts the outputs of `forward` to the outputs of `serving_default`."""
        if self._task_type == "regression":
            return {"score": outputs["score"]}
        probabilities = outputs["probabilities"]
        if self._task_type == "multi_label":
            return {
                "probabilities": probabilities,
                "labels": self._selected(probabilities),
            }
        label = tf.gather(self._labels, tf.argmax(probabilities, axis=-1))
        return {"probabilities": probabilities, "label": label}

    def from_examples(self) -> dict[str, TensorFunction]:
        """Returns the function of the signature `classify` or `regress`, by name."""
        if self._task_type == "regression":
            return {
                "regress": lambda *texts: {"outputs": self.from_texts(*texts)["score"]}
            }
        return {"classify": self._classes}

    def gaps(self, outputs: Outputs, others: Outputs) -> Mapping[str, Any]:
        """Returns the gaps of labels and of their ranks; see `ServedModel.gaps`."""
        if "classes" in outputs:
            return {"classes": rank_gaps(outputs["scores"])}
        probabilities = outputs["probabilities"]
        if "labels" in outputs:
            distances = np.abs(probabilities - self._threshold)
            return {"labels": distances.min(axis=-1, initial=np.inf)}
        return {"label": best_gaps(probabilities)}

    def read_examples(self, path: str) -> LabelledExamples:
        """Yields the texts, and the correct label, score or labels, of each example in a file."""
        columns = (*self.text_names, "label")
        remedy = f"Name the columns {', '.join(columns)}."
        for number, (*texts, label) in column_values(path, columns, remedy=remedy):
            location = place_of(path, number)
            yield (
                tuple(text_of(text, location) for text in texts),
                self._parse_label(label, location),
            )

    def metric(self, outputs: Outputs, correct: Sequence[Any]) -> tuple[str, float]:
        """Returns the metric by which the training selects the best weights, in percent."""
        name = self._metric
        labels = [text.decode() for text in self._labels.numpy()]
        scorer = RESULTS_BY_TYPE[self._task_type](labels, [name], self._threshold)

        # Probabilities replace the logits: both give the same order of the labels, and
        # the loss, which would differ, is not used.
        (output,) = self.file_outputs
        logits = outputs[output].reshape([len(correct), -1])  # [N, labels]
        for row, label in enumerate(correct):
            values = {key: value[row] for key, value in outputs.items()}
            example = TextExample("", None, label)
            scorer.score(example, {**values, "logits": logits[row]})
        return name, 100 * scorer.metrics()[name]

    def _classes(self, *texts: Any) -> Tensors:
        probabilities = self.from_texts(*texts)["probabilities"]
        scores, order = tf.math.top_k(probabilities, self._labels.shape[0])
        return {"classes": tf.gather(self._labels, order), "scores": scores}

    def _selected(self, probabilities: Any) -> Any:
        """Returns the labels that reach the threshold, joined to one string a row, [B]."""
        names = tf.broadcast_to(self._labels, tf.shape(probabilities))
        selected = tf.ragged.boolean_mask(names, probabilities >= self._threshold)
        return tf.strings.reduce_join(selected, axis=-1, separator=self._separator)
