"""The heads: layers that map the hidden states of the encoder to logits.

`MaskedLMHead` and `OutputHead` are output layers. `HeadLayers` has the layers that
`HeadConfig` adds between the encoder and the output layer.

Further shape letters: T tokens of a sequence (S, or 1 for their mean), K hidden states
of a token, W values that `HeadLayers` computes for a token or a sequence.
"""

from typing import Any

import keras
from keras import ops

from bert_tf.config import BertConfig
from bert_tf.head_config import HeadConfig
from bert_tf.modeling import fused_operations
from bert_tf.modeling.initial_weights import InitialWeights
from bert_tf.modeling.layers import (
    ConfiguredLayer,
    Dense,
    LayerNorm,
    Shape,
    Variables,
    flatten_to_rows,
    restore_shape,
    variable_tensor,
    variables_of_layers,
    with_constants,
)


@keras.saving.register_keras_serializable("bert_tf")
class MaskedLMHead(ConfiguredLayer):
    """Computes the logits of all vocabulary entries at given positions.

    Call arguments:
        sequence_output: Float tensor [B, S, H].
        word_embeddings: Float tensor [V, H], the word embeddings of the encoder. This
            head uses them as its output weights.
        positions: Positions of the predicted tokens, int32 [B, P]; None for all
            positions (P = S).

    Returns:
        float32 [B, P, V].

    Source: google-research/bert `run_pretraining.get_masked_lm_output`.
    """

    def __init__(
        self, config: BertConfig, initial: InitialWeights | None = None, **kwargs: Any
    ) -> None:
        super().__init__(config, **kwargs)
        size = config.hidden_size
        dtype = self.dtype_policy
        initial = initial or InitialWeights(config.initializer_range)
        with keras.name_scope(self.name, caller=self):
            self.dense = Dense(
                size, size, config.hidden_act, initial, dtype=dtype, name="dense"
            )
            self.norm = LayerNorm(size, config.layer_norm_eps, dtype=dtype, name="norm")
        self.output_bias = self.add_weight(
            (config.vocab_size,), "zeros", name="output_bias", autocast=False
        )
        self.build((None, None, size))

    @property
    def output_shape(self) -> Shape:
        """Shape of the output, which `summary` prints."""
        return (None, None, self.config.vocab_size)

    def call(
        self,
        sequence_output: Any,
        word_embeddings: Any,
        positions: Any = None,
        training: bool = False,
    ) -> Any:
        # Take the rows of the predicted tokens: [B*P, H].
        batch, length = ops.shape(sequence_output)[:2]
        tokens = flatten_to_rows(sequence_output)  # [B*S, H]
        if positions is not None:
            starts = ops.expand_dims(ops.arange(batch, dtype="int32"), 1) * length
            # Not `ops.add`: if B equals P, it takes `starts`, [B, 1], for a bias [P].
            tokens = ops.take(tokens, ops.reshape(positions + starts, (-1,)), axis=0)

        hidden = self.norm(self.dense(tokens))  # [B*P, H]
        table = ops.cast(word_embeddings, hidden.dtype)
        bias = ops.cast(variable_tensor(self.output_bias), "float32")
        logits = fused_operations.tied_logits(hidden, table, bias, training)  # [B*P, V]
        return restore_shape(
            logits, sequence_output if positions is None else positions
        )

    def variables_by_name(self) -> Variables:
        """Returns the variables by name; names and order are as in google-research/bert."""
        layers = {"transform/dense": self.dense, "transform/LayerNorm": self.norm}
        return {**variables_of_layers(layers), "output_bias": self.output_bias}


@keras.saving.register_keras_serializable("bert_tf")
class OutputHead(keras.layers.Layer):
    """Computes `x @ output_weights.T + output_bias` in float32; not for the masked LM.

    A float tensor [M, `inputs`] gives float32 logits [M, `outputs`], for any number of
    rows M. Without `initial`, the standard deviation of the initial weights is 0.02.

    Source: google-research/bert `run_classifier.create_model`.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        initial: InitialWeights | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.inputs = inputs
        self.outputs = outputs
        initial = initial or InitialWeights(0.02)
        self.output_weights = initial.add_weight(
            self, (outputs, inputs), name="output_weights", autocast=False
        )
        self.output_bias = self.add_weight(
            (outputs,), "zeros", name="output_bias", autocast=False
        )
        self.build((None, inputs))

    @property
    def output_shape(self) -> Shape:
        """Shape of the output, which `summary` prints."""
        return (None, self.outputs)

    def call(self, x: Any) -> Any:
        products = ops.matmul(
            ops.cast(x, "float32"), ops.transpose(self.output_weights)
        )
        return ops.add(products, self.output_bias)

    def variables_by_name(self) -> Variables:
        """Returns the variables by name; names and order are as in google-research/bert."""
        return {"output_weights": self.output_weights, "output_bias": self.output_bias}

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "inputs": self.inputs, "outputs": self.outputs}


@keras.saving.register_keras_serializable("bert_tf")
class Orthogonal(keras.initializers.Orthogonal):
    """Keras's `Orthogonal`, computed in float32: Keras has no QR decomposition in bfloat16."""

    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        return ops.cast(super().__call__(shape, "float32"), dtype or "float32")


@keras.saving.register_keras_serializable("bert_tf")
class HeadLayers(ConfiguredLayer):
    """Combines hidden states of the encoder, and applies LSTM layers.

    Args:
        head: The layers to apply; `head.is_default` must be False.
        pools: Whether the result is one vector for each sequence: with LSTM layers, the
            last outputs of both directions, else the mean over the tokens.

    Call arguments:
        states: Float tensor [B, T, K, H] of hidden states, or of their means over the
            tokens (T = 1). K is the length of `head.states(config.num_hidden_layers)`.
        mask: int32 [B, T], 1 for a token, 0 for padding. The padding is at the end.

    Returns:
        Float tensor [B, T, W], or [B, W] if `pools`.

    Attributes:
        width: The number of values of an output vector, W.
        pools_states: Whether the first operation is the mean over the tokens. If it is,
            `states` can have the means, with the same result.

    Source: paper, section 5.3: feature-based use of BERT. The weights of a sum of
    hidden states start at 1 / K, and are used without a softmax.
    """

    def __init__(
        self,
        config: BertConfig,
        head: HeadConfig,
        pools: bool = False,
        initial: InitialWeights | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(config, **kwargs)
        self.head = head
        self.pools = pools
        self._num_states = len(head.states(config.num_hidden_layers))
        self.pools_states = pools and head.kind == "linear"

        # The hidden states of a token are summed or concatenated.
        self.layer_weights = None
        width = config.hidden_size
        if head.sums_layers:
            share = keras.initializers.Constant(1 / self._num_states)
            self.layer_weights = self.add_weight(
                (self._num_states,), share, name="layer_weights", autocast=False
            )
        else:
            width *= self._num_states

        # The LSTM layers follow.
        initial = initial or InitialWeights(config.initializer_range)
        with keras.name_scope(self.name, caller=self):
            self.lstms = [
                self._bilstm(index, initial)
                for index in range(head.lstm_layers if head.kind == "bilstm" else 0)
            ]
            for lstm in self.lstms:
                lstm.build((None, None, width))
                width = head.lstm_size

        self.width = width
        self.built = True

    def _bilstm(
        self, index: int, initial: InitialWeights
    ) -> keras.layers.Bidirectional:
        is_last = index == self.head.lstm_layers - 1
        # Each direction computes half of the values of a token.
        forward, backward = (
            keras.layers.LSTM(
                self.head.lstm_size // 2,
                kernel_initializer=keras.initializers.GlorotUniform(
                    initial.next_seed()
                ),
                recurrent_initializer=Orthogonal(seed=initial.next_seed()),
                return_sequences=not (self.pools and is_last),
                go_backwards=go_backwards,
                dtype=self.dtype_policy,
                name="lstm",
            )
            for go_backwards in (False, True)
        )

        return keras.layers.Bidirectional(
            forward,
            backward_layer=backward,
            dtype=self.dtype_policy,
            name=f"lstm_{index}",
        )

    @property
    def output_shape(self) -> Shape:
        """Shape of the output, which `summary` prints."""
        return (None, self.width) if self.pools else (None, None, self.width)

    def call(self, states: Any, mask: Any, training: bool = False) -> Any:
        if self.pools_states:
            states = mean_of_tokens(states, mask)  # [B, 1, K, H]
        x = self._combine(ops.cast(states, self.compute_dtype))  # [B, T, W]
        for lstm in self.lstms:
            x = lstm(x, mask=ops.cast(mask, "bool"), training=training)
        return x[:, 0] if self.pools_states else x

    def _combine(self, states: Any) -> Any:
        """Returns the weighted sum or concatenation of hidden states, [B, T, W]."""
        if self.layer_weights is None:
            width = self._num_states * self.config.hidden_size
            return ops.reshape(states, with_constants((*ops.shape(states)[:2], width)))
        weights = ops.cast(self.layer_weights, states.dtype)  # [K]
        return ops.sum(states * ops.reshape(weights, (-1, 1)), axis=2)

    def variables_by_name(self) -> Variables:
        """Returns the layer's variables by name."""
        named: Variables = {}
        if self.layer_weights is not None:
            named["layer_weights"] = self.layer_weights
        for index, lstm in enumerate(self.lstms):
            for direction, layer in (
                ("forward", lstm.forward_layer),
                ("backward", lstm.backward_layer),
            ):
                for name in ("kernel", "recurrent_kernel", "bias"):
                    variable = getattr(layer.cell, name)
                    named[f"lstm_{index}/{direction}/{name}"] = variable
        return named

    def get_config(self) -> dict[str, Any]:
        own = {"head": self.head.to_dict(), "pools": self.pools}
        return {**super().get_config(), **own}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        head = HeadConfig.from_dict(config["head"])
        return super().from_config({**config, "head": head})


def mean_of_tokens(states: Any, mask: Any) -> Any:
    """Returns the mean of states [B, T, K, H] over the tokens, float32 [B, 1, K, H].

    `mask` is int32 [B, T]: 1 for a token, 0 for padding.
    """
    weights = ops.cast(ops.expand_dims(mask, (2, 3)), "float32")  # [B, T, 1, 1]
    total = ops.sum(ops.cast(states, "float32") * weights, axis=1, keepdims=True)
    return total / ops.maximum(ops.sum(weights, axis=1, keepdims=True), 1.0)
