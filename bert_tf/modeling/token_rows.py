"""`TokenRows`: the rows of a batch that are tokens, so that layers compute nothing on padding."""

import math
from collections.abc import Callable
from typing import Any

from keras import ops

from bert_tf.modeling import fused
from bert_tf.modeling.layers import flatten_to_rows, with_constants


class TokenRows:
    """Converts between a padded batch [B, S, ...] and the rows that the layers work on.

    With `skips_padding`, there is one row for each token. In training, the gradient of
    each conversion is the other conversion, which is faster than the sums that
    automatic differentiation computes. A SavedModel must not contain such gradients.

    Args:
        input_mask: int32 [B, S]; 1 = token, 0 = padding. Without `skips_padding`, any
            tensor [B, S, ...].
        skips_padding: Whether only tokens have rows. Otherwise, there are N = B * S
            rows.
        training: Whether a gradient will be computed.
    """

    def __init__(
        self, input_mask: Any, skips_padding: bool = False, training: bool = False
    ) -> None:
        self._training = training
        self._shape = ops.shape(input_mask)[:2]
        self._indices: Any = None
        if skips_padding:
            is_token = ops.reshape(ops.not_equal(input_mask, 0), (-1,))
            self._indices = ops.cast(ops.nonzero(is_token)[0], "int32")
            counts = ops.cumsum(ops.cast(is_token, "int32"))
            # The position of each token in the rows, counted from 1; 0 for padding.
            self._numbers = ops.where(is_token, counts, 0)

    def of_batch(self, x: Any) -> Any:
        """Returns the rows of a batch: [B, S, H] -> [N, H]."""
        rows = flatten_to_rows(x)
        if self._indices is None:
            return rows
        return self._convert(self._remove_padding, self._add_padding, rows)

    def to_batch(self, rows: Any) -> Any:
        """Returns the batch of rows, with 0 at padding: [N, ...] -> [B, S, ...]."""
        if self._indices is not None:
            shape = rows.shape[1:]
            rows = ops.reshape(rows, (-1, math.prod(shape)))
            rows = self._convert(self._add_padding, self._remove_padding, rows)
            rows = ops.reshape(rows, (-1, *shape))
        return ops.reshape(rows, with_constants((*self._shape, *rows.shape[1:])))

    def _convert(
        self, function: Callable[[Any], Any], inverse: Callable[[Any], Any], x: Any
    ) -> Any:
        return (
            fused.with_inverse(function, inverse, x) if self._training else function(x)
        )

    def _remove_padding(self, x: Any) -> Any:
        return ops.take(x, self._indices, axis=0)

    def _add_padding(self, rows: Any) -> Any:
        zero = ops.zeros((1, rows.shape[-1]), rows.dtype)
        return ops.take(ops.concatenate([zero, rows]), self._numbers, axis=0)
