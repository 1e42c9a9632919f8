"""`ServedEmbedder`: the vector of a text, and the vectors of its tokens."""

from typing import Any

import tensorflow as tf

from bert_tf.conversion.sentence_transformers import check_supported, prompt_of
from bert_tf.errors import InputError, check_choice
from bert_tf.export.served.base import ServedModel
from bert_tf.export.serving_settings import POOLINGS, ServingSettings
from bert_tf.modeling import BertEncoder
from bert_tf.pretrained import Pretrained
from bert_tf.tasks.task import DEFAULT_LENGTH
from bert_tf.training.step.objective import Tensors

_SMALLEST_NORM = 1e-12  # as in PyTorch's normalize, which sentence-transformers uses


class ServedEmbedder(ServedModel):
    """A tokenizer and an encoder in one graph.

    `serving_default` takes `text`, string [B], and returns `embedding`, float32 [B, H].
    `ids` and `ids_lengths` also return `sequence_output`, float32 [B, S, H], and
    `pooled_output`, float32 [B, H]. With `dimensions`, `embedding` is float32
    [B, dimensions].

    Raises `InputError` if `dimensions` is above H.

    Source of `dimensions`: Kusupati et al. (2022), "Matryoshka Representation
    Learning", arXiv:2205.13147.

    Attributes:
        pooling: "mean" for the mean of the vectors of all tokens, including [CLS] and
            [SEP], or "first" for the vector of [CLS].
        normalize: Whether the vectors have length 1.
        dimensions: The number of values of a vector; None for all.
    """

    file_takes_texts = True
    runs_in_mediapipe = True
    text_names = ("text",)
    file_outputs = ("embedding",)
    pipeline_tag = "sentence-similarity"
    own_settings = ("pooling", "normalize", "prompt_name", "dimensions")

    def __init__(self, checkpoint: Pretrained, settings: ServingSettings) -> None:
        embedding_facts = checkpoint.facts.get("embedding", {})
        if settings.pooling is None or settings.normalize is None:
            check_supported(embedding_facts)
        pooling = settings.pooling or embedding_facts.get("pooling", "mean")
        prompt = prompt_of(embedding_facts, settings.prompt_name)
        check_choice(POOLINGS, "pooling", pooling)
        size = checkpoint.config.hidden_size
        if (settings.dimensions or 0) > size:
            raise InputError(
                f"dimensions must be from 1 to {size}, the model's hidden_size. "
                f"Received: {settings.dimensions}."
            )
        normalize = settings.normalize
        if normalize is None:
            normalize = embedding_facts.get("normalize", True)
        # sentence-transformers truncates to the positions of the model, unless the
        # folder says less.
        default = (
            checkpoint.config.max_position_embeddings
            if embedding_facts
            else DEFAULT_LENGTH
        )
        default = embedding_facts.get("max_seq_length", default)
        super().__init__(checkpoint, settings, BertEncoder, default)
        self.pooling = pooling
        self.normalize = normalize
        self.dimensions = settings.dimensions
        self.prompt = prompt

    def encode(self, *texts: Any) -> Tensors:
        """Puts the prompt before texts, string [B], and encodes them as the base class does."""
        if self.prompt and not self._takes_texts:
            texts = tuple(tf.strings.join([self.prompt, text]) for text in texts)
        return super().encode(*texts)

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
        """Returns the vector of each text, float32 [B, H], from vectors of tokens [B, S, H]."""
        if self.pooling == "first":
            pooled = vectors[:, 0]
        else:
            weights = tf.cast(mask, tf.float32)
            total = tf.linalg.matvec(vectors, weights, transpose_a=True)
            pooled = total / tf.maximum(
                tf.reduce_sum(weights, axis=1, keepdims=True), 1.0
            )
        if self.dimensions is not None:
            pooled = pooled[:, : self.dimensions]
        if not self.normalize:
            return pooled
        return pooled / tf.maximum(
            tf.norm(pooled, axis=-1, keepdims=True), _SMALLEST_NORM
        )
