"""`ServedChoice`: the best of several texts for a context."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.export.served.base import LabelledExamples, ServedModel
from bert_tf.export.served.tensor_operations import best_gaps, rank_gaps
from bert_tf.export.serving_settings import ServingSettings
from bert_tf.modeling import BertMultipleChoice
from bert_tf.pretrained import Pretrained
from bert_tf.tasks.choice.choice_examples import read_examples
from bert_tf.tasks.choice.choice_task import MISSING_CHOICE
from bert_tf.tasks.task import DEFAULT_LENGTH, Outputs
from bert_tf.training.step.objective import Tensors


class ServedChoice(ServedModel):
    """A tokenizer and a model of multiple choice in one graph.

    `serving_default` takes `context`, string [B], and `choices`, string [B, K]. K may
    differ from the number of choices in the training, and between requests. An empty
    text, at any position, is no choice. For SWAG, the context is `sent1`, and a choice
    is `sent2`, a blank and the ending. The outputs are:

    * `probabilities`, float32 [B, K]: the softmax of the scores; 0 for empty texts.
    * `ranking`, int32 [B, K]: the indices of the choices, best first; then those of
      empty texts.
    * `choice`, string [B], and `index`, int32 [B]: the best choice; "" and -1 for a row
      without choices.

    `ids` and `ids_lengths` take one sequence for each choice, [B, S], and return
    `score`, float32 [B]: the logit of the choice. It does not depend on other choices,
    so a client can compute the softmax over any of them.
    """

    list_names = ("choices",)
    text_names = ("context", "choices")
    file_outputs = ("score",)
    pipeline_tag = "multiple-choice"
    head = ("cls/choice/output_weights", "cls/choice/output_bias")
    facts: Mapping[str, Any] = {"max_seq_length": DEFAULT_LENGTH}

    def __init__(self, checkpoint: Pretrained, settings: ServingSettings) -> None:
        super().__init__(checkpoint, settings, BertMultipleChoice)

    def from_texts(self, *texts: Any) -> Tensors:
        """Returns the outputs for contexts, string [B], and choices, string [B, K]."""
        context, choices = _with_equal_rows(*texts)
        exists = tf.not_equal(choices, "")
        positions = tf.where(exists)  # int64 [R, 2]: row and index of each choice
        pairs = tf.gather(context, positions[:, 0]), tf.gather_nd(choices, positions)
        # A row can have any number of choices, so the model runs on a few at a time.
        (score,) = self.outputs_in_parts(self.encode(*pairs), "score", rank=1)
        missing = tf.fill(tf.shape(choices), MISSING_CHOICE)
        scores = tf.tensor_scatter_nd_update(missing, positions, score)
        return _decode(choices, exists, scores)

    def forward(self, inputs: Tensors) -> Tensors:
        """Returns the scores of R sequences, [R, S], each with one choice."""
        single = {name: value[:, None] for name, value in inputs.items()}
        return {"score": super().forward(single)["logits"][:, 0]}

    def gaps(self, outputs: Outputs, others: Outputs) -> Mapping[str, Any]:
        """Returns the gaps in the order of the choices; see `ServedModel.gaps`."""
        probabilities = outputs["probabilities"]
        ranked = np.take_along_axis(probabilities, outputs["ranking"], axis=-1)
        best = best_gaps(probabilities)
        return {"ranking": rank_gaps(ranked), "choice": best, "index": best}

    def read_examples(self, path: str) -> LabelledExamples:
        """Yields context and choices, and the index of the correct one, of each example."""
        for example in read_examples(path, "dev", Counter()):
            yield (example.context, list(example.choices)), example.label

    def metric(self, outputs: Outputs, correct: Sequence[Any]) -> tuple[str, float]:
        """Returns the accuracy, in percent."""
        return "accuracy", 100 * float(np.mean(outputs["index"] == np.array(correct)))


def _with_equal_rows(context: Any, choices: Any) -> tuple[Any, Any]:
    """Adds checks to the graph that there is one context for each row of choices.

    They also check the ranks of both tensors, which TensorFlow's C API does not compare
    with the signature.
    """
    context = tf.ensure_shape(tf.convert_to_tensor(context, tf.string), [None])
    choices = tf.ensure_shape(tf.convert_to_tensor(choices, tf.string), [None, None])
    sizes = tf.shape(context)[0], tf.shape(choices)[0]
    message = ["context and choices must have equal numbers of rows. Received:", *sizes]
    with tf.control_dependencies([tf.debugging.Assert(sizes[0] == sizes[1], message)]):
        return tf.identity(context), tf.identity(choices)


def _decode(choices: Any, exists: Any, scores: Any) -> Tensors:
    """Returns the outputs of `serving_default`; the arguments are [B, K].

    An empty text is no choice: `exists` is False, and its score is `MISSING_CHOICE`.
    """
    # A row without choices has equal scores, whose softmax is not 0.
    probabilities = tf.nn.softmax(scores) * tf.cast(exists, tf.float32)
    # Of equal scores, top_k puts the one with the lowest index first.
    _, ranking = tf.math.top_k(scores, tf.shape(scores)[1])
    # K may be 0.
    first = tf.pad(ranking, [[0, 0], [0, 1]])[:, 0]
    texts = tf.concat([choices, tf.fill([tf.shape(choices)[0], 1], "")], axis=1)
    return {
        "probabilities": probabilities,
        "ranking": ranking,
        "choice": tf.gather(texts, first, batch_dims=1),
        "index": tf.where(tf.reduce_any(exists, axis=1), first, -1),
    }
