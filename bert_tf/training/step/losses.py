"""Cross entropy and accuracy over many classes, and the functions that differ by backend.

TensorFlow has a faster implementation of `cross_entropy` and `label_logits`. Only
TensorFlow has `share_graph`; on JAX, each block of a model is traced.
"""

from typing import Any

import keras
from keras import ops

if keras.backend.backend() == "tensorflow":
    from bert_tf.training.step.tensorflow_functions import (
        cross_entropy,
        label_logits,
        share_graph,
    )
else:
    share_graph = None  # type: ignore[assignment]

    def cross_entropy(logits: Any, labels: Any) -> Any:
        """Returns the negative log probability of each label: float32 [...].

        Args:
            logits: float32 [..., V], where V is the number of classes.
            labels: int32 [...], in [0, V).
        """
        return ops.logsumexp(logits, axis=-1) - label_logits(logits, labels)

    def label_logits(logits: Any, labels: Any) -> Any:
        """Returns the logit of each label: [..., V] and int32 [...] -> [...]."""
        columns = ops.expand_dims(labels, -1)
        return ops.take_along_axis(logits, columns, axis=-1)[..., 0]


def correct_predictions(logits: Any, labels: Any) -> Any:
    """Returns 1.0 where no logit is higher than the logit of the label, else 0.0.

    Arguments and result have the shapes and dtypes of `cross_entropy`.
    """
    is_correct = label_logits(logits, labels) >= ops.max(logits, axis=-1)
    return ops.cast(is_correct, "float32")
