"""`EmbeddingObjective`: the loss of the vectors of a global batch.

Shape letters: B batch, C texts of a row, S sequence length, D size of a vector.
"""

import contextlib
from typing import Any

from keras import ops

from bert_tf.modeling import BertEncoder
from bert_tf.record_format import INPUTS
from bert_tf.tasks.embedding.embedding_settings import CONTRASTIVE
from bert_tf.tasks.embedding.losses import BatchLoss, normalized
from bert_tf.tasks.head_objective import (
    HeadObjective,
    Numbers,
    sums_of_rows,
    weighted,
)
from bert_tf.tasks.task import LABEL_WEIGHTS
from bert_tf.training.step.objective import Tensors


class EmbeddingObjective(HeadObjective):
    """Compares the vectors of all texts of a global batch; see `ComparingObjective`.

    Args:
        model: The encoder.
        loss: The loss of a batch.
        pooling: "mean" or "first".
        best_by: The metric that selects the best weights, and its sign.
    """

    compares_examples = True

    def __init__(
        self,
        model: BertEncoder,
        loss: BatchLoss,
        pooling: str,
        best_by: tuple[str, int],
    ) -> None:
        super().__init__(model, best_by)
        self._batch_loss = loss
        self._pooling = pooling

    def _run_model(self, batch: Tensors, training: bool = False) -> Tensors:
        """Returns `vectors`, float32 [B, C, H], before their normalization."""
        texts = {feature.name: batch[feature.name] for feature in INPUTS}
        num_texts = texts["input_ids"].shape[1]
        can_cut = self.model.skip_padding and num_texts > 1
        if not (can_cut and self._batch_loss.kind == CONTRASTIVE):
            return {"vectors": self._encode(texts, training)}

        # Questions are shorter than the texts that belong to them, and the attention
        # computes padding.
        first = {name: value[:, :1] for name, value in texts.items()}
        others = {name: value[:, 1:] for name, value in texts.items()}
        seeds = self.model.dropout_seeds
        vectors = [self._encode(_cut_to_longest(first), training)]
        with seeds.use_others() if training else contextlib.nullcontext():
            vectors.append(self._encode(_cut_to_longest(others), training))
        return {"vectors": ops.concatenate(vectors, axis=1)}

    def _encode(self, texts: Tensors, training: bool) -> Any:
        """Returns the vectors of texts [B, C, S]: float32 [B, C, H]."""
        # Each text is a sequence: [B, C, S] -> [B * C, S].
        _, num_texts, _ = texts["input_ids"].shape
        length = ops.shape(texts["input_ids"])[2]
        rows = {name: ops.reshape(each, (-1, length)) for name, each in texts.items()}
        hidden = self.model(rows, training=training)["sequence_output"]
        pooled = pool(ops.cast(hidden, "float32"), rows["input_mask"], self._pooling)
        return ops.reshape(pooled, (-1, num_texts, self.model.config.hidden_size))

    def outputs(self, batch: Tensors) -> Tensors:
        """Returns the normalized `vectors` of the texts: float32 [B, C, H]."""
        return {"vectors": normalized(self._run_model(batch)["vectors"])}

    def sums(self, batch: Tensors, training: bool, seed: Any = None) -> Tensors:
        """Returns the loss and the numerators of metrics, each summed over the batch."""
        return sums_of_rows(self, batch, training, seed)

    def compared_values(
        self, batch: Tensors, training: bool, seed: Any = None
    ) -> Tensors:
        """Returns the vectors, and the features of the batch that the loss needs."""
        names = ("text_keys", "label_ids", LABEL_WEIGHTS)
        features = {name: batch[name] for name in names if name in batch}
        return {**self.outputs_of_model(batch, training, seed), **features}

    def row_sums(self, values: Tensors) -> Tensors:
        """Returns each row's share of the loss and of the numerators of metrics: float32 [B]."""
        rows = self._batch_loss.of_rows(values)
        return {**rows, "loss": weighted(rows["loss"], values)}

    def logits_to_learn(self, outputs: Tensors) -> Any:
        """Returns the normalized vectors of all texts of a row: float32 [B, 1, C * H]."""
        vectors = normalized(outputs["vectors"])
        _, num_texts, size = vectors.shape
        return ops.reshape(vectors, (-1, 1, num_texts * size))

    def teacher_losses(
        self, outputs: Tensors, teacher: Any, batch: Tensors, temperature: float
    ) -> Any:
        """Returns the squared distance of the vectors, as a mean over the texts of a row: [B].

        The temperature has no effect.

        Source: Reimers and Gurevych 2020 (arXiv:2004.09813), section 2, where it is the
        mean over the values of a vector instead of the sum.
        """
        own = self.logits_to_learn(outputs)
        squares = ops.sum(ops.square(own - teacher), axis=(1, 2))
        exists = ops.any(batch["text_keys"] != 0, axis=-1)  # [B, C]
        return squares / ops.sum(ops.cast(exists, "float32"), axis=-1)

    def metrics(self, sums: Numbers, counts: Numbers) -> Numbers:
        """Returns the share of rows whose second text is the nearest one of the batch."""
        return super().metrics(sums, counts) if "correct" in sums else {}


def _cut_to_longest(texts: Tensors) -> Tensors:
    """Returns the texts, [B, C, S], with the length of the longest one, at least 2."""
    lengths = ops.sum(texts["input_mask"], axis=-1)
    longest = ops.maximum(ops.max(lengths), 2)
    return {name: value[:, :, :longest] for name, value in texts.items()}


def pool(vectors: Any, mask: Any, pooling: str) -> Any:
    """Returns the vector of each text, [B, H], from those of its tokens, [B, S, H].

    The vector of a text without tokens is 0.
    """
    weights = ops.cast(mask, vectors.dtype)[:, None]  # [B, 1, S]
    if pooling == "first":
        return vectors[:, 0] * weights[:, :, 0]
    total = ops.matmul(weights, vectors)[:, 0]
    return total / ops.maximum(ops.sum(weights, axis=-1), 1.0)
