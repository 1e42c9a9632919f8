"""`ServedEmbedder`: the vector of a text, and the vectors of its tokens."""

import dataclasses
from typing import Any

import tensorflow as tf

from bert_tf.conversion.sentence_transformers import check_supported
from bert_tf.errors import check_choice
from bert_tf.export.served.graph_functions import Tensors
from bert_tf.export.served.served_model import DEFAULT_LENGTH, ServedModel
from bert_tf.export.settings import POOLINGS, ServingSettings
from bert_tf.modeling import BertEncoder
from bert_tf.pretrained import Pretrained
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
    runs_in_mediapipe = True
    text_names = ("text",)
    lite_outputs = ("embedding",)
    pipeline_tag = "sentence-similarity"
    own_settings = ("pooling", "normalize")

    @classmethod
    def build(cls, checkpoint: Pretrained, settings: ServingSettings) -> ServedModel:
        """Returns the served model of a checkpoint; see `ServedModel`."""
        stated = dict(checkpoint.facts.get("embedding", {}))
        if settings.pooling is None or settings.normalize is None:
            check_supported(stated)
        given = {"pooling": settings.pooling, "normalize": settings.normalize}
        values = {**stated, **{name: value for name, value in given.items() if value is not None}}
        # sentence-transformers truncates to the positions of the model, unless the folder says
        # less.
        default = checkpoint.config.max_position_embeddings if stated else DEFAULT_LENGTH
        length = settings.sequence_length(checkpoint, values.pop("max_seq_length", default))
        values.pop("problem", None)
        model = checkpoint.model(BertEncoder, dtype=settings.precision)
        embedding = EmbeddingSettings(**values, max_seq_length=length)
        return cls(model, checkpoint.tokenizer, embedding)

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
