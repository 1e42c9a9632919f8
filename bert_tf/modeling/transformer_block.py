"""The Transformer block."""

from typing import Any

import keras

from bert_tf.config import BertConfig
from bert_tf.modeling.attention import SelfAttention, TokenRows, rows_and_layout
from bert_tf.modeling.initial_weights import InitialWeights
from bert_tf.modeling.layers import (
    ConfiguredLayer,
    Dense,
    Dropout,
    DropoutSeeds,
    LayerNorm,
    Variables,
    variables_of_layers,
)


@keras.saving.register_keras_serializable("bert_tf")
class TransformerBlock(ConfiguredLayer):
    """A Transformer block: self-attention and a feed-forward layer.

    Dropout, a residual connection and layer normalization follow each of these two
    layers.

    Call arguments:
        hidden: Float tensor [B, S, H]; [N, H] with `layout`.
        bias: Float tensor [B, 1, 1, S] or [B, 1, S, S] from `attention_bias`.
        layout: The `TokenRows` of the batch if `hidden` consists of rows, else None.
        needs_map: False saves time in training: no attention probabilities are
            returned. In inference, they always are.

    Returns:
        The output, of the shape of `hidden`, and the attention probabilities before
        dropout, [B, A, S, S], or None.

    Source: google-research/bert `modeling.transformer_model`.
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
        seeds = dropout_seeds or DropoutSeeds()
        size = config.hidden_size
        wide = config.intermediate_size
        dtype = self.dtype_policy

        def dropout(name: str) -> Dropout:
            return Dropout(config.hidden_dropout_prob, seeds, dtype=dtype, name=name)

        def norm(name: str) -> LayerNorm:
            return LayerNorm(size, config.layer_norm_eps, dtype=dtype, name=name)

        # These lines draw random seeds and dropout indices, so their order matters.
        with keras.name_scope(self.name, caller=self):
            self.attention = SelfAttention(
                config, initial, seeds, dtype=dtype, name="attention"
            )
            self.attention_dropout = dropout("attention_dropout")
            self.attention_norm = norm("attention_norm")

            self.intermediate = Dense(
                size, wide, config.hidden_act, initial, dtype=dtype, name="intermediate"
            )
            self.output_dense = Dense(
                wide, size, initial=initial, dtype=dtype, name="output"
            )
            self.output_dropout = dropout("output_dropout")
            self.output_norm = norm("output_norm")

        self.build((None, None, size))

    def call(
        self,
        hidden: Any,
        bias: Any,
        training: bool = False,
        layout: TokenRows | None = None,
        needs_map: bool = True,
    ) -> tuple[Any, Any]:
        rows, inner = rows_and_layout(hidden, layout)  # [N, H]

        # Attention, dropout, residual connection and normalization.
        attended, probabilities = self.attention(
            rows, bias, layout=inner, training=training, needs_map=needs_map
        )
        attended = self.attention_dropout(attended, training=training)
        attended = self.attention_norm(attended + rows)

        # The feed-forward layer, then dropout, residual connection and norm again.
        output = self.output_dense(self.intermediate(attended))  # [N, I] -> [N, H]
        output = self.output_dropout(output, training=training)
        output = self.output_norm(output + attended)

        return output if layout else inner.to_batch(output), probabilities

    def variables_by_name(self) -> Variables:
        """Returns the variables by name; names and order are as in google-research/bert."""
        return variables_of_layers(
            {
                "attention": self.attention,
                "attention/output/LayerNorm": self.attention_norm,
                "intermediate/dense": self.intermediate,
                "output/dense": self.output_dense,
                "output/LayerNorm": self.output_norm,
            }
        )
