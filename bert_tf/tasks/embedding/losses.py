"""Losses of vectors, from the cosines of the texts of a global batch.

Shape letters: B batch, C texts of a row, N all texts that are compared with a row, D
size of a vector. The vectors have length 1.
"""

import dataclasses
from typing import Any

from keras import ops

from bert_tf.tasks.embedding.embedding_settings import CONTRASTIVE, COSENT
from bert_tf.tasks.task import LABEL_WEIGHTS
from bert_tf.training.step.objective import Tensors

# The logit of a text that is not compared: its softmax is 0 in float32.
_EXCLUDED = -1e9


@dataclasses.dataclass(frozen=True)
class BatchLoss:
    """The loss of a batch, as the mean over several sizes of the vectors.

    Attributes:
        kind: One of `embedding_settings.LOSSES`.
        scale: The factor of the cosines.
        both_directions: See `contrastive`.
        sizes: The sizes to which the vectors are cut; the first one is the full size.
    """

    kind: str
    scale: float
    both_directions: bool
    sizes: tuple[int, ...]

    def of_rows(self, values: Tensors) -> Tensors:
        """Computes the loss of each row of a batch.

        A loss of the batch as a whole, CoSENT, is that of each row.

        Args:
            values: `vectors`, float32 [B, C, D], of any length; for pairs without
                scores `text_keys`, int32 [B, C, K]; for scores `label_ids`, float32
                [B]; and, optionally, `task.LABEL_WEIGHTS`, float32 [B].

        Returns:
            `loss`, float32 [B], and for pairs without scores `correct`, float32 [B]: 1
            if the second text is the nearest one.
        """
        by_size = [self._of_size(values, size) for size in self.sizes]
        loss = sum(losses for losses, _ in by_size) / len(by_size)
        _, correct = by_size[0]
        return {"loss": loss} if correct is None else {"loss": loss, "correct": correct}

    def _of_size(self, values: Tensors, size: int) -> tuple[Any, Any]:
        vectors = cut(values["vectors"], size)
        if self.kind == CONTRASTIVE:
            return contrastive(
                vectors, values["text_keys"], self.scale, self.both_directions
            )
        scores = values["label_ids"]
        if self.kind == COSENT:
            weights = values.get(LABEL_WEIGHTS, ops.ones_like(scores))
            loss = cosent(vectors, scores, weights, self.scale)
            return loss * ops.ones_like(scores), None
        return cosine(vectors, scores), None


def contrastive(
    vectors: Any, keys: Any, scale: float, both_directions: bool
) -> tuple[Any, Any]:
    """Computes the cross entropy of the second text of each row, among the texts of all rows.

    The texts of all rows, except their first ones, are compared with the first text of
    a row. A text is left out if it is missing, if its key is that of the first or the
    second text of the row, or if it is the second text of another row with the same
    first text, because it then belongs to the first text too. The second text itself is
    never left out.

    Args:
        vectors: float32 [B, C, D].
        keys: int32 [B, C, K]; two texts with equal keys are equal. The keys of a
            missing text are 0.
        scale: The factor of the cosines.
        both_directions: Whether to return the mean with the cross entropy of the first
            text, among the first texts of all rows, given the second text.

    Returns:
        The losses, float32 [B]; and whether the second text is the nearest one, float32
        [B].

    Source: van den Oord et al. 2018 (arXiv:1807.03748), equation 4; Henderson et al.
    2017 (arXiv:1705.00652), section 4.
    """
    first, others = vectors[:, 0], _second_texts_first(vectors)  # [B, D], [N, D]
    first_keys, other_keys = keys[:, 0], _second_texts_first(keys)
    second_keys = keys[:, 1]

    logits = scale * ops.matmul(first, ops.transpose(others))  # [B, N]
    is_own = _is_diagonal(logits)
    is_equal = _are_equal(first_keys, other_keys) | _are_equal(second_keys, other_keys)
    is_missing = ops.all(other_keys == 0, axis=-1)
    belongs = _are_equal(first_keys, first_keys)  # [B, B]
    padding = ops.shape(logits)[1] - ops.shape(logits)[0]
    is_equal = is_equal | ops.pad(belongs, ((0, 0), (0, padding)))
    logits = ops.where(~is_own & (is_equal | is_missing[None]), _EXCLUDED, logits)
    losses = _losses_of_diagonal(logits)
    correct = ops.cast(
        ops.argmax(logits, axis=1) == ops.arange(ops.shape(logits)[0]), "float32"
    )
    if not both_directions:
        return losses, correct

    # Row i of the reverse logits compares the second text of row i with all first texts.
    reverse = scale * ops.matmul(vectors[:, 1], ops.transpose(first))  # [B, B]
    is_equal = (
        belongs
        | _are_equal(second_keys, first_keys)
        | _are_equal(second_keys, second_keys)
    )
    is_missing = ops.all(first_keys == 0, axis=-1)
    reverse = ops.where(
        ~_is_diagonal(reverse) & (is_equal | is_missing[None]), _EXCLUDED, reverse
    )
    return (losses + _losses_of_diagonal(reverse)) / 2, correct


def cosine(vectors: Any, scores: Any) -> Any:
    """Returns the squared difference of cosine and score of each row: float32 [B].

    Source: Reimers and Gurevych 2019 (arXiv:1908.10084), section 3.
    """
    return ops.square(cosines(vectors) - scores)


def cosent(vectors: Any, scores: Any, weights: Any, scale: float) -> Any:
    """Returns log(1 + sum of exp(scale * (cosine of j - cosine of i))): a float32 scalar.

    The sum is over all pairs of rows of which i has the higher score.

    Args:
        vectors: float32 [B, C, D].
        scores: float32 [B].
        weights: float32 [B]; rows with the weight 0 are left out.
        scale: The factor of the cosines.

    Source: Su 2022, CoSENT (https://kexue.fm/archives/8847).
    """
    scaled = scale * cosines(vectors)
    differences = scaled[None, :] - scaled[:, None]  # [i, j]
    is_used = (scores[:, None] > scores[None, :]) & (
        (weights[:, None] > 0) & (weights[None, :] > 0)
    )
    terms = ops.reshape(ops.where(is_used, differences, _EXCLUDED), (-1,))
    return ops.logsumexp(ops.concatenate([ops.zeros((1,)), terms]))


def cosines(vectors: Any) -> Any:
    """Returns the cosine of the first two texts of each row: float32 [B]."""
    return ops.sum(vectors[:, 0] * vectors[:, 1], axis=-1)


def cut(vectors: Any, size: int) -> Any:
    """Returns vectors of length 1 of the first `size` values: float32 [B, C, size].

    A vector of zeros stays 0. Source: Kusupati et al. 2022 (arXiv:2205.13147).
    """
    return normalized(vectors[..., :size])


def normalized(vectors: Any) -> Any:
    """Returns vectors with length 1; a vector of zeros stays 0."""
    squares = ops.sum(ops.square(vectors), axis=-1, keepdims=True)
    return vectors * ops.rsqrt(ops.maximum(squares, 1e-24))


def _second_texts_first(values: Any) -> Any:
    """Returns the texts of all rows but the first ones, [N, ...]; row i's second text is text i."""
    others = ops.swapaxes(values[:, 1:], 0, 1)
    return ops.reshape(others, (-1, ops.shape(values)[-1]))


def _are_equal(keys: Any, others: Any) -> Any:
    """Returns which keys [B, K] are equal to which others [N, K]: bool [B, N]."""
    return ops.all(keys[:, None] == others[None], axis=-1)


def _is_diagonal(logits: Any) -> Any:
    rows, columns = ops.shape(logits)
    return ops.arange(rows)[:, None] == ops.arange(columns)[None]


def _losses_of_diagonal(logits: Any) -> Any:
    """Returns the cross entropy of the diagonal of logits [B, N]: float32 [B]."""
    own = ops.sum(ops.where(_is_diagonal(logits), logits, 0.0), axis=1)
    return ops.logsumexp(logits, axis=1) - own
