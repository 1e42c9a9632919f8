"""Self-attention, the bias that masks its scores, and a batch as rows (`TokenRows`)."""

import math
from typing import Any

import keras
from keras import ops

from bert_tf.config import BertConfig
from bert_tf.modeling import fused_operations
from bert_tf.modeling.initial_weights import InitialWeights
from bert_tf.modeling.layers import (
    ConfiguredLayer,
    Dense,
    Dropout,
    DropoutSeeds,
    Variables,
    flatten_to_rows,
    variables_of_layers,
    with_constants,
)

# This value is added to the attention scores of masked positions, as in
# google-research/bert. The value is so low that the float32 probability of these
# positions is exactly 0. The value is still in the range of float16.
MASKED_SCORE = -10000.0


class TokenRows:
    """Converts between a padded batch [B, S, ...] and the rows that the layers work on.

    With `skips_padding`, there are N rows, one for each token that is not padding.
    Without, there are N = B * S rows, one for each position. In training, the gradient
    of each conversion is the other conversion, which is faster than automatic
    differentiation. A SavedModel must not contain such gradients.

    Args:
        input_mask: int32 [B, S]; 1 = token, 0 = padding. Without `skips_padding`, any
            tensor [B, S, ...], of which only the shape is used.
    """

    def __init__(
        self, input_mask: Any, skips_padding: bool = False, training: bool = False
    ) -> None:
        self._training = training
        self._shape = ops.shape(input_mask)[:2]
        self._indices: Any = None
        if skips_padding:
            is_token = ops.reshape(ops.not_equal(input_mask, 0), (-1,))  # [B*S]
            self._indices = ops.cast(ops.nonzero(is_token)[0], "int32")  # [N]
            counts = ops.cumsum(ops.cast(is_token, "int32"))  # [B*S]
            # The position of each token in the rows, counted from 1; 0 for padding.
            self._numbers = ops.where(is_token, counts, 0)

    def of_batch(self, x: Any) -> Any:
        """Returns the rows of a batch: [B, S, H] -> [N, H]."""
        rows = flatten_to_rows(x)
        if self._indices is None:
            return rows
        return fused_operations.with_inverse(
            self._remove_padding, self._add_padding, rows, self._training
        )

    def to_batch(self, rows: Any) -> Any:
        """Returns the batch of rows, with 0 at skipped padding: [N, ...] -> [B, S, ...]."""
        if self._indices is not None:
            shape = rows.shape[1:]
            rows = ops.reshape(rows, (-1, math.prod(shape)))  # [N, width]
            rows = fused_operations.with_inverse(
                self._add_padding, self._remove_padding, rows, self._training
            )
            rows = ops.reshape(rows, (-1, *shape))  # [B*S, ...]
        return ops.reshape(rows, with_constants((*self._shape, *rows.shape[1:])))

    def _remove_padding(self, x: Any) -> Any:
        return ops.take(x, self._indices, axis=0)

    def _add_padding(self, rows: Any) -> Any:
        zero = ops.zeros((1, rows.shape[-1]), rows.dtype)
        return ops.take(ops.concatenate([zero, rows]), self._numbers, axis=0)


def rows_and_layout(hidden: Any, layout: TokenRows | None) -> tuple[Any, TokenRows]:
    """Returns the rows [N, H] of hidden states, and their layout.

    With `layout`, `hidden` already consists of rows. Without, `hidden` is [B, S, H],
    and each position, also of padding, gets a row.
    """
    if layout:
        return hidden, layout
    layout = TokenRows(hidden)
    return layout.of_batch(hidden), layout


def attention_bias(input_mask: Any, attention: str, dtype: str) -> Any:
    """Returns the bias of attention scores: `MASKED_SCORE` at masked positions, else 0.

    Padding is masked. With "causal" attention, positions after the attending position
    are masked too.

    Args:
        input_mask: Integer tensor [B, S]; 1 = token, 0 = padding.

    Returns:
        Float tensor [B, 1, 1, S], or [B, 1, S, S] if causal.
    """
    # [B, 1, 1, S]
    visible = ops.expand_dims(ops.expand_dims(ops.cast(input_mask, "float32"), 1), 1)
    if attention == "causal":
        positions = ops.arange(ops.shape(input_mask)[1])
        # [S, S]: rows are the positions that attend.
        not_later = ops.expand_dims(positions, 1) >= ops.expand_dims(positions, 0)
        visible = ops.multiply(visible, ops.cast(not_later, "float32"))
    return ops.cast(ops.multiply(ops.subtract(1.0, visible), MASKED_SCORE), dtype)


@keras.saving.register_keras_serializable("bert_tf")
class SelfAttention(ConfiguredLayer):
    """Multi-head self-attention with output projection, without residual connection.

    Call arguments:
        hidden: Float tensor [B, S, H]; [N, H] with `layout`.
        bias: Float tensor [B, 1, 1, S] or [B, 1, S, S] from `attention_bias`.
        layout: The `TokenRows` of the batch if `hidden` consists of rows, else None.
        needs_map: False saves time in training: no attention probabilities are
            returned. In inference, they always are.

    Returns:
        The output [N, H] (N = B * S without `layout`), and the attention probabilities
        before dropout, [B, A, S, S], or None.

    Source: paper section 3; google-research/bert `modeling.attention_layer`.
    """

    def __init__(
        self,
        config: BertConfig,
        initial: InitialWeights | None = None,
        dropout_seeds: DropoutSeeds | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(config, **kwargs)
        initial = initial or InitialWeights(config.initializer_range)
        size = config.hidden_size
        dtype = self.dtype_policy
        rate = config.attention_probs_dropout_prob

        def dense(name: str) -> Dense:
            return Dense(size, size, initial=initial, dtype=dtype, name=name)

        # These lines draw random seeds: their order determines the initial weights.
        with keras.name_scope(self.name, caller=self):
            self.query = dense("query")
            self.key = dense("key")
            self.value = dense("value")
            self.output_dense = dense("output")
            self.dropout = Dropout(rate, dropout_seeds, dtype=dtype, name="dropout")
        self.build((None, None, size))

    def call(
        self,
        hidden: Any,
        bias: Any,
        training: bool = False,
        layout: TokenRows | None = None,
        needs_map: bool = True,
    ) -> tuple[Any, Any]:
        rows, layout = rows_and_layout(hidden, layout)  # [N, H]
        # Each [B, A, S, D].
        query, key, value = (
            self._split_heads(dense(rows), layout)
            for dense in (self.query, self.key, self.value)
        )

        # `context` [B, A, S, D] is the mean of the values, weighted by attention.
        probabilities = None
        if training and not needs_map:
            batch, heads, length, _ = ops.shape(query)
            mask = self.dropout.mask((batch, heads, length, length))
            context = fused_operations.attention(query, key, value, bias, *mask)
        else:
            # [B, A, S, S]
            products = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))
            # Not `ops.add`, which treats a tensor with one axis longer than 1, such as
            # the mask of an empty batch, as the bias of a layer.
            scores = ops.multiply(products, 1 / math.sqrt(self.config.head_size)) + bias
            probabilities = fused_operations.softmax(scores, training)
            context = ops.matmul(self.dropout(probabilities, training=training), value)

        # Put the heads of a token next to each other.
        merged = ops.transpose(context, (0, 2, 1, 3))  # [B, S, A, D]
        batch = ops.reshape(
            merged, with_constants((*ops.shape(merged)[:2], self.config.hidden_size))
        )  # [B, S, H]
        return self.output_dense(layout.of_batch(batch)), probabilities

    def _split_heads(self, x: Any, layout: TokenRows) -> Any:
        """Reshapes `x` from [N, H] to [B, A, S, D]."""
        heads = (self.config.num_attention_heads, self.config.head_size)
        x = layout.to_batch(ops.reshape(x, (-1, *heads)))  # [B, S, A, D]
        return ops.transpose(x, (0, 2, 1, 3))

    def variables_by_name(self) -> Variables:
        """Returns the variables by name; names and order are as in google-research/bert."""
        return variables_of_layers(
            {
                "self/query": self.query,
                "self/key": self.key,
                "self/value": self.value,
                "output/dense": self.output_dense,
            }
        )
