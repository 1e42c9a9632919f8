"""`ServedEmbedder`: the vector of a text, and the vectors of its tokens."""

import dataclasses
from typing import Any

import tensorflow as tf

from bert_tf.errors import check_choice
from bert_tf.export.served.graph_functions import Tensors
from bert_tf.export.served.served_model import ServedModel
from bert_tf.export.settings import POOLINGS
from bert_tf.modeling import BertEncoder
from bert_tf.tokenization import BertTokenizer

_SMALLEST_NORM = 1e-12  # as in PyTorch's normalize, which sentence-transformers uses


@dataclasses.dataclass(frozen=True)
class EmbeddingSettings:
    """The settings of the vector of a text.

    Attributes:
        pooling: "mean" for the mean of the vectors of all tokens, including [CLS] and [SEP], or
            "first" for the vector of [CLS].
        normalize: Whether the vectors have length 1.
        max_seq_length: Longer texts are truncated to this number of tokens.

    Raises:
        InputError: The pooling is unknown.
    """

    pooling: str = "mean"
    normalize: bool = True
    max_seq_length: int = 128

    def __post_init__(self) -> None:
        check_choice(POOLINGS, "pooling", self.pooling)


class ServedEmbedder(ServedModel):
    """A tokenizer and an encoder in one graph.

    `serving_default` takes `text`, string [B], and returns `embedding`, float32 [B, H]. `ids` and
    `ids_lengths` also return `sequence_output`, float32 [B, S, H], and `pooled_output`, float32
    [B, H].

    Args:
        model: The encoder with trained weights.
        tokenizer: The tokenizer that the encoder was trained with.
        settings: The settings of the vector of a text.

    Attributes:
        settings: The argument.
    """

    lite_takes_texts = True
    mediapipe_task = "embedder"
    text_names = ("text",)
    lite_outputs = ("embedding",)

    def __init__(
        self, model: BertEncoder, tokenizer: BertTokenizer, settings: EmbeddingSettings
    ) -> None:
        super().__init__(model, tokenizer, settings.max_seq_length)
        self.settings = settings

    def from_texts(self, *texts: Any) -> Tensors:
        """Returns the vectors of texts, string [B]."""
        return {"embedding": self.outputs(self.encode(*texts))["embedding"]}

    def forward(self, inputs: Tensors) -> Tensors:
        """Returns the vectors of texts and of their tokens."""
        encoded = super().forward(inputs)
        outputs = {name: encoded[name] for name in ("sequence_output", "pooled_output")}
        return {
            "embedding": self._pool(outputs["sequence_output"], inputs["input_mask"]),
            **outputs,
        }

    def _pool(self, vectors: Any, mask: Any) -> Any:
        """Returns the vector of each text, float32 [B, H], from those of its tokens."""
        if self.settings.pooling == "first":
            pooled = vectors[:, 0]
        else:
            weights = tf.cast(mask, tf.float32)
            total = tf.linalg.matvec(vectors, weights, transpose_a=True)
            pooled = total / tf.maximum(tf.reduce_sum(weights, axis=1, keepdims=True), 1.0)
        if not self.settings.normalize:
            return pooled
        return pooled / tf.maximum(tf.norm(pooled, axis=-1, keepdims=True), _SMALLEST_NORM)
